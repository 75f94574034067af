#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "text/tokenizer/tokenizer.h"

namespace turnbench {

/// Decodes an answer token by token.  The concatenated results equal `Tokenizer::decode` of all
/// tokens.
class TextStream {
 public:
  /// The tokenizer must outlive it.
  explicit TextStream(const Tokenizer& tokenizer) : tokenizer_(tokenizer) {}

  /// The text that this token completes; empty if it ends within a character.
  std::string add(int token);
  /// The text of the remaining tokens, which end within a character.
  std::string finish();

 private:
  /// The text of the tokens from `end_` on, which also depends on the preceding tokens.
  std::string next() const;

  const Tokenizer& tokenizer_;
  std::vector<int> tokens_;
  std::size_t begin_ = 0, end_ = 0;  ///< the last tokens whose text was returned
};

}  // namespace turnbench
