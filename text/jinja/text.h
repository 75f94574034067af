#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/text.h"
#include "text/jinja/budget.h"

namespace turnbench::jinja {

/// A part of a text that is a verbatim copy: its bytes [begin, end) equal those of the string
/// `origin` from byte `source` on.
struct Piece {
  std::size_t begin = 0, end = 0;
  int origin = 0;
  std::size_t source = 0;

  bool operator==(const Piece&) const = default;
};

/// A UTF-8 string that records which of its parts are copies of given strings, in ascending order.
/// Parts without a piece were written by the template or returned by a function.
class Text {
 public:
  Text() = default;
  explicit Text(std::string bytes) : bytes_(std::move(bytes)) {}
  /// A given string, whose only piece is the whole string.
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

/// A part of a text, in bytes.  The text must outlive it.
struct Slice {
  const Text* text = nullptr;
  std::size_t begin = 0, end = 0;

  std::string_view bytes() const { return text->bytes().substr(begin, end - begin); }
};

/// Builds a text.  All work is charged to the budget.
class TextBuilder {
 public:
  explicit TextBuilder(Budget& budget) : budget_(budget) {}

  TextBuilder& add(std::string_view written);
  TextBuilder& add(const Slice& copied);
  TextBuilder& add(const Text& copied) { return add(Slice{&copied, 0, copied.size()}); }
  /// Appends the same text `count` times.
  TextBuilder& repeat(const Text& copied, std::size_t count);
  /// Appends the text, with the characters replaced for which `escape` returns a text.
  template <typename Escape>
  TextBuilder& add_escaped(const Text& copied, const Escape& escape);

  Budget& budget() const { return budget_; }
  Text finish() { return std::move(text_); }

 private:
  Budget& budget_;
  Text text_;
};

template <typename Escape>
TextBuilder& TextBuilder::add_escaped(const Text& copied, const Escape& escape) {
  std::size_t done = 0;
  for (std::size_t at = 0; at < copied.size();) {
    const std::size_t here = at;
    const std::string escaped = escape(next_code_point(copied.bytes(), at));
    if (escaped.empty()) continue;
    budget_.steps(1);
    add(Slice{&copied, done, here}).add(escaped);
    done = at;
  }
  return add(Slice{&copied, done, copied.size()});
}

/// The number of code points of well-formed text.
std::size_t count_code_points(std::string_view text);

/// The byte at which the code point `index` begins; the size if there are fewer code points.
std::size_t offset_of(std::string_view text, std::size_t index);

/// Methods of Python's `str`, on texts with recorded origins.  Parts are returned as slices of the
/// text, so that their origins are kept; only changes of case lose them.

/// `strip`: removes white space, or the characters `chars`.
Slice strip(const Text& text, std::optional<std::string_view> chars, bool left, bool right);

/// `split`: at a non-empty separator, or at white space; at most `most` times unless negative.
std::vector<Slice> split_text(const Text& text, std::optional<std::string_view> separator,
                              std::int64_t most);

/// `rsplit`: as `split_text`, from the right.
std::vector<Slice> split_text_from_right(const Text& text, std::string_view separator,
                                         std::int64_t most);

/// `splitlines`: at each of Python's line ends.
std::vector<Slice> split_lines(const Text& text);

/// `replace`: at most `most` times unless negative.
Text replace(const Text& text, std::string_view from, const Text& to, std::int64_t most,
             Budget& budget);

/// `capitalize` and `title`, and Jinja2's filter title, for which words begin after white space,
/// hyphens and opening brackets.  They reject text that is not ASCII.
std::string capitalize(std::string_view text);
std::string title(std::string_view text);
std::string title_words(std::string_view text);

}  // namespace turnbench::jinja
