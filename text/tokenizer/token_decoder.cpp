#include "text/tokenizer/token_decoder.h"

#include <algorithm>
#include <utility>

#include "common/text.h"
#include "text/tokenizer/byte_level.h"
#include "text/tokenizer/unicode_regex.h"

namespace turnbench {
namespace {

using Tokens = std::vector<std::string>;

constexpr std::string_view kReplacement = "\uFFFD";

std::string replace_matches(std::string_view text, RegexMatcher& matcher, std::string_view with) {
  std::string out;
  matcher.start(text);
  std::size_t done = 0;
  for (TextRange match; matcher.next(match); done = match.end) {
    out += text.substr(done, match.begin - done);
    out += with;
  }
  return out.append(text.substr(done));
}

void fuse(Tokens& tokens) {
  tokens = {join(tokens, "")};
}

void decode_byte_level(Tokens& tokens) {
  std::string bytes;
  for (const std::string& token : tokens) bytes += from_byte_level(token).value_or(token);
  tokens = {replace_invalid_utf8(bytes)};
}

/// Decodes byte tokens.  In an ill-formed run, each byte becomes U+FFFD: all bytes of the run, or
/// with `each_character` only the ill-formed ones.
void decode_byte_fallback(Tokens& tokens, bool each_character) {
  Tokens out;
  std::string bytes;
  const auto put_bytes = [&]() {
    const std::string run = std::exchange(bytes, "");
    std::string_view rest = run;
    while (!rest.empty()) {
      const std::size_t good = valid_utf8_prefix(rest);
      if (good == rest.size() || (each_character && good > 0)) {
        out.emplace_back(rest.substr(0, good));
        rest.remove_prefix(good);
        continue;
      }
      const std::size_t bad = each_character ? 1 : rest.size();
      for (std::size_t i = 0; i < bad; ++i) out.emplace_back(kReplacement);
      rest.remove_prefix(bad);
    }
  };
  for (std::string& token : tokens) {
    if (const std::optional<char> byte = byte_of_fallback(token)) {
      bytes += *byte;
    } else {
      put_bytes();
      out.push_back(std::move(token));
    }
  }
  put_bytes();
  tokens = std::move(out);
}

/// Removes `content` up to `start` and `stop` times from the ends of every token.
void strip(Tokens& tokens, const std::string& content, std::int64_t start, std::int64_t stop) {
  for (std::string& token : tokens) {
    std::string_view rest = token;
    for (std::int64_t i = 0; i < start && rest.starts_with(content); ++i) {
      rest.remove_prefix(content.size());
    }
    for (std::int64_t i = 0; i < stop && rest.ends_with(content); ++i) {
      rest.remove_suffix(content.size());
    }
    token = std::string(rest);
  }
}

/// Replaces `mark` by a space, or in the first token by nothing if a prefix was added.
void decode_metaspace(Tokens& tokens, const std::string& mark, bool prefix) {
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    tokens[i] = replace_all(tokens[i], mark, i == 0 && prefix ? "" : " ");
  }
}

}  // namespace

TokenDecoder TokenDecoder::parse(const JsonView& json) {
  TokenDecoder out;
  if (json.is_null()) {
    out.steps_.push_back([](Tokens& tokens) { tokens = {join(tokens, " ")}; });
  } else {
    out.add(json);
  }
  return out;
}

TokenDecoder TokenDecoder::sentencepiece(bool dummy_prefix) {
  TokenDecoder out;
  out.byte_fallback_ = true;
  out.space_mark_ = "\u2581";
  out.steps_.push_back([dummy_prefix, mark = out.space_mark_](Tokens& tokens) {
    if (dummy_prefix && !tokens.empty() && tokens[0].starts_with(mark)) {
      tokens[0].erase(0, mark.size());
    }
    for (std::string& token : tokens) token = replace_all(token, mark, " ");
    decode_byte_fallback(tokens, true);
  });
  return out;
}

void TokenDecoder::add(const JsonView& json) {
  const std::string type = json.at("type").as_string();
  if (type == "Sequence") {
    for (const JsonView& part : json.at("decoders").items()) add(part);
  } else if (type == "ByteLevel") {
    byte_level_ = true;
    steps_.push_back(decode_byte_level);
  } else if (type == "ByteFallback") {
    byte_fallback_ = true;
    steps_.push_back([](Tokens& tokens) { decode_byte_fallback(tokens, false); });
  } else if (type == "Fuse") {
    steps_.push_back(fuse);
  } else if (type == "Metaspace") {
    const std::string mark = json.get("replacement", std::string("\u2581"));
    if (mark.empty()) json.at("replacement").fail("a character");
    const bool prefix = json.get("prepend_scheme", std::string("always")) != "never" &&
                        json.get("add_prefix_space", true);
    space_mark_ = mark;
    steps_.push_back([mark, prefix](Tokens& tokens) { decode_metaspace(tokens, mark, prefix); });
  } else if (type == "Replace") {
    const JsonView pattern = json.at("pattern");
    const std::string with = json.at("content").as_string();
    if (with == " " && pattern.has("String")) space_mark_ = pattern.at("String").as_string();
    steps_.push_back([pattern = UnicodeRegex::parse(pattern), with](Tokens& tokens) {
      RegexMatcher matcher(pattern);
      for (std::string& token : tokens) token = replace_matches(token, matcher, with);
    });
  } else if (type == "Strip") {
    const std::string content = json.at("content").as_string();
    if (content.empty()) json.at("content").fail("a character");
    steps_.push_back([content, start = json.get_integer("start", 0, 0),
                      stop = json.get_integer("stop", 0, 0)](Tokens& tokens) {
      strip(tokens, content, start, stop);
    });
  } else {
    json.at("type").fail(
        "one of: ByteLevel, ByteFallback, Fuse, Metaspace, Replace, Strip, Sequence");
  }
}

std::string TokenDecoder::decode(Tokens tokens) const {
  for (const Step& step : steps_) step(tokens);
  return replace_invalid_utf8(join(tokens, ""));
}

std::string TokenDecoder::bytes_of(std::string_view token) const {
  if (byte_level_) return from_byte_level(token).value_or(std::string(token));
  if (byte_fallback_) {
    if (const std::optional<char> byte = byte_of_fallback(token)) return std::string(1, *byte);
  }
  if (space_mark_.empty()) return std::string(token);
  return replace_all(token, space_mark_, " ");
}

}  // namespace turnbench
