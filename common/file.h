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

/// Whether a path exists, is a directory, or is a regular file.  Links are followed.  Where the
/// system cannot look (a name that is too long, a directory without permission to enter), the
/// answer is false instead of an error.
bool path_exists(const std::filesystem::path& path);
bool directory_exists(const std::filesystem::path& path);
bool regular_file_exists(const std::filesystem::path& path);
/// The paths in a directory, sorted by name.
/// @throws Error (input) if the directory cannot be read.
std::vector<std::filesystem::path> list_directory(const std::filesystem::path& directory);

/// The whole file as bytes.
/// @throws Error (input), with the path and the reason, if it cannot be read.
std::string read_file(const std::filesystem::path& path);

/// Writes a temporary file in the same directory and renames it to `path`, so that readers never
/// see a partial file.  If writing fails, the temporary file is removed.  Follows links.  Devices,
/// pipes and the files that stdout and stderr refer to are written in place.
/// @throws Error if `path` is a directory or cannot be written.
void write_file(const std::filesystem::path& path, std::string_view content);
/// Protects files of other kinds from being replaced by `write_file`.  is_own(): whether the file
/// at `path`, which has content, is of the kind `kind` ("plan").
/// @throws Error (input) if it is not; `expected` ends the message.
void require_own_file(const std::filesystem::path& path, std::string_view kind,
                      const std::function<bool()>& is_own,
                      std::string_view expected = "another name");

/// Calls `visit(line, number)` for each line, without its line end; numbers start at 1.  Reads in
/// blocks: only the longest line must fit in memory.  `path` may lead into a zip archive
/// (DIR/data.zip/data/qasper.jsonl); lines there have at most 64 MiB.
/// @throws Error (input) if the file cannot be read.
void for_each_line(const std::filesystem::path& path,
                   const std::function<void(std::string_view, std::size_t)>& visit);

/// Finds a directory of the project: `name` in the working directory, in the parent of the
/// directory that contains the program (build/turnbench in a clone), and in share/turnbench there
/// (where it is installed).  Returns the existing ones without duplicates.
std::vector<std::filesystem::path> project_directories(const std::filesystem::path& name);
/// The first of `project_directories`; empty if there is none.
std::filesystem::path project_directory(const std::filesystem::path& name);

/// A read-only memory map of a file, unmapped when destroyed.
class MappedFile {
 public:
  explicit MappedFile(const std::filesystem::path& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::span<const std::byte> bytes() const { return {data_, size_}; }
  /// Releases the pages that lie completely inside `part`, a part of `bytes`, from resident memory.
  /// A later access reads them from the file again.
  void release_pages(std::span<const std::byte> part) const;

 private:
  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

/// 128-bit content hash as 32 hexadecimal digits.
std::string hash_bytes(std::span<const std::byte> bytes);
std::string hash_text(std::string_view text);

}  // namespace turnbench
