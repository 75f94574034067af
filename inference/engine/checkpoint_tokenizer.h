#pragma once

#include <string>

#include "inference/engine/model.h"
#include "text/tokenizer/tokenizer.h"

namespace turnbench {

/// Opens the tokenizer of a checkpoint: the embedded one for `tiny`, otherwise the one in its
/// directory.
/// @throws Error (input) if it is missing, invalid, or has more tokens than the model.
Tokenizer open_tokenizer(const Checkpoint& checkpoint);
/// A hash of the files that determine the tokenizer; of nothing for a checkpoint without one.
std::string tokenizer_hash(const Checkpoint& checkpoint);
/// True if the checkpoint has a tokenizer.  Random weights and some directories have none; such
/// models accept only token ids.
bool has_tokenizer(const Checkpoint& checkpoint);

}  // namespace turnbench
