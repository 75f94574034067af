#include <algorithm>
#include <charconv>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "common/error.h"
#include "common/file.h"
#include "common/text.h"
#include "text/tokenizer/byte_level.h"
#include "text/tokenizer/sentencepiece.h"
#include "text/tokenizer/tokenizer_parts.h"

namespace turnbench {
namespace {

constexpr std::string_view kByteLevelDecoder = R"({"type": "ByteLevel"})";

// The patterns differ only in numbers.
constexpr std::string_view kQwen2Words =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|)"
    R"(\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kLlama3Words =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+)"
    R"([\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

/// Parses a part of a tokenizer that is not in its file.
template <typename Part>
Part built_in(std::string_view json) {
  const Json parsed = parse_json(json, "built in");
  return Part::parse(JsonView(parsed, "built in"));
}

/// Added tokens in tokenizer_config.json: added_tokens_decoder by id, and the named special tokens,
/// if the vocabulary contains them.
std::map<int, AddedToken> configured_tokens(const JsonView& config, const Vocabulary& vocabulary) {
  std::map<int, AddedToken> out;
  if (config.has("added_tokens_decoder")) {
    const JsonView decoder = config.at("added_tokens_decoder");
    for (const std::string& key : decoder.keys()) {
      int id = -1;
      const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), id);
      const bool whole = error == std::errc() && end == key.data() + key.size();
      if (!whole || id < 0 || id > kMaxTokenId) {
        decoder.fail(fmt::format("keys from 0 to {}, not \"{}\"", kMaxTokenId, printable(key)));
      }
      out[id] = AddedTokens::parse(decoder.at(key), id);
    }
  }
  const auto name = [&](const JsonView& token) {
    const std::string content = content_of(token).as_string();
    const int id = vocabulary.find(content);
    if (id >= 0) out.try_emplace(id, AddedToken{.id = id, .content = content, .special = true});
  };
  for (const char* key : {"bos_token", "eos_token", "unk_token", "pad_token"}) {
    if (config.has(key)) name(config.at(key));
  }
  if (config.has("additional_special_tokens")) {
    for (const JsonView& token : config.at("additional_special_tokens").items()) name(token);
  }
  return out;
}

AddedTokens added_tokens_of(const std::map<int, AddedToken>& tokens, const Vocabulary& vocabulary,
                            const Normalizer& normalizer, const std::string& source) {
  std::vector<AddedToken> list;
  for (const auto& [id, token] : tokens) list.push_back(token);
  return AddedTokens(std::move(list), vocabulary, normalizer, source);
}

/// Adds BOS and EOS around a text, according to `add_bos_token` and `add_eos_token`.
void add_ends(TokenizerParts& parts, const JsonView& config, bool bos_by_default) {
  const auto add = [&](const char* option, const char* key, bool fallback, std::vector<int>& ids) {
    const int id = named_token(parts, config, key);
    if (id >= 0 && config.get(option, fallback)) ids.push_back(id);
  };
  add("add_bos_token", "bos_token", bos_by_default, parts.prefix);
  add("add_eos_token", "eos_token", false, parts.suffix);
}

std::vector<BpeMerge> read_merges_file(const std::filesystem::path& path,
                                       const Vocabulary& vocabulary) {
  std::vector<BpeMerge> out;
  for_each_line(path, [&](std::string_view line, std::size_t number) {
    if (line.starts_with("#version") || line.empty()) return;
    const std::size_t space = line.find(' ');
    BpeMerge merge{-1, -1, -1, static_cast<std::uint32_t>(number)};
    if (space != std::string_view::npos && space > 0 && space + 1 < line.size()) {
      merge.left = vocabulary.find(line.substr(0, space));
      merge.right = vocabulary.find(line.substr(space + 1));
      merge.result = vocabulary.find(replace_all(line, " ", ""));
    }
    if (merge.left < 0 || merge.right < 0 || merge.result < 0) {
      throw input_error(
          "{}: line {}: found {}, expected two tokens of the vocabulary whose concatenation is one "
          "too",
          path.string(), number, printable(shorten(line, 60)));
    }
    out.push_back(merge);
  });
  return out;
}

/// Ranks by descending score; equal scores have equal ranks.
std::vector<std::uint32_t> ranks_of(const SentencePieceModel& model) {
  using Type = SentencePieceModel::Type;
  std::vector<float> scores;
  for (const auto& piece : model.pieces) {
    if (piece.type == Type::kNormal) scores.push_back(piece.score);
  }
  std::sort(scores.begin(), scores.end(), std::greater<>());
  std::vector<std::uint32_t> out;
  for (const auto& piece : model.pieces) {
    const auto at = std::lower_bound(scores.begin(), scores.end(), piece.score, std::greater<>());
    out.push_back(piece.type == Type::kNormal ? static_cast<std::uint32_t>(at - scores.begin())
                                              : kNoRank);
  }
  return out;
}

/// Checks that a piece can be composed of its characters.
void require_characters(const SentencePieceModel& model, const Vocabulary& vocabulary,
                        const std::string& source) {
  for (const auto& piece : model.pieces) {
    if (piece.type != SentencePieceModel::Type::kNormal) continue;
    for (std::size_t begin = 0, end = 0; end < piece.text.size(); begin = end) {
      next_code_point(piece.text, end);
      if (vocabulary.find(std::string_view(piece.text).substr(begin, end - begin)) < 0) {
        throw input_error("{}: found the piece {} with a character that is no piece, expected each",
                          source, printable(shorten(piece.text, 40)));
      }
    }
  }
}

/// The pieces that are matched in the text, and the additions of tokenizer_config.json.
std::map<int, AddedToken> added_pieces(const SentencePieceModel& model, const JsonView& config,
                                       const Vocabulary& vocabulary) {
  using Type = SentencePieceModel::Type;
  std::map<int, AddedToken> out;
  for (int id = 0; id < vocabulary.size(); ++id) {
    const auto& piece = model.pieces[id];
    if (piece.type == Type::kUnknown || piece.type == Type::kControl) {
      out[id] = {.id = id, .content = piece.text, .special = true};
    } else if (piece.type == Type::kUserDefined) {
      out[id] = {.id = id, .content = piece.text, .normalized = true};
    }
  }
  for (auto [id, token] : configured_tokens(config, vocabulary)) {
    // The slow tokenizer, to which the file belongs, matches in the original text.
    token.normalized = false;
    out.try_emplace(id, token);
  }
  return out;
}

/// The decoded bytes; nullopt if `text` is not base64 with padding.
std::optional<std::string> decode_base64(std::string_view text) {
  constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  if (text.empty() || text.size() % 4 != 0) return std::nullopt;
  std::size_t padding = 0;
  while (padding < 2 && text[text.size() - 1 - padding] == '=') ++padding;
  std::string out;
  std::uint32_t bits = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool is_padding = i >= text.size() - padding;
    const std::size_t digit = is_padding ? 0 : kDigits.find(text[i]);
    if (digit == std::string_view::npos) return std::nullopt;
    bits = bits << 6 | static_cast<std::uint32_t>(digit);
    if (i % 4 != 3) continue;
    for (int shift : {16, 8, 0}) out += static_cast<char>(bits >> shift & 0xFF);
    bits = 0;
  }
  out.resize(out.size() - padding);
  return out;
}

}  // namespace

JsonView content_of(const JsonView& token) {
  return token.is_object() ? token.at("content") : token;
}

int named_token(const TokenizerParts& parts, const JsonView& config, const std::string& key) {
  if (!config.has(key)) return -1;
  const JsonView name = content_of(config.at(key));
  const std::string content = name.as_string();
  if (const AddedToken* token = parts.added.find(content)) return token->id;
  const int id = parts.vocabulary.find(content);
  if (id < 0) name.fail("a token of the vocabulary");
  return id;
}

TokenizerParts read_vocab_and_merges(const std::filesystem::path& vocab,
                                     const std::filesystem::path& merges, const JsonView& config) {
  TokenizerParts parts;
  const Json document = parse_json(read_file(vocab), vocab.string());
  parts.vocabulary = Vocabulary::parse(JsonView(document, vocab.string()));
  parts.decoder = built_in<TokenDecoder>(kByteLevelDecoder);
  const std::string tokenizer_class = config.get("tokenizer_class", std::string());
  if (tokenizer_class.starts_with("Qwen2Tokenizer")) {
    parts.normalizer = built_in<Normalizer>(R"({"type": "NFC"})");
    parts.pre_tokenizer = PreTokenizer::byte_level_words(kQwen2Words);
  } else {
    const bool prefix = config.get("add_prefix_space", false);
    parts.pre_tokenizer = built_in<PreTokenizer>(
        fmt::format(R"({{"type": "ByteLevel", "add_prefix_space": {}}})", prefix));
  }
  parts.bpe =
      Bpe(parts.vocabulary, read_merges_file(merges, parts.vocabulary), {.byte_level = true});
  parts.added = added_tokens_of(configured_tokens(config, parts.vocabulary), parts.vocabulary,
                                parts.normalizer, config.source());
  add_ends(parts, config, false);
  return parts;
}

TokenizerParts read_sentencepiece(std::string_view bytes, const JsonView& config,
                                  const std::string& source) {
  const SentencePieceModel model = parse_sentencepiece(bytes, source);
  TokenizerParts parts;
  std::vector<std::pair<std::string, int>> tokens;
  for (const auto& piece : model.pieces) {
    tokens.emplace_back(piece.text, static_cast<int>(tokens.size()));
  }
  parts.vocabulary = Vocabulary(std::move(tokens), source);
  require_characters(model, parts.vocabulary, source);
  BpeRules rules{.byte_fallback = model.byte_fallback, .fuse_unk = true};
  for (int id = 0; id < parts.vocabulary.size(); ++id) {
    const auto& piece = model.pieces[id];
    if (piece.type == SentencePieceModel::Type::kUnknown) rules.unk = id;
  }
  parts.bpe =
      Bpe(parts.vocabulary, merges_by_concatenation(parts.vocabulary, ranks_of(model)), rules);
  // Pieces are matched verbatim, so their contents are not normalized.
  parts.added = added_tokens_of(added_pieces(model, config, parts.vocabulary), parts.vocabulary,
                                Normalizer(), config.source());
  parts.normalizer = built_in<Normalizer>(fmt::format(
      R"({{"type": "Sequence", "normalizers": [{}
           {{"type": "Replace", "pattern": {{"String": " "}}, "content": "\u2581"}}]}})",
      model.add_dummy_prefix ? R"({"type": "Prepend", "prepend": "\u2581"},)" : ""));
  parts.decoder = TokenDecoder::sentencepiece(model.add_dummy_prefix);
  add_ends(parts, config, true);
  return parts;
}

TokenizerParts read_tiktoken(std::string_view text, const JsonView& config,
                             const std::string& source) {
  std::vector<std::pair<std::string, int>> tokens;
  std::size_t number = 0;
  for (const std::string& line : split(text, "\n")) {
    ++number;
    if (line.empty()) continue;
    const std::size_t space = line.find(' ');
    int rank = -1;
    const std::string_view digits =
        space == std::string::npos ? std::string_view() : std::string_view(line).substr(space + 1);
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), rank);
    const std::optional<std::string> bytes = decode_base64(std::string_view(line).substr(0, space));
    if (!bytes || error != std::errc() || end != digits.data() + digits.size()) {
      throw input_error("{}: line {}: found {}, expected a token in base64 and its rank", source,
                        number, printable(shorten(line, 60)));
    }
    tokens.emplace_back(to_byte_level(*bytes), rank);
  }
  TokenizerParts parts;
  parts.vocabulary = Vocabulary(std::move(tokens), source);
  for (int b = 0; b < 256; ++b) {
    if (parts.vocabulary.find(to_byte_level(std::string(1, static_cast<char>(b)))) < 0) {
      throw input_error("{}: found no token for the byte 0x{:02x}, expected all 256", source, b);
    }
  }
  std::vector<std::uint32_t> ranks(static_cast<std::size_t>(parts.vocabulary.size()), kNoRank);
  for (std::size_t id = 0; id < ranks.size(); ++id) {
    if (parts.vocabulary.has(static_cast<int>(id))) ranks[id] = static_cast<std::uint32_t>(id);
  }
  parts.pre_tokenizer = PreTokenizer::byte_level_words(kLlama3Words);
  parts.decoder = built_in<TokenDecoder>(kByteLevelDecoder);
  parts.bpe = Bpe(parts.vocabulary, merges_by_concatenation(parts.vocabulary, ranks),
                  {.byte_level = true, .ignore_merges = true});
  parts.added = added_tokens_of(configured_tokens(config, parts.vocabulary), parts.vocabulary,
                                parts.normalizer, config.source());
  add_ends(parts, config, true);
  return parts;
}

}  // namespace turnbench
