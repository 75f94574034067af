#include "harness/run/labelled_text.h"

namespace turnbench {

std::string_view name_of(SpanKind kind) {
  constexpr std::string_view kNames[] = {"instruction", "context", "question",
                                         "cue",         "markup",  "answer"};
  return kNames[static_cast<std::size_t>(kind)];
}

void LabelledText::add(SpanKind kind, int turn, std::string_view piece) {
  if (piece.empty()) return;
  text += piece;
  const bool goes_on = !parts.empty() && parts.back().kind == kind && parts.back().turn == turn &&
                       kind != SpanKind::kContext;
  if (!goes_on) parts.push_back({kind, turn, text.size()});
  parts.back().end = text.size();
}

LabelledTokens LabelledText::encode(const Tokenizer& tokenizer, bool add_special) const {
  LabelledTokens out;
  std::vector<std::size_t> ends;
  out.tokens = tokenizer.encode(text, {.parse_special = true, .add_special = add_special}, ends);
  // A token that does not complete a character, and so ends where that character begins.
  const auto is_partial = [&](std::size_t i) { return i > 0 && ends[i] == ends[i - 1]; };
  std::size_t token = 0;
  for (const Part& part : parts) {
    const auto begin = static_cast<std::int32_t>(token);
    while (token < ends.size() &&
           (ends[token] < part.end || (ends[token] == part.end && !is_partial(token))))
      ++token;
    if (static_cast<std::int32_t>(token) > begin)
      out.spans.push_back({part.kind, part.turn, begin, static_cast<std::int32_t>(token)});
  }
  if (!out.spans.empty()) out.spans.back().end = static_cast<std::int32_t>(ends.size());
  return out;
}

}  // namespace turnbench
