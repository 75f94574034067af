#pragma once

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
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

/// What one rendering may take.  A chat template uses some hundred steps a message.
struct Limits {
  /// Nodes evaluated, replacements made, elements and 64-byte blocks looked at.
  std::int64_t steps = 20'000'000;
  std::int64_t bytes = 1'073'741'824;  ///< of all texts and lists made, intermediate ones included
  int depth = 600;  ///< expressions, statements and macro calls within each other
};

/// What is left of the limits.  Whatever is made or walked is charged before it is made, so that
/// neither time nor memory depends on what a template asks for.
class Budget {
 public:
  explicit Budget(const Limits& limits) : limits_(limits), left_(limits) {}

  /// Work that takes the time of `count` evaluated nodes.
  void steps(std::size_t count) {
    if (count > static_cast<std::size_t>(left_.steps)) {
      throw complaint("found more than {} steps, expected at most so many", limits_.steps);
    }
    left_.steps -= static_cast<std::int64_t>(count);
  }

  /// A text of `count` bytes that is read.
  void read(std::size_t count) { steps(count / 64); }

  /// A text of `count` bytes that is made, or `times` of them.
  void make(std::size_t count, std::size_t times = 1) {
    const auto left = static_cast<std::size_t>(left_.bytes);
    if (count > 0 && times > left / count) {
      throw complaint("found more than {} bytes of text, expected at most so many", limits_.bytes);
    }
    read(count * times);
    left_.bytes -= static_cast<std::int64_t>(count * times);
  }

  /// `count` elements of a list that is made.
  void elements(std::size_t count) {
    steps(count);
    make(count * kElement);
  }

  /// Stands for one level of recursion while it lives.
  class Level {
   public:
    explicit Level(Budget& budget) : budget_(budget) {
      if (budget_.left_.depth == 0) {
        throw complaint("found nesting deeper than {}, expected at most so many levels",
                        budget_.limits_.depth);
      }
      --budget_.left_.depth;
    }
    ~Level() { ++budget_.left_.depth; }
    Level(const Level&) = delete;
    Level& operator=(const Level&) = delete;

   private:
    Budget& budget_;
  };

 private:
  static constexpr std::size_t kElement = 32;  // bytes

  Limits limits_, left_;
};

}  // namespace turnbench::jinja
