#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>

namespace turnbench {

/// Reads one file of a zip archive as a stream, decompressing it on the way.
class ZipMember {
 public:
  /// The two parts of a path like DIR/data.zip/data/qasper.jsonl: the archive DIR/data.zip and its
  /// member data/qasper.jsonl.
  struct Place {
    std::filesystem::path archive;
    std::string member;
  };
  /// Splits `path` at the archive.  Nullopt if `path` is itself a file or directory, or if no part
  /// of it is a file.
  static std::optional<Place> find(const std::filesystem::path& path);

  /// @throws Error (input) if the file is no zip archive, the member is missing, or its compression
  /// is neither "stored" nor "deflated".
  explicit ZipMember(const Place& place);

  /// Reads up to `size` bytes and returns their number, 0 at the end.
  /// @throws Error (input) if the data is damaged.
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

/// The first of `names` that the archive contains.
/// @throws Error (input) if the file is no zip archive.
std::optional<std::string> first_in_zip(const std::filesystem::path& path,
                                        std::span<const std::string> names);

}  // namespace turnbench
