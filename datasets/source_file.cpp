#include "datasets/source_file.h"

#include <algorithm>
#include <vector>

#include "common/error.h"
#include "common/file.h"
#include "common/text.h"
#include "common/zip.h"

namespace turnbench {
namespace {

namespace fs = std::filesystem;

bool is_archive(const fs::path& path) {
  return path.extension() == ".zip" && regular_file_exists(path);
}

}  // namespace

fs::path find_source_file(const fs::path& source, std::span<const std::string> names) {
  if (!directory_exists(source) && !is_archive(source)) return source;
  std::vector<fs::path> archives = {source};
  if (directory_exists(source)) {
    for (const std::string& name : names) {
      if (path_exists(source / name)) return source / name;
    }
    archives = list_directory(source);
    std::erase_if(archives, [](const fs::path& path) { return !is_archive(path); });
  }
  for (const fs::path& archive : archives) {
    if (const auto name = first_in_zip(archive, names)) return archive / *name;
  }
  throw input_error("{}: found none of {}, expected one", source.string(), join(names, ", "));
}

std::string read_utf8_file(const fs::path& file) {
  std::string text = read_file(file);
  require_utf8(text, file.string());
  return text;
}

}  // namespace turnbench
