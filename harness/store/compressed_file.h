#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>

namespace turnbench {

/// Whether a file is compressed, according to its name, which ends in .zst.  (Its content does not
/// decide: if a program closes a file that it also has open as a store, SQLite's locks are lost.)
bool is_compressed(const std::filesystem::path& path);

/// The largest content of a compressed file: what SQLite can open in memory (sqlite3_malloc64).
inline constexpr std::size_t kLargestContent = 0x7FFFFEFF;  // bytes

/// Compresses with Zstandard, for a small size and with a checksum.
std::string compressed(std::string_view content);

/// The content of a file that consists of Zstandard's frames.
/// @throws Error (input) if the file cannot be read, is damaged, or has more than `kLargestContent`
std::string decompress_file(const std::filesystem::path& path);

}  // namespace turnbench
