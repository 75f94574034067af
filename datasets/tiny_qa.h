#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "datasets/dialogue.h"

namespace turnbench {

/// Question answering over synthetic facts, in the vocabulary of the embedded model `tiny`.
/// Contexts are paragraphs of facts and filler.  Every key is stated once, so every question has
/// one answer.  A question may refer to the contexts of this turn or of an earlier one.  The same
/// seed gives the same bytes on every machine, at any length.
enum class TinyTask {
  kFact,  ///< "what is the color of alice?": one fact
  kHop,   ///< "for the friend of alice, what is the color?": two facts, possibly of different turns
  kLabel,  ///< "what is the label of quiet river?": examples of the noun with other adjectives
  kList    ///< "what is the week of alice?": six facts, an answer of about 60 tokens
};

/// Maximum number of turns: `kList` asks about another person in each turn.
constexpr int kMaxTinyTurns = 64;

struct TinyOptions {
  int turns = 0;  ///< at most kMaxTinyTurns; 0: two and three, alternating
  /// Length of a dialogue, in words and punctuation marks.  Each turn has an equal share, to within
  /// a sentence, and at least the facts that its question needs.
  int length = 1900;
  std::size_t count = 100;
  std::uint64_t seed = 0;
};

std::vector<Dialogue> make_tiny_dialogues(TinyTask task, const TinyOptions& options);

/// Minimum length of a turn, in words and punctuation marks: its question and the facts that it
/// needs.
int min_turn_length(TinyTask task);

/// The name of the task's dataset: `tiny-fact`, `tiny-hop`, `tiny-label`, `tiny-list`.
std::string_view name_of(TinyTask task);

}  // namespace turnbench
