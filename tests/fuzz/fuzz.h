#pragma once

#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>

#include "common/error.h"
#include "common/text.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace turnbench::fuzz {

inline std::string_view text_of(const std::uint8_t* data, std::size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

/// The first line of `input`, which is removed together with its line end.
inline std::string_view take_line(std::string_view& input) {
  const std::string_view line = input.substr(0, input.find('\n'));
  input.remove_prefix(std::min(line.size() + 1, input.size()));
  return line;
}

/// If `holds` is false, prints the finding and aborts.
inline void require(bool holds, std::string_view finding) {
  if (holds) return;
  fmt::print(stderr, "finding: {}\n", finding);
  std::abort();
}

/// Calls `read`.  It may refuse its input with a one-line error; any other exception is a finding.
template <typename Read>
void expect_value_or_refusal(const Read& read) {
  try {
    read();
  } catch (const Error& error) {
    const std::string_view message = error.what();
    require(error.kind() == ErrorKind::kInput, message);
    require(is_valid_utf8(message) && message.find('\n') == std::string_view::npos, message);
    require(message.size() < 4000, message);  // the longest message lists all datasets
  }
}

/// The directory in which small files are fastest: in memory if the system has one there.
inline std::filesystem::path memory_directory() {
  const std::filesystem::path shared = "/dev/shm";
  return std::filesystem::exists(shared) ? shared : std::filesystem::temp_directory_path();
}

/// A file in a directory of this process, which is removed at the end.
class InputFile {
 public:
  explicit InputFile(std::string_view name)
      : folder_(memory_directory() / fmt::format("turnbench_fuzz_{}", ::getpid())),
        path_(folder_ / name) {
    std::filesystem::create_directories(folder_);
  }
  ~InputFile() { std::filesystem::remove_all(folder_); }
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path beside(std::string_view name) const { return folder_ / name; }

 private:
  std::filesystem::path folder_, path_;
};

}  // namespace turnbench::fuzz
