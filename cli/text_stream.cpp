#include "cli/text_stream.h"

#include <span>

namespace turnbench {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // for bytes that do not form a character

}  // namespace

std::string TextStream::next() const {
  // The decoding of the first token differs, and that of a byte depends on the preceding ones.
  const std::span<const int> all = std::span(tokens_).subspan(begin_);
  const std::string before = tokenizer_.decode(all.first(end_ - begin_), true),
                    now = tokenizer_.decode(all, true);
  return now.starts_with(before) ? now.substr(before.size()) : "";
}

std::string TextStream::add(int token) {
  tokens_.push_back(token);
  std::string out = next();
  if (out.empty() || out.ends_with(kReplacement)) return "";
  begin_ = end_;
  end_ = tokens_.size();
  return out;
}

std::string TextStream::finish() {
  std::string out = next();
  begin_ = end_;
  end_ = tokens_.size();
  return out;
}

}  // namespace turnbench
