#pragma once

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>

namespace turnbench::jinja {

/// Error of an operation on values, without a place: the evaluator converts it to an input_error
/// with the template's name, the line and the expression.
class Complaint : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

template <typename... Args>
Complaint complaint(fmt::format_string<Args...> format, Args&&... args) {
  return Complaint(fmt::format(format, std::forward<Args>(args)...));
}

/// Limits of one rendering.  A chat template uses some hundred steps per message.
struct Limits {
  /// Evaluated nodes, replacements, and elements and 64-byte blocks that are read.
  std::int64_t steps = 20'000'000;
  /// Total size of the created texts and lists, including intermediate ones.
  std::int64_t bytes = 1'073'741'824;
  int depth = 600;  ///< nesting of expressions, statements and macro calls
};

/// Remaining budget of a rendering.  Each operation is charged before it runs, so that a template
/// cannot use more time or memory than the limits allow.
class Budget {
 public:
  explicit Budget(const Limits& limits) : limits_(limits), left_(limits) {}

  /// Charges work that takes the time of `count` evaluated nodes.
  void steps(std::size_t count) {
    if (count > static_cast<std::size_t>(left_.steps)) {
      throw complaint("found more than {} steps, expected at most so many", limits_.steps);
    }
    left_.steps -= static_cast<std::int64_t>(count);
  }

  /// Charges reading a text of `count` bytes.
  void read(std::size_t count) { steps(count / 64); }

  /// Charges creating a text of `count` bytes, `times` times.
  void make(std::size_t count, std::size_t times = 1) {
    const auto left = static_cast<std::size_t>(left_.bytes);
    if (count > 0 && times > left / count) {
      throw complaint("found more than {} bytes of text, expected at most so many", limits_.bytes);
    }
    read(count * times);
    left_.bytes -= static_cast<std::int64_t>(count * times);
  }

  /// Charges creating a list of `count` elements.
  void elements(std::size_t count) {
    steps(count);
    make(count * kElement);
  }

  /// One level of recursion, counted during the object's lifetime.
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
