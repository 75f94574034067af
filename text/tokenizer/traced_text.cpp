#include "text/tokenizer/traced_text.h"

#include <utility>

namespace turnbench {

TracedText TracedText::slice(TextRange range) const {
  const std::string_view part = view().substr(range.begin, range.end - range.begin);
  if (!rewritten()) return TracedText(part, base_ + range.begin);
  TracedText out({}, 0);
  out.text_ = part;
  out.origins_.assign(origins_.begin() + static_cast<std::ptrdiff_t>(range.begin),
                      origins_.begin() + static_cast<std::ptrdiff_t>(range.end) + 1);
  return out;
}

void TextRewriter::keep_until(std::size_t offset) {
  text_ += source_.view().substr(done_, offset - done_);
  while (done_ < offset) origins_.push_back(source_.origin(++done_));
}

void TextRewriter::replace(TextRange range, std::string_view with) {
  if (origins_.empty()) {
    text_.reserve(source_.view().size() + with.size());
    origins_.reserve(source_.view().size() + with.size() + 1);
    origins_.push_back(source_.origin(0));
  }
  keep_until(range.begin);
  text_ += with;
  done_ = range.end;
  if (with.empty()) return;
  origins_.insert(origins_.end(), with.size() - 1, source_.origin(range.begin));
  origins_.push_back(source_.origin(range.end));
}

void TextRewriter::finish() {
  if (origins_.empty()) return;
  keep_until(source_.view().size());
  source_.text_ = std::move(text_);
  source_.origins_ = std::move(origins_);
}

}  // namespace turnbench
