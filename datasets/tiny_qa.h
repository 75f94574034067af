#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "datasets/dialogue.h"

namespace turnbench {

/// Question answering over made-up facts, in the words of the embedded model `tiny`.  Contexts are
/// paragraphs of facts and filler; every key is stated once, so every question has one answer.  A
/// question may be about this turn's contexts or about an earlier turn's.  Made of nothing but a
/// seed: byte-identical everywhere, at any length.
enum class TinyTask {
  kFact,  ///< "what is the color of alice?": one fact
  kHop,   ///< "for the friend of alice, what is the color?": two facts, possibly of different turns
  kLabel,  ///< "what is the label of quiet river?": examples of the noun with other adjectives
  kList    ///< "what is the week of alice?": six facts, an answer of about 60 tokens
};

/// The most turns: a list asks about somebody else each time.
constexpr int kMaxTinyTurns = 64;

struct TinyOptions {
  int turns = 0;  ///< at most kMaxTinyTurns; 0: two and three in turn
  /// Of a dialogue, in words and punctuation marks: each turn takes its share to within a sentence,
  /// and at least what its question is about.
  int length = 1900;
  std::size_t count = 100;
  std::uint64_t seed = 0;
};

std::vector<Dialogue> make_tiny_dialogues(TinyTask task, const TinyOptions& options);

/// Words and marks in which a turn has room for its question and what that is about.
int min_turn_length(TinyTask task);

/// Name of a task's dataset: `tiny-fact`, `tiny-hop`, `tiny-label`, `tiny-list`.
std::string_view name_of(TinyTask task);

}  // namespace turnbench
