#include "text/tokenizer/added_tokens.h"

#include <algorithm>
#include <utility>

#include "common/error.h"
#include "common/text.h"
#include "text/tokenizer/unicode_forms.h"

namespace turnbench {
namespace {

// \w of Rust's regex, which includes the joiners.
constexpr std::string_view kWordCharacter = R"(\A[\w\x{200c}\x{200d}])";

std::string shown(const std::string& content) {
  return printable(shorten(content, 40));
}

/// The begin of the white space that ends at `offset`, not before `least`.
std::size_t white_space_before(std::string_view text, std::size_t offset, std::size_t least) {
  while (offset > least) {
    const std::size_t start = start_of_character(text, offset - 1);
    std::size_t end = start;
    if (!is_white_space(next_code_point(text, end))) break;
    offset = start;
  }
  return offset;
}

std::size_t white_space_after(std::string_view text, std::size_t offset) {
  while (offset < text.size()) {
    std::size_t end = offset;
    if (!is_white_space(next_code_point(text, end))) break;
    offset = end;
  }
  return offset;
}

}  // namespace

AddedToken AddedTokens::parse(const JsonView& json, int id) {
  AddedToken out;
  out.id = id;
  out.content = json.at("content").as_string();
  if (out.content.empty()) json.at("content").fail("a text");
  out.special = json.get("special", false);
  out.single_word = json.get("single_word", false);
  out.lstrip = json.get("lstrip", false);
  out.rstrip = json.get("rstrip", false);
  out.normalized = json.get("normalized", !out.special);
  return out;
}

AddedTokens::AddedTokens(std::vector<AddedToken> tokens, const Vocabulary& vocabulary,
                         const Normalizer& normalizer, const std::string& source)
    : tokens_(std::move(tokens)) {
  for (std::size_t i = 0; i < tokens_.size(); ++i) {
    AddedToken& token = tokens_[i];
    const int index = static_cast<int>(i);
    const int known = vocabulary.find(token.content);
    const bool taken = vocabulary.has(token.id) && known != token.id;
    if ((known >= 0 && known != token.id) || taken) {
      throw input_error("{}: found the added token {} with the id {}, expected {}", source,
                        shown(token.content), token.id,
                        known >= 0 ? fmt::format("{} as in the vocabulary", known)
                                   : "an id that no other token has");
    }
    if (!by_content_.emplace(token.content, index).second ||
        !by_id_.emplace(token.id, index).second) {
      throw input_error("{}: found the added token {} or its id {} twice, expected it once", source,
                        shown(token.content), token.id);
    }
    size_ = std::max(size_, token.id + 1);
    if (token.single_word && !word_) word_ = UnicodeRegex::compile(kWordCharacter, source);
    TracedText content(token.content, 0);
    if (token.normalized) normalizer.apply(content);
    token.decoded = content.view();
    if (token.decoded.empty()) {
      throw input_error(
          "{}: found the added token {}, which normalizes to nothing, expected a text", source,
          shown(token.content));
    }
    (token.normalized ? normalized_ : as_is_).add(token.decoded, index);
  }
}

void AddedTokens::Matcher::add(std::string_view content, int token) {
  int node = 0;
  starts[static_cast<unsigned char>(content[0])] = true;
  for (unsigned char byte : content) {
    int& next = edges[static_cast<std::uint64_t>(node) << 8 | byte];
    if (next == 0) {
      next = static_cast<int>(tokens.size());
      tokens.push_back(-1);
    }
    node = next;
  }
  tokens[node] = token;
}

int AddedTokens::Matcher::match(std::string_view text, std::size_t begin, std::size_t& end) const {
  int node = 0, best = -1;
  for (std::size_t i = begin; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    const int* next = edges.find(static_cast<std::uint64_t>(node) << 8 | byte);
    if (next == nullptr) break;
    node = *next;
    if (tokens[node] < 0) continue;
    best = tokens[node];
    end = i + 1;
  }
  return best;
}

bool AddedTokens::is_word(std::string_view text, std::size_t offset) const {
  RegexMatcher matcher(*word_);
  matcher.start(text.substr(offset));
  TextRange match;
  return matcher.next(match);
}

bool AddedTokens::is_single_word(std::string_view text, TextRange range) const {
  const bool word_before =
      range.begin > 0 && is_word(text, start_of_character(text, range.begin - 1));
  const bool word_after = range.end < text.size() && is_word(text, range.end);
  return !word_before && !word_after;
}

std::vector<TokenSegment> AddedTokens::split(std::string_view text, bool normalized,
                                             bool parse_special) const {
  const Matcher& matcher = normalized ? normalized_ : as_is_;
  std::vector<TokenSegment> out;
  std::size_t done = 0;
  for (std::size_t at = 0; at < text.size();) {
    if (!matcher.starts[static_cast<unsigned char>(text[at])]) {
      ++at;
      continue;
    }
    std::size_t end = at + 1;
    const int index = matcher.match(text, at, end);
    const std::size_t begin = std::exchange(at, end);
    if (index < 0) continue;
    const AddedToken& token = tokens_[index];
    if (token.special && !parse_special) continue;
    if (token.single_word && !is_single_word(text, {begin, end})) continue;
    TextRange range{begin, end};
    if (token.lstrip) range.begin = white_space_before(text, begin, std::min(done, begin));
    if (token.rstrip) range.end = white_space_after(text, end);
    if (done < range.begin) out.push_back({{done, range.begin}, -1});
    out.push_back({range, token.id});
    done = range.end;
  }
  if (done < text.size()) out.push_back({{done, text.size()}, -1});
  return out;
}

const AddedToken* AddedTokens::find(int id) const {
  const auto found = by_id_.find(id);
  return found == by_id_.end() ? nullptr : &tokens_[found->second];
}

const AddedToken* AddedTokens::find(std::string_view content) const {
  const auto found = by_content_.find(content);
  return found == by_content_.end() ? nullptr : &tokens_[found->second];
}

}  // namespace turnbench
