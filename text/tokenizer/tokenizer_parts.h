#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "common/json.h"
#include "text/tokenizer/added_tokens.h"
#include "text/tokenizer/bpe.h"
#include "text/tokenizer/normalizer.h"
#include "text/tokenizer/pre_tokenizer.h"
#include "text/tokenizer/token_decoder.h"
#include "text/tokenizer/vocabulary.h"

namespace turnbench {

/// The parts of a tokenizer, in the order in which they process a text.
struct TokenizerParts {
  AddedTokens added;
  Normalizer normalizer;
  PreTokenizer pre_tokenizer;
  Vocabulary vocabulary;
  Bpe bpe;
  std::vector<int> prefix, suffix;  ///< tokens that `add_special` adds before and after
  TokenDecoder decoder;
};

// Readers of the four formats.  config: tokenizer_config.json, or {}.  source: the file's name in
// messages.  They throw Error (input) for damaged files and unsupported features.

TokenizerParts read_tokenizer_json(std::string_view text, const std::string& source);

/// Reads vocab.json and merges.txt.  Words are split as by Qwen2Tokenizer if `tokenizer_class`
/// names it, else as by GPT-2's tokenizer.
TokenizerParts read_vocab_and_merges(const std::filesystem::path& vocab,
                                     const std::filesystem::path& merges, const JsonView& config);

TokenizerParts read_sentencepiece(std::string_view bytes, const JsonView& config,
                                  const std::string& source);

/// Reads Llama 3's tokenizer.model: one line "base64 rank" for each token.
TokenizerParts read_tiktoken(std::string_view text, const JsonView& config,
                             const std::string& source);

/// The text of a token that a file names as "text" or {"content": "text"}.
JsonView content_of(const JsonView& token);

/// The id of the token that `config` has under `key`, as a string or {"content": string}; -1 if
/// there is none.
int named_token(const TokenizerParts& parts, const JsonView& config, const std::string& key);

}  // namespace turnbench
