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

/// A text that is being normalized, with the alignment of its bytes to the original text
/// (tokenizers' NormalizedString).  It is a view until something is rewritten.
class TracedText {
 public:
  /// A part of the original text that begins at its byte `base`.  `part` must outlive the object.
  TracedText(std::string_view part, std::size_t base) : part_(part), base_(base) {}

  std::string_view view() const { return rewritten() ? std::string_view(text_) : part_; }

  /// The offset in the original text that corresponds to `offset` (at most the size): the end of
  /// the original of the text before it.  Within a replacement, the begin of the replaced text.
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
  std::vector<std::size_t> origins_;  // [text_.size() + 1] once rewritten, else empty
};

/// Rewrites a text from left to right.  Makes no copy if nothing is replaced.
class TextRewriter {
 public:
  explicit TextRewriter(TracedText& text) : source_(text) {}

  /// Replaces `range`, which must not begin before the end of the previous one.
  void replace(TextRange range, std::string_view with);

  /// The new offset of the byte at `offset`, which must not be before the end of the last
  /// replacement.
  std::size_t new_offset(std::size_t offset) const { return text_.size() + (offset - done_); }

  /// Stores the result in the text.
  void finish();

 private:
  void keep_until(std::size_t offset);

  TracedText& source_;
  std::size_t done_ = 0;  // bytes of the source that are in text_
  std::string text_;
  std::vector<std::size_t> origins_;
};

}  // namespace turnbench
