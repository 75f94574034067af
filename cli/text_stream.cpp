#include "cli/text_stream.h"

#include <span>

namespace turnbench {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // for bytes that make no character

}  // namespace

std::string TextStream::next() const {
  // A decoder treats the first token otherwise, and a byte by those before it.
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
