#pragma once

#include <fmt/format.h>

#include <stdexcept>
#include <string>
#include <utility>

namespace turnbench::jinja {

/// What an operation on values refuses, without a place: who evaluates the expression turns it into
/// an input_error with the template's name, the line and the expression.
class Complaint : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

template <typename... Args>
Complaint complaint(fmt::format_string<Args...> format, Args&&... args) {
  return Complaint(fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace turnbench::jinja
