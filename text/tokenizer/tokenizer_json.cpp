#include <nlohmann/json.hpp>
#include <utility>

#include "common/error.h"
#include "common/text.h"
#include "text/tokenizer/byte_level.h"
#include "text/tokenizer/tokenizer_parts.h"

namespace turnbench {
namespace {

const Json kNull;

/// The value of `key`; null if it is missing.
JsonView optional_at(const JsonView& json, const std::string& key) {
  return json.has(key) ? json.at(key) : JsonView(kNull, json.source(), json.path() + "/" + key);
}

/// Both forms: "a b" and ["a", "b"].
std::pair<std::string, std::string> read_merge(const JsonView& merges, std::size_t index) {
  const Json& merge = merges.json()[index];
  if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string()) {
    return {merge[0].get<std::string>(), merge[1].get<std::string>()};
  }
  if (merge.is_string()) {
    const std::vector<std::string> halves = split(merge.get_ref<const std::string&>(), " ");
    if (halves.size() == 2) return {halves[0], halves[1]};
  }
  merges[index].fail("two tokens, as \"a b\" or [\"a\", \"b\"]");
}

std::vector<BpeMerge> read_merges(const JsonView& json, const Vocabulary& vocabulary) {
  std::vector<BpeMerge> out;
  const std::size_t n = json.size();
  out.reserve(n);
  for (std::size_t i = 0; i < n; ++i) {
    const auto [left, right] = read_merge(json, i);
    const BpeMerge merge{vocabulary.find(left), vocabulary.find(right),
                         vocabulary.find(left + right), static_cast<std::uint32_t>(i)};
    if (left.empty() || right.empty() || merge.left < 0 || merge.right < 0 || merge.result < 0) {
      json[i].fail("tokens of the vocabulary whose concatenation is one too");
    }
    out.push_back(merge);
  }
  return out;
}

/// Rejects options of the model that would change the result and that no supported model uses.
void refuse_variants(const JsonView& model) {
  if (model.get("type", std::string("BPE")) != "BPE") model.at("type").fail("BPE");
  if (model.get("dropout", 0.0) != 0.0) model.at("dropout").fail("0 or null");
  for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    if (!model.get(key, std::string()).empty()) model.at(key).fail("null");
  }
}

BpeRules read_rules(const JsonView& model, const Vocabulary& vocabulary, bool byte_level) {
  BpeRules rules;
  rules.byte_level = byte_level;
  rules.byte_fallback = model.get("byte_fallback", false);
  rules.ignore_merges = model.get("ignore_merges", false);
  rules.fuse_unk = model.get("fuse_unk", false);
  if (model.has("unk_token")) {
    rules.unk = vocabulary.find(model.at("unk_token").as_string());
    if (rules.unk < 0) model.at("unk_token").fail("a token of the vocabulary");
  }
  return rules;
}

/// Rejects merges of byte tokens, which represent bytes of unknown characters: such a merge could
/// join bytes that are not adjacent in the text.
void refuse_merged_bytes(const JsonView& merges, const std::vector<BpeMerge>& parsed,
                         const Vocabulary& vocabulary) {
  const auto is_byte = [&](int id) { return byte_of_fallback(vocabulary.token(id)).has_value(); };
  for (std::size_t i = 0; i < parsed.size(); ++i) {
    if (is_byte(parsed[i].left) || is_byte(parsed[i].right)) {
      merges[i].fail("no merge of the tokens of bytes");
    }
  }
}

std::vector<AddedToken> read_added_tokens(const JsonView& json) {
  std::vector<AddedToken> out;
  if (json.is_null()) return out;
  for (const JsonView& item : json.items()) {
    out.push_back(
        AddedTokens::parse(item, static_cast<int>(item.at("id").as_integer(0, kMaxTokenId))));
  }
  return out;
}

/// The ids that "special_tokens" of a template lists for `name`.
std::vector<int> template_ids(const JsonView& processor, const JsonView& name,
                              const TokenizerParts& parts) {
  const JsonView known = processor.at("special_tokens");
  if (!known.has(name.as_string())) name.fail("a key of special_tokens");
  std::vector<int> out;
  for (const JsonView& id : known.at(name.as_string()).at("ids").items()) {
    const int value = static_cast<int>(id.as_integer(0, kMaxTokenId));
    if (!parts.vocabulary.has(value) && parts.added.find(value) == nullptr) {
      id.fail("the id of a token");
    }
    out.push_back(value);
  }
  return out;
}

/// Each processor adds its tokens around the result of the previous one.
void read_post_processor(const JsonView& json, TokenizerParts& parts) {
  if (json.is_null()) return;
  const std::string type = json.at("type").as_string();
  if (type == "ByteLevel") return;  // changes offsets only
  if (type == "Sequence") {
    for (const JsonView& part : json.at("processors").items()) read_post_processor(part, parts);
    return;
  }
  if (type != "TemplateProcessing") {
    json.at("type").fail("one of: ByteLevel, TemplateProcessing, Sequence");
  }
  std::vector<int> before, behind;
  int sequences = 0;
  for (const JsonView& piece : json.at("single").items()) {
    if (piece.has("Sequence")) {
      ++sequences;
      continue;
    }
    const std::vector<int> ids = template_ids(json, piece.at("SpecialToken").at("id"), parts);
    std::vector<int>& side = sequences == 0 ? before : behind;
    side.insert(side.end(), ids.begin(), ids.end());
  }
  if (sequences != 1) json.at("single").fail("the sequence once");
  parts.prefix.insert(parts.prefix.begin(), before.begin(), before.end());
  parts.suffix.insert(parts.suffix.end(), behind.begin(), behind.end());
}

}  // namespace

TokenizerParts read_tokenizer_json(std::string_view text, const std::string& source) {
  const Json document = parse_json(text, source);
  const JsonView json(document, source);
  const JsonView model = json.at("model");
  refuse_variants(model);
  TokenizerParts parts;
  parts.normalizer = Normalizer::parse(optional_at(json, "normalizer"));
  parts.pre_tokenizer = PreTokenizer::parse(optional_at(json, "pre_tokenizer"));
  parts.decoder = TokenDecoder::parse(optional_at(json, "decoder"));
  parts.vocabulary = Vocabulary::parse(model.at("vocab"));
  const std::vector<BpeMerge> merges = read_merges(model.at("merges"), parts.vocabulary);
  const BpeRules rules = read_rules(model, parts.vocabulary, parts.pre_tokenizer.byte_level());
  if (rules.byte_fallback) refuse_merged_bytes(model.at("merges"), merges, parts.vocabulary);
  parts.bpe = Bpe(parts.vocabulary, merges, rules);
  const JsonView added = optional_at(json, "added_tokens");
  parts.added = AddedTokens(read_added_tokens(added), parts.vocabulary, parts.normalizer,
                            source + ": " + added.path());
  read_post_processor(optional_at(json, "post_processor"), parts);
  return parts;
}

}  // namespace turnbench
