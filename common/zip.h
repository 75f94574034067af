#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>

namespace turnbench {

/// A file inside of a zip archive, from which it is unpacked as it is read.
class ZipMember {
 public:
  /// What a path like DIR/data.zip/data/qasper.jsonl leads to: the archive is the file on it.
  struct Place {
    std::filesystem::path archive;
    std::string member;
  };
  /// None if `path` is a file, a directory, or leads nowhere.
  static std::optional<Place> find(const std::filesystem::path& path);

  /// Refuses what is no zip archive and members that are not there, or neither stored nor deflated.
  explicit ZipMember(const Place& place);

  /// Reads up to `size` bytes; 0 at the end.  Refuses damaged data.
  std::size_t read_some(char* data, std::size_t size);

 private:
  struct CloseArchive {
    void operator()(void* archive) const;
  };
  struct CloseFile {
    void operator()(void* file) const;
  };
  std::string path_;  ///< for messages
  std::unique_ptr<void, CloseArchive> archive_;
  std::unique_ptr<void, CloseFile> file_;
};

/// The first of `names` that an archive has.  Refuses what is no zip archive.
std::optional<std::string> first_in_zip(const std::filesystem::path& path,
                                        std::span<const std::string> names);

}  // namespace turnbench
