#include "inference/engine/checkpoint_tokenizer.h"

#include <fmt/format.h>

#include "common/error.h"
#include "common/file.h"
#include "inference/model/embedded_model.h"

namespace turnbench {

Tokenizer open_tokenizer(const Checkpoint& checkpoint) {
  if (checkpoint.name != "tiny" && checkpoint.directory.empty()) {
    throw input_error("{}: found random weights without a tokenizer, expected a model with one",
                      checkpoint.name);
  }
  Tokenizer tokenizer =
      checkpoint.name == "tiny"
          ? Tokenizer::from_json(embedded::tokenizer(), embedded::tokenizer_config(),
                                 "tiny/tokenizer.json")
          : Tokenizer::open(checkpoint.directory);
  if (tokenizer.vocab_size() > checkpoint.config.vocab) {
    throw input_error("{}: found a tokenizer of {} tokens, expected at most the model's {}",
                      checkpoint.name, tokenizer.vocab_size(), checkpoint.config.vocab);
  }
  return tokenizer;
}

std::string tokenizer_hash(const Checkpoint& checkpoint) {
  if (checkpoint.name == "tiny")
    return hash_text(std::string(embedded::tokenizer()) +
                     std::string(embedded::tokenizer_config()));
  std::string all;
  for (const char* name :
       {"tokenizer.json", "vocab.json", "merges.txt", "tokenizer.model", "tokenizer_config.json"}) {
    const std::filesystem::path file = checkpoint.directory / name;
    if (path_exists(file)) all += fmt::format("{} {} ", name, hash_text(read_file(file)));
  }
  return hash_text(all);
}

bool has_tokenizer(const Checkpoint& checkpoint) {
  if (checkpoint.name == "tiny") return true;
  if (checkpoint.directory.empty()) return false;
  const auto exists = [&](const char* file) { return path_exists(checkpoint.directory / file); };
  return exists("tokenizer.json") || exists("vocab.json") || exists("tokenizer.model");
}

}  // namespace turnbench
