#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace turnbench {

/// What a path leads to.  False also where the system does not look: for a name that is too long,
/// or below a directory that this user may not enter.
bool is_there(const std::filesystem::path& path);
bool is_folder(const std::filesystem::path& path);
bool is_plain_file(const std::filesystem::path& path);
/// What a directory holds, in the order of the names; refuses one that cannot be read.
std::vector<std::filesystem::path> list_directory(const std::filesystem::path& directory);

/// Whole file as bytes; refuses what cannot be read with the path and the reason.
std::string read_file(const std::filesystem::path& path);

/// Writes next to `path` and renames, so that a reader never sees half a file and nothing is left
/// of one that cannot be written.  Links are followed; what is no file (a device, a pipe), and what
/// stdout or stderr goes to, is written to as it is.  Refuses directories.
void write_file(const std::filesystem::path& path, std::string_view content);
/// Whether `write_file` would put another file in the place of one that is there.
bool is_replaceable(const std::filesystem::path& path);

/// Calls `line(text, number)` for each line (without its end, numbers from 1).  Reads in blocks, so
/// a file of any size needs memory only for its longest line.  The path may lead into a zip
/// archive: DIR/data.zip/data/qasper.jsonl, whose lines may have 64 MiB.
void for_each_line(const std::filesystem::path& path,
                   const std::function<void(std::string_view, std::size_t)>& line);

/// A directory of the project's own files: below the working directory, or beside the program's
/// build; empty if it is in neither.
std::filesystem::path project_directory(const std::filesystem::path& name);

/// A read-only memory map of a file.
class MappedFile {
 public:
  explicit MappedFile(const std::filesystem::path& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::span<const std::byte> bytes() const { return {data_, size_}; }
  /// Lets the whole pages of a part of `bytes` leave this process's memory; a later read brings
  /// them back from the file.
  void forget(std::span<const std::byte> part) const;

 private:
  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

/// 128-bit content hash as 32 hexadecimal digits.
std::string hash_bytes(std::span<const std::byte> bytes);
std::string hash_text(std::string_view text);

}  // namespace turnbench
