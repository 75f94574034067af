#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "inference/jinja/budget.h"

namespace turnbench::jinja {

/// A part of a text that is a verbatim copy: its bytes [begin, end) are those of the string
/// `origin` from its byte `source` on.
struct Piece {
  std::size_t begin = 0, end = 0;
  int origin = 0;
  std::size_t source = 0;

  bool operator==(const Piece&) const = default;
};

/// A UTF-8 string that knows which of its parts are copies of given strings, in ascending order.
/// What no piece covers was written by the template or made by a function.
class Text {
 public:
  Text() = default;
  explicit Text(std::string bytes) : bytes_(std::move(bytes)) {}
  /// A given string: a copy of itself.
  Text(std::string bytes, int origin);

  std::string_view bytes() const { return bytes_; }
  std::size_t size() const { return bytes_.size(); }
  const std::vector<Piece>& pieces() const { return pieces_; }

 private:
  friend class TextBuilder;
  std::string bytes_;
  std::vector<Piece> pieces_;
};

using TextPointer = std::shared_ptr<const Text>;

/// A part of a text, in bytes.  The text outlives it.
struct Slice {
  const Text* text = nullptr;
  std::size_t begin = 0, end = 0;

  std::string_view bytes() const { return text->bytes().substr(begin, end - begin); }
};

/// Puts a text together.  Everything is charged to the budget.
class TextBuilder {
 public:
  explicit TextBuilder(Budget& budget) : budget_(budget) {}

  TextBuilder& add(std::string_view written);
  TextBuilder& add(const Slice& copied);
  TextBuilder& add(const Text& copied) { return add(Slice{&copied, 0, copied.size()}); }
  /// `count` times the same text.
  TextBuilder& repeat(const Text& copied, std::size_t count);

  std::size_t size() const { return text_.size(); }
  Budget& budget() const { return budget_; }
  Text finish() { return std::move(text_); }

 private:
  Budget& budget_;
  Text text_;
};

/// The number of code points of well-formed text.
std::size_t count_code_points(std::string_view text);

/// The byte at which the code point `index` begins; the size if there are not so many.
std::size_t offset_of(std::string_view text, std::size_t index);

}  // namespace turnbench::jinja
