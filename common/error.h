#pragma once

#include <fmt/format.h>

#include <stdexcept>
#include <string>
#include <utility>

namespace turnbench {

/// What went wrong, as far as the caller must tell cases apart.
enum class ErrorKind {
  kInput,    ///< bad usage or bad input: exit code 2
  kRuntime,  ///< a failure while running: exit code 1
  kMemory,   ///< a run that would not fit: recorded as such, exit code 1
};

/// The one exception type of the project; `what()` is one line for the user.
class Error : public std::runtime_error {
 public:
  Error(ErrorKind kind, const std::string& message) : std::runtime_error(message), kind_(kind) {}
  ErrorKind kind() const { return kind_; }

 private:
  ErrorKind kind_;
};

template <typename... Args>
Error input_error(fmt::format_string<Args...> format, Args&&... args) {
  return Error(ErrorKind::kInput, fmt::format(format, std::forward<Args>(args)...));
}

template <typename... Args>
Error runtime_error(fmt::format_string<Args...> format, Args&&... args) {
  return Error(ErrorKind::kRuntime, fmt::format(format, std::forward<Args>(args)...));
}

template <typename... Args>
Error memory_error(fmt::format_string<Args...> format, Args&&... args) {
  return Error(ErrorKind::kMemory, fmt::format(format, std::forward<Args>(args)...));
}

/// What `work()` returns; the message of an Error in it begins with the place.
template <typename Work>
auto with_error_prefix(const std::string& place, const Work& work) -> decltype(work()) {
  try {
    return work();
  } catch (const Error& error) {
    throw Error(error.kind(), place + ": " + error.what());
  }
}

}  // namespace turnbench
