#include "datasets/source_file.h"

#include "common/error.h"
#include "common/file.h"
#include "common/text.h"
#include "common/zip.h"

namespace turnbench {

namespace fs = std::filesystem;

fs::path find_source_file(const fs::path& source, std::span<const std::string> names) {
  if (!fs::is_directory(source)) return source;
  for (const std::string& name : names) {
    if (exists_also_in_zip(source / name)) return source / name;
  }
  throw input_error("{}: found none of {}, expected one", source.string(), join(names, ", "));
}

std::string read_text(const fs::path& file) {
  std::string text = read_file(file);
  require_utf8(text, file.string());
  return text;
}

}  // namespace turnbench
