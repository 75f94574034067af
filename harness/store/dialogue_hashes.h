#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "datasets/dialogue.h"

namespace turnbench {

/// Hashes by which dialogues that are not independent of each other can be found: dialogues with a
/// common hash have the same text.  Sorted, each of 16 hexadecimal digits.
///
/// One hash is that of the context of each turn that has one.  Another one is that of the id, the
/// questions and the references: generated dialogues with other lengths or depths, but the same
/// hidden statements, have it in common.
std::vector<std::string> text_hashes(const Dialogue& dialogue);

/// What a store keeps of a dialogue whose texts are left out.
struct DialogueHashes {
  std::string content;  ///< of the JSON
  std::string texts;    ///< `text_hashes`, separated by spaces; empty if it is no dialogue
};

/// The hashes of a stored dialogue; empty if it has no texts.
DialogueHashes hashes_of(std::string_view json);

}  // namespace turnbench
