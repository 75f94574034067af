#include "common/zip.h"

#include <zip.h>

#include "common/error.h"
#include "common/file.h"
#include "common/text.h"

namespace turnbench {
namespace {

namespace fs = std::filesystem;

zip_t* open_archive(const fs::path& path) {
  int code = 0;
  zip_t* archive = zip_open(path.c_str(), ZIP_RDONLY, &code);
  if (archive != nullptr) return archive;
  zip_error_t error;
  zip_error_init_with_code(&error, code);
  const std::string found = zip_error_strerror(&error);
  zip_error_fini(&error);
  throw input_error("{}: found no zip archive ({}), expected one", path.string(), printable(found));
}

}  // namespace

void ZipMember::CloseArchive::operator()(void* archive) const {
  zip_discard(static_cast<zip_t*>(archive));
}

void ZipMember::CloseFile::operator()(void* file) const {
  zip_fclose(static_cast<zip_file_t*>(file));
}

std::optional<ZipMember::Place> ZipMember::find(const fs::path& path) {
  if (path_exists(path)) return std::nullopt;
  for (fs::path archive = path.parent_path(); !archive.empty() && archive != archive.root_path();
       archive = archive.parent_path()) {
    if (directory_exists(archive)) return std::nullopt;
    if (regular_file_exists(archive)) {
      return Place{archive, path.lexically_relative(archive).generic_string()};
    }
  }
  return std::nullopt;
}

ZipMember::ZipMember(const Place& place)
    : path_((place.archive / place.member).string()), archive_(open_archive(place.archive)) {
  auto* archive = static_cast<zip_t*>(archive_.get());
  zip_stat_t info;
  const bool known = zip_stat(archive, place.member.c_str(), 0, &info) == 0;
  // Other methods have far higher compression ratios, and may allocate gigabytes at the start.
  if (known && info.comp_method != ZIP_CM_STORE && info.comp_method != ZIP_CM_DEFLATE) {
    throw input_error("{}: found compression method {}, expected a stored or deflated file", path_,
                      info.comp_method);
  }
  if (known) file_.reset(zip_fopen_index(archive, info.index, 0));
  if (file_ == nullptr) {
    throw input_error("{}: found no readable file in the archive ({}), expected one", path_,
                      printable(zip_strerror(archive)));
  }
}

std::size_t ZipMember::read_some(char* data, std::size_t size) {
  auto* file = static_cast<zip_file_t*>(file_.get());
  const zip_int64_t got = zip_fread(file, data, size);
  if (got < 0) {
    throw input_error("{}: found a damaged archive ({}), expected a whole one", path_,
                      printable(zip_file_strerror(file)));
  }
  return static_cast<std::size_t>(got);
}

std::optional<std::string> first_in_zip(const fs::path& path, std::span<const std::string> names) {
  const std::unique_ptr<zip_t, decltype(&zip_discard)> archive(open_archive(path), zip_discard);
  for (const std::string& name : names) {
    if (zip_name_locate(archive.get(), name.c_str(), 0) >= 0) return name;
  }
  return std::nullopt;
}

}  // namespace turnbench
