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

struct TinyOptions {
  int turns = 0;      ///< 0: two and three in turn
  int length = 1900;  ///< of a dialogue, in words and punctuation marks
  std::size_t count = 100;
  std::uint64_t seed = 0;
};

std::vector<Dialogue> make_tiny_dialogues(TinyTask task, const TinyOptions& options);

/// Name of a task's dataset: `tiny-fact`, `tiny-hop`, `tiny-label`, `tiny-list`.
std::string_view name_of(TinyTask task);

}  // namespace turnbench
