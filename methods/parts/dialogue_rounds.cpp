#include "methods/parts/dialogue_rounds.h"

#include <algorithm>

namespace turnbench {

DialogueRounds::DialogueRounds(std::span<const Span> spans) {
  if (spans.empty()) return;
  int turn = spans.front().turn;
  for (const Span& span : spans) {
    if (span.turn <= turn) continue;
    turn = span.turn;
    begins_.push_back(span.begin);
  }
  for (const Span& span : spans) {
    if (span.kind != SpanKind::kMarkup || span.turn != spans.front().turn) break;
    preamble_ = std::max(preamble_, span.end);
  }
}

std::int32_t DialogueRounds::round_of(std::int32_t position) const {
  const auto behind = std::upper_bound(begins_.begin(), begins_.end(), position);
  return std::max<std::int32_t>(0, static_cast<std::int32_t>(behind - begins_.begin()) - 1);
}

std::vector<SlotRange> DialogueRounds::before(std::int32_t round) const {
  std::vector<SlotRange> out;
  for (std::int32_t r = 0; r < round; ++r) {
    const std::int32_t end = begin(r + 1), first = std::max(begin(r), std::min(preamble_, end));
    out.push_back({first, end});
  }
  return out;
}

std::int32_t end_of_question(std::span<const Span> spans, std::int32_t position) {
  const DialogueRounds rounds(spans);
  const std::int32_t round = rounds.round_of(position);
  std::int32_t end = position + 1;
  for (const Span& span : spans) {
    if (span.kind != SpanKind::kAnswer && rounds.round_of(span.begin) == round)
      end = std::max(end, span.end);
  }
  return end;
}

std::int32_t next_part(std::span<const Span> spans, std::int32_t position) {
  for (std::size_t i = 1; i < spans.size(); ++i) {
    const Span &before = spans[i - 1], &span = spans[i];
    const bool differs = span.turn != before.turn ||
                         (span.kind == SpanKind::kAnswer) != (before.kind == SpanKind::kAnswer);
    if (differs && span.begin > position) return span.begin;
  }
  return -1;
}

}  // namespace turnbench
