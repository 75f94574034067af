#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "inference/policy/policy.h"

namespace turnbench {

/// The rounds of a dialogue: the tokens of a turn from the markup in front of its question to the
/// end of its answer.  In front of the first one stands what a template writes before the first
/// message (a system prompt, the first token), or at least one token.
class DialogueRounds {
 public:
  /// spans: ascending.
  explicit DialogueRounds(std::span<const Span> spans);

  /// Tokens in front of the first round.
  std::int32_t preamble() const { return preamble_; }
  std::int32_t count() const { return static_cast<std::int32_t>(begins_.size()); }
  /// The first token of a round; that of the first one is 0, in front of the preamble.
  std::int32_t begin(std::int32_t round) const { return begins_[static_cast<std::size_t>(round)]; }
  /// The round that the token at a position belongs to; the last one if no span has it.
  std::int32_t round_of(std::int32_t position) const;
  /// The rounds before `round`, without the preamble; empty ones have no tokens.
  std::vector<SlotRange> before(std::int32_t round) const;

 private:
  std::int32_t preamble_ = 1;
  std::vector<std::int32_t> begins_ = {0};  // ascending
};

/// The end of the question of the round that the token at `position` belongs to: behind the last
/// token that is not of an answer.
std::int32_t end_of_question(std::span<const Span> spans, std::int32_t position);

/// The first position behind `position` where a round begins, or an answer begins or ends; none if
/// negative.
std::int32_t next_part(std::span<const Span> spans, std::int32_t position);

}  // namespace turnbench
