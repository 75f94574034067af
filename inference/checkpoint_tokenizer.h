#pragma once

#include "inference/model.h"
#include "inference/tokenizer/tokenizer.h"

namespace turnbench {

/// The tokenizer of a checkpoint: the embedded one for `tiny`, the directory's otherwise.
Tokenizer open_tokenizer(const Checkpoint& checkpoint);
/// Whether there is one; random weights and bare checkpoints take token ids only.
bool has_tokenizer(const Checkpoint& checkpoint);

}  // namespace turnbench
