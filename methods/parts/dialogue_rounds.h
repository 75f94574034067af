#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "inference/policy/policy.h"

namespace turnbench {

/// The rounds of a dialogue.  A round consists of the tokens of a turn from the markup before its
/// question to the end of its answer.  The preamble before the first round is the text of the
/// template before the first message (a system prompt, the first token); it has at least one token.
class DialogueRounds {
 public:
  /// spans: ascending.
  explicit DialogueRounds(std::span<const Span> spans);

  /// Number of tokens before the first round.
  std::int32_t preamble() const { return preamble_; }
  std::int32_t count() const { return static_cast<std::int32_t>(begins_.size()); }
  /// The first token of a round; 0 for the first round, which includes the preamble.
  std::int32_t begin(std::int32_t round) const { return begins_[round]; }
  /// The round of the token at `position`; the last one if no span contains it.
  std::int32_t round_of(std::int32_t position) const;
  /// The token ranges of the rounds before `round`, without the preamble.  Ranges may be empty.
  std::vector<SlotRange> before(std::int32_t round) const;

 private:
  std::int32_t preamble_ = 1;
  std::vector<std::int32_t> begins_ = {0};  // ascending
};

/// The end of the question in the round of the token at `position`: one past the last token that is
/// not part of an answer.
std::int32_t end_of_question(std::span<const Span> spans, std::int32_t position);

/// The first position after `position` at which a round begins, or an answer begins or ends;
/// negative if there is none.
std::int32_t next_part(std::span<const Span> spans, std::int32_t position);

}  // namespace turnbench
