#pragma once

#include <fmt/format.h>

#include <new>
#include <stdexcept>
#include <string>
#include <utility>

namespace turnbench {

/// The kinds of failure that callers treat differently.
enum class ErrorKind {
  kInput,    ///< wrong usage or invalid input: exit code 2
  kRuntime,  ///< a failure while running: exit code 1
  kMemory,   ///< not enough memory: recorded as out of memory, exit code 1
  kDevice,  ///< a device that is unusable for the rest of the process, for example after an illegal
            ///< access
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

/// An exception as an Error: std::bad_alloc is a memory error; other types, which code outside the
/// project throws, are runtime errors with their own message.
inline Error as_error(const std::exception& exception) {
  if (const auto* error = dynamic_cast<const Error*>(&exception)) return *error;
  if (dynamic_cast<const std::bad_alloc*>(&exception) != nullptr)
    return memory_error("the system has no more memory");
  return runtime_error("{}", exception.what());
}

/// Calls `work()` and returns its result.  Rethrows an Error with "PLACE: " before its message.
template <typename Work>
auto with_error_prefix(const std::string& place, const Work& work) -> decltype(work()) {
  try {
    return work();
  } catch (const Error& error) {
    throw Error(error.kind(), place + ": " + error.what());
  }
}

}  // namespace turnbench
