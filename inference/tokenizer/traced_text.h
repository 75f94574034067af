#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace turnbench {

/// A range of bytes [begin, end).
struct TextRange {
  std::size_t begin = 0, end = 0;
  bool operator==(const TextRange&) const = default;
};

/// A text on its way through normalizers that remembers, for each of its byte boundaries, the byte
/// of the original text it stands at.  As long as nothing is rewritten it is a view.
class TracedText {
 public:
  /// A part of the original text that starts at its byte `base`; `part` must outlive the object.
  TracedText(std::string_view part, std::size_t base) : part_(part), base_(base) {}

  std::string_view view() const { return rewritten() ? std::string_view(text_) : part_; }

  /// The byte of the original just behind what became the text before `offset` (at most the size).
  /// Inside of something that was replaced as a whole it is the start of what was replaced.
  std::size_t origin(std::size_t offset) const {
    return rewritten() ? origins_[offset] : base_ + offset;
  }

  /// A copy of the bytes of `range`, or a view of them if nothing was rewritten.
  TracedText slice(TextRange range) const;

 private:
  friend class TextRewriter;
  bool rewritten() const { return !origins_.empty(); }

  std::string_view part_;
  std::size_t base_ = 0;
  std::string text_;
  std::vector<std::size_t> origins_;  // text_.size() + 1 of them once rewritten
};

/// Rewrites a text from left to right.  Costs nothing if nothing is replaced.
class TextRewriter {
 public:
  explicit TextRewriter(TracedText& text) : source_(text) {}

  /// Replaces `range`, which starts at or behind the end of the one before.
  void replace(TextRange range, std::string_view with);

  /// Where the byte at `offset`, at or behind the last replaced one, will stand.
  std::size_t place(std::size_t offset) const { return text_.size() + (offset - done_); }

  /// Puts the result into the text.
  void finish();

 private:
  void keep_until(std::size_t offset);

  TracedText& source_;
  std::size_t done_ = 0;  // so much of the source is in text_
  std::string text_;
  std::vector<std::size_t> origins_;
};

}  // namespace turnbench
