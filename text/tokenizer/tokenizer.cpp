#include "text/tokenizer/tokenizer.h"

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "common/error.h"
#include "common/file.h"
#include "common/json.h"
#include "common/text.h"
#include "text/tokenizer/bpe.h"
#include "text/tokenizer/tokenizer_parts.h"

namespace turnbench {
namespace {

constexpr std::size_t kMaxText = std::size_t{1} << 30;  // bytes; offsets inside are 32 bits

void require_text(std::string_view text) {
  if (text.size() > kMaxText) {
    throw input_error("text: found {} bytes, expected at most {}", text.size(), kMaxText);
  }
  require_utf8(text, "text");
}

/// The encoding of one text.
class Encoding {
 public:
  Encoding(const TokenizerParts& parts, BpeEncoder& encoder, std::string_view text,
           bool parse_special)
      : parts_(parts), text_(text), parse_special_(parse_special), encoder_(encoder) {}

  void run() {
    for (const TokenSegment& segment : parts_.added.split(text_, false, parse_special_)) {
      if (segment.id >= 0) {
        put(segment.id, segment.range.end);
        continue;
      }
      const std::size_t begin = segment.range.begin;
      TracedText part(text_.substr(begin, segment.range.end - begin), begin);
      parts_.normalizer.apply(part);
      encode_normalized(part);
    }
  }

  void put(int id, std::size_t end) {
    ids.push_back(id);
    ends.push_back(end);
  }

  std::vector<int> ids;
  std::vector<std::size_t> ends;

 private:
  void encode_normalized(const TracedText& part) {
    for (const TokenSegment& segment : parts_.added.split(part.view(), true, parse_special_)) {
      if (segment.id >= 0) {
        put(segment.id, start_of_character(text_, part.origin(segment.range.end)));
        continue;
      }
      TracedText words = part.slice(segment.range);
      for (const TextRange& word : parts_.pre_tokenizer.apply(words)) {
        tokens_.clear();
        encoder_.encode(words.view().substr(word.begin, word.end - word.begin), tokens_);
        for (const BpeToken& token : tokens_) {
          put(token.id, start_of_character(text_, words.origin(word.begin + token.end)));
        }
      }
    }
  }

  const TokenizerParts& parts_;
  std::string_view text_;
  bool parse_special_;
  BpeEncoder& encoder_;
  std::vector<BpeToken> tokens_;
};

/// The `chat_template`: a string, or the default one in a list of {"name", "template"}.
std::string chat_template_of(const JsonView& config) {
  if (!config.has("chat_template")) return "";
  const JsonView value = config.at("chat_template");
  if (!value.is_array()) return value.as_string();
  for (const JsonView& item : value.items()) {
    if (item.at("name").as_string() == "default") return item.at("template").as_string();
  }
  value.fail("a template named \"default\"");
}

std::map<std::string, std::string> named_tokens_of(const JsonView& config) {
  std::map<std::string, std::string> out;
  for (const char* name : {"bos_token", "eos_token", "unk_token", "sep_token", "pad_token",
                           "cls_token", "mask_token"}) {
    if (config.has(name)) out[name] = content_of(config.at(name)).as_string();
  }
  return out;
}

TokenizerParts read_model_file(const std::filesystem::path& path, const JsonView& config) {
  const std::string bytes = read_file(path);
  // A protobuf file begins with 0x0A, the key of the first field; in base64 this would be an empty
  // line.
  if (bytes.starts_with('\n')) return read_sentencepiece(bytes, config, path.string());
  if (!config.has("added_tokens_decoder")) {
    throw input_error(
        "{}: found a tiktoken file without added_tokens_decoder in tokenizer_config.json, expected "
        "the special tokens there",
        path.string());
  }
  return read_tiktoken(bytes, config, path.string());
}

TokenizerParts read_directory(const std::filesystem::path& directory, const JsonView& config) {
  const auto has = [&](const char* name) { return path_exists(directory / name); };
  if (has("tokenizer.json")) {
    const std::filesystem::path path = directory / "tokenizer.json";
    return read_tokenizer_json(read_file(path), path.string());
  }
  if (has("vocab.json") && has("merges.txt")) {
    return read_vocab_and_merges(directory / "vocab.json", directory / "merges.txt", config);
  }
  if (has("tokenizer.model")) return read_model_file(directory / "tokenizer.model", config);
  throw input_error(
      "{}: found no tokenizer, expected tokenizer.json, vocab.json with merges.txt, or "
      "tokenizer.model",
      directory.string());
}

Json parse_config(std::string_view text, const std::string& source) {
  if (text.empty()) return Json::object();
  Json config = parse_json(text, source);
  if (!config.is_object()) JsonView(config, source).fail("an object");
  return config;
}

}  // namespace

struct Tokenizer::Impl {
  Impl(TokenizerParts the_parts, const JsonView& config)
      : parts(std::move(the_parts)),
        vocab_size(std::max(parts.vocabulary.size(), parts.added.size())),
        bos(named_token(parts, config, "bos_token")),
        eos(named_token(parts, config, "eos_token")),
        named_tokens(named_tokens_of(config)),
        chat_template(chat_template_of(config)) {}

  /// The token as the decoder receives it; rejects ids without a token.
  const std::string& token(int id) const {
    if (const AddedToken* added = parts.added.find(id)) return added->decoded;
    if (!parts.vocabulary.has(id)) {
      throw input_error("token ids: found {}, expected the id of one of the {} tokens", id,
                        vocab_size);
    }
    return parts.vocabulary.token(id);
  }

  TokenizerParts parts;
  BpeEncoders encoders{parts.bpe};
  int vocab_size;
  int bos, eos;  // -1 if there is none
  std::map<std::string, std::string> named_tokens;
  std::string chat_template;
};

Tokenizer::Tokenizer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Tokenizer::Tokenizer(Tokenizer&&) noexcept = default;
Tokenizer& Tokenizer::operator=(Tokenizer&&) noexcept = default;
Tokenizer::~Tokenizer() = default;

Tokenizer Tokenizer::open(const std::filesystem::path& directory) {
  const std::filesystem::path config_path = directory / "tokenizer_config.json";
  const bool has_config = path_exists(config_path);
  const Json config =
      parse_config(has_config ? read_file(config_path) : std::string(), config_path.string());
  const JsonView view(config, config_path.string());
  auto impl = std::make_unique<Impl>(read_directory(directory, view), view);
  const std::filesystem::path jinja = directory / "chat_template.jinja";
  if (path_exists(jinja)) impl->chat_template = read_file(jinja);
  return Tokenizer(std::move(impl));
}

Tokenizer Tokenizer::from_json(std::string_view tokenizer, std::string_view config,
                               const std::string& source) {
  const std::string config_source = source + ": tokenizer_config.json";
  const Json parsed = parse_config(config, config_source);
  return Tokenizer(std::make_unique<Impl>(read_tokenizer_json(tokenizer, source),
                                          JsonView(parsed, config_source)));
}

std::vector<int> Tokenizer::encode(std::string_view text, const Options& options) const {
  std::vector<std::size_t> ends;
  return encode(text, options, ends);
}

std::vector<int> Tokenizer::encode(std::string_view text, const Options& options,
                                   std::vector<std::size_t>& ends) const {
  require_text(text);
  std::unique_ptr<BpeEncoder> encoder = impl_->encoders.take();
  Encoding encoding(impl_->parts, *encoder, text, options.parse_special);
  if (options.add_special) {
    for (int id : impl_->parts.prefix) encoding.put(id, 0);
  }
  encoding.run();
  if (options.add_special) {
    for (int id : impl_->parts.suffix) encoding.put(id, text.size());
  }
  impl_->encoders.give_back(std::move(encoder));
  ends = std::move(encoding.ends);
  return std::move(encoding.ids);
}

std::string Tokenizer::decode(std::span<const int> ids, bool skip_special) const {
  std::vector<std::string> tokens;
  tokens.reserve(ids.size());
  for (int id : ids) {
    const std::string& token = impl_->token(id);
    if (!skip_special || !is_special(id)) tokens.push_back(token);
  }
  return impl_->parts.decoder.decode(std::move(tokens));
}

std::string Tokenizer::token_text(int id) const {
  if (const AddedToken* added = impl_->parts.added.find(id)) return added->content;
  return impl_->parts.decoder.bytes_of(impl_->token(id));
}

int Tokenizer::vocab_size() const {
  return impl_->vocab_size;
}

std::optional<int> Tokenizer::id_of(std::string_view token) const {
  const AddedToken* added = impl_->parts.added.find(token);
  return added == nullptr ? std::nullopt : std::optional<int>(added->id);
}

bool Tokenizer::is_special(int id) const {
  const AddedToken* added = impl_->parts.added.find(id);
  return added != nullptr && added->special;
}

std::optional<int> Tokenizer::bos() const {
  return impl_->bos < 0 ? std::nullopt : std::optional<int>(impl_->bos);
}
std::optional<int> Tokenizer::eos() const {
  return impl_->eos < 0 ? std::nullopt : std::optional<int>(impl_->eos);
}

const std::map<std::string, std::string>& Tokenizer::named_tokens() const {
  return impl_->named_tokens;
}

const std::string& Tokenizer::chat_template() const {
  return impl_->chat_template;
}

}  // namespace turnbench
