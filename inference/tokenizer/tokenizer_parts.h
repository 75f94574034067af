#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "common/json.h"
#include "inference/tokenizer/added_tokens.h"
#include "inference/tokenizer/bpe.h"
#include "inference/tokenizer/normalizer.h"
#include "inference/tokenizer/pre_tokenizer.h"
#include "inference/tokenizer/token_decoder.h"
#include "inference/tokenizer/vocabulary.h"

namespace turnbench {

/// What a tokenizer is made of, in the order in which a text passes through it.
struct TokenizerParts {
  AddedTokens added;
  Normalizer normalizer;
  PreTokenizer pre_tokenizer;
  Vocabulary vocabulary;
  Bpe bpe;
  std::vector<int> prefix, suffix;  ///< what `add_special` puts around the tokens
  TokenDecoder decoder;
};

/// The four kinds of files.  `config` is tokenizer_config.json, or {}; `source` names the file.

TokenizerParts read_tokenizer_json(std::string_view text, const std::string& source);

/// The words are split as Qwen2Tokenizer does it if `tokenizer_class` says so, else as GPT-2 does.
TokenizerParts read_vocab_and_merges(const std::filesystem::path& vocab,
                                     const std::filesystem::path& merges, const JsonView& config);

TokenizerParts read_sentencepiece(std::string_view bytes, const JsonView& config,
                                  const std::string& source);

/// Llama 3's tokenizer.model: a line "base64 rank" for each token.
TokenizerParts read_tiktoken(std::string_view text, const JsonView& config,
                             const std::string& source);

/// The id of a token that `config` names (a string or {"content": string}) under `key`, or -1.
int named_token(const TokenizerParts& parts, const JsonView& config, const std::string& key);

}  // namespace turnbench
