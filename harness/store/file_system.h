#pragma once

#include <cstdint>
#include <filesystem>
#include <string_view>

namespace turnbench {

/// The name of a file system whose clients do not share memory, which SQLite's write-ahead log
/// needs, by its magic number (`f_type` of statfs): "NFS".  Empty for all others.
std::string_view shared_file_system(std::uint32_t magic);

/// The name of such a file system that contains `file`, which may not exist yet; empty if it is on
/// another one.
std::string_view shared_file_system_of(const std::filesystem::path& file);

}  // namespace turnbench
