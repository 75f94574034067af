#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "datasets/dialogue.h"
#include "harness/store/dialogue_hashes.h"
#include "harness/store/sqlite.h"

namespace turnbench {

/// A stored dialogue without the texts of its prompts: instructions, contexts, questions and answer
/// prefixes are empty.  The sources of paragraphs stay, to which `Turn::relevance` refers.
std::string without_texts(std::string_view json);

/// True for the turns of such a dialogue.
bool lacks_text(const Turn& turn);

/// True if two stored dialogues of one dataset are equal, or differ only because one of them has no
/// texts.
bool is_same_dialogue(std::string_view first, std::string_view second);

/// Adds dialogues to a store, within a transaction of the caller.
class DialogueWriter {
 public:
  explicit DialogueWriter(const Database& db);
  /// Returns false if the dataset has a dialogue of this id.  It stays as it is, or gets the texts
  /// if they were left out.  `hashes`: of a dialogue without texts
  /// @throws Error (runtime) if the dataset has too many dialogues
  bool add(const std::string& dataset, const std::string& id, std::int64_t turns,
           std::string_view json, const DialogueHashes& hashes = {});

 private:
  const Database& db_;
  Statement find_, next_, write_, complete_;
};

}  // namespace turnbench
