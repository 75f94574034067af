#include "text/tokenizer/pre_tokenizer.h"

#include <string>
#include <utility>

#include "common/text.h"
#include "text/tokenizer/byte_level.h"

namespace turnbench {
namespace {

using Behavior = Splitter::Behavior;
using Pieces = std::vector<TextRange>;

// GPT-2's pattern of words, from encoder.py.
constexpr std::string_view kGpt2Words =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

// ASCII punctuation and general category P of Unicode 8, as in the reference package.
constexpr std::string_view kPunctuation =
    R"((?![\x{61d}\x{9fd}\x{a76}\x{c77}\x{c84}\x{1b7d}\x{1b7e}\x{2e43}-\x{2e4f}\x{2e52}-\x{2e5d})"
    R"(\x{10ead}\x{10f55}-\x{10f59}\x{10f86}-\x{10f89}\x{111c9}\x{1144b}-\x{1144f}\x{1145a})"
    R"(\x{1145b}\x{1145d}\x{11660}-\x{1166c}\x{116b9}\x{1183b}\x{11944}-\x{11946}\x{119e2})"
    R"(\x{11a3f}-\x{11a46}\x{11a9a}-\x{11a9c}\x{11a9e}-\x{11aa2}\x{11c41}-\x{11c45}\x{11c70})"
    R"(\x{11c71}\x{11ef7}\x{11ef8}\x{11fff}\x{12ff1}\x{12ff2}\x{16e97}-\x{16e9a}\x{16fe2})"
    R"(\x{1e95e}\x{1e95f}])[\p{P}$+<=>^`|~\x{166d}])";

// \w+|[^\w\s]+ with the \w of Rust's regex, which includes the joiners.
constexpr std::string_view kWhitespaceWords = R"([\w\x{200c}\x{200d}]+|[^\w\s\x{200c}\x{200d}]+)";

UnicodeRegex regex(std::string_view pattern) {
  return UnicodeRegex::compile(pattern, "pre-tokenizer");
}

/// A match, or the text between two of them.
struct Part {
  TextRange range;
  bool is_match;
};

/// Cuts `piece` at the matches; the parts are relative to the text.
void cut(std::string_view text, TextRange piece, RegexMatcher& matcher, std::vector<Part>& parts) {
  parts.clear();
  matcher.start(text.substr(piece.begin, piece.end - piece.begin));
  std::size_t done = piece.begin;
  for (TextRange match; matcher.next(match);) {
    const TextRange at{piece.begin + match.begin, piece.begin + match.end};
    if (done != at.begin) parts.push_back({{done, at.begin}, false});
    parts.push_back({at, true});
    done = at.end;
  }
  if (done != piece.end) parts.push_back({{done, piece.end}, false});
}

/// Joins parts according to `behavior`; dropped parts become empty.
void join_parts(Behavior behavior, std::vector<Part>& parts) {
  const std::size_t n = parts.size();
  switch (behavior) {
    case Behavior::kIsolated:
      return;
    case Behavior::kRemoved:
      for (Part& part : parts) {
        if (part.is_match) part.range.end = part.range.begin;
      }
      return;
    case Behavior::kMergedWithPrevious:
    case Behavior::kContiguous:
      for (std::size_t i = 1; i < n; ++i) {
        Part& part = parts[i];
        Part& before = parts[i - 1];
        const bool merge = behavior == Behavior::kContiguous ? part.is_match == before.is_match
                                                             : part.is_match && !before.is_match;
        if (!merge) continue;
        part.range.begin = before.range.begin;
        before.range.end = before.range.begin;
      }
      return;
    case Behavior::kMergedWithNext:
      for (std::size_t i = n; i-- > 1;) {
        Part& part = parts[i - 1];
        Part& behind = parts[i];
        if (!part.is_match || behind.is_match) continue;
        part.range.end = behind.range.end;
        behind.range.begin = behind.range.end;
      }
      return;
  }
}

/// Inserts `prefix` before every piece for which `wants` is true.
template <typename Predicate>
void add_prefixes(TracedText& text, Pieces& pieces, std::string_view prefix, Predicate wants) {
  const std::string_view view = text.view();
  TextRewriter rewriter(text);
  for (TextRange& piece : pieces) {
    const TextRange old = piece;
    piece.begin = rewriter.new_offset(old.begin);
    if (wants(view.substr(old.begin, old.end - old.begin), text.origin(old.begin))) {
      rewriter.replace({old.begin, old.begin}, prefix);
    }
    piece.end = rewriter.new_offset(old.end);
  }
  rewriter.finish();
}

/// Replaces every space by `mark`.
void mark_spaces(TracedText& text, Pieces& pieces, std::string_view mark) {
  const std::string_view view = text.view();
  TextRewriter rewriter(text);
  for (TextRange& piece : pieces) {
    const TextRange old = piece;
    piece.begin = rewriter.new_offset(old.begin);
    for (std::size_t i = old.begin; i < old.end; ++i) {
      if (view[i] == ' ') rewriter.replace({i, i + 1}, mark);
    }
    piece.end = rewriter.new_offset(old.end);
  }
  rewriter.finish();
}

/// Maps pieces of a text to pieces of its form in the byte-level alphabet, and back.
class ByteLevelMap {
 public:
  explicit ByteLevelMap(std::string_view bytes) : text_(to_byte_level(bytes)) {}

  const std::string& text() const { return text_; }
  void to_mapped(Pieces& pieces) { move(pieces, byte_, mapped_); }
  void to_bytes(Pieces& pieces) { move(pieces, mapped_, byte_); }

 private:
  /// Traverses both texts in parallel; offsets ascend, so one pass suffices.
  void move(Pieces& pieces, const std::size_t& from, const std::size_t& to) {
    byte_ = mapped_ = 0;
    const auto translate = [&](std::size_t& offset) {
      while (from < offset) {
        next_code_point(text_, mapped_);
        ++byte_;
      }
      offset = to;
    };
    for (TextRange& piece : pieces) {
      translate(piece.begin);
      translate(piece.end);
    }
  }

  std::string text_;
  std::size_t byte_ = 0, mapped_ = 0;
};

}  // namespace

Splitter::Behavior Splitter::parse_behavior(const JsonView& json) {
  const std::string name = json.as_string();
  if (name == "Isolated") return Behavior::kIsolated;
  if (name == "Removed") return Behavior::kRemoved;
  if (name == "MergedWithPrevious") return Behavior::kMergedWithPrevious;
  if (name == "MergedWithNext") return Behavior::kMergedWithNext;
  if (name == "Contiguous") return Behavior::kContiguous;
  json.fail("one of: Isolated, Removed, MergedWithPrevious, MergedWithNext, Contiguous");
}

void Splitter::apply(std::string_view text, Pieces& pieces) const {
  Pieces out;
  std::vector<Part> parts;
  RegexMatcher matcher(pattern_);
  for (const TextRange& piece : pieces) {
    cut(text, piece, matcher, parts);
    if (invert_) {
      for (Part& part : parts) part.is_match = !part.is_match;
    }
    join_parts(behavior_, parts);
    for (const Part& part : parts) {
      if (part.range.begin != part.range.end) out.push_back(part.range);
    }
  }
  pieces = std::move(out);
}

Pieces PreTokenizer::apply(TracedText& text) const {
  Pieces pieces;
  if (!text.view().empty()) pieces.push_back({0, text.view().size()});
  for (const Stage& stage : stages_) {
    if (stage.edit) stage.edit(text, pieces);
    if (stage.splitter) stage.splitter->apply(text.view(), pieces);
  }
  if (mapped_.empty()) return pieces;
  ByteLevelMap map(text.view());
  map.to_mapped(pieces);
  for (const Splitter& splitter : mapped_) splitter.apply(map.text(), pieces);
  map.to_bytes(pieces);
  return pieces;
}

PreTokenizer PreTokenizer::parse(const JsonView& json) {
  PreTokenizer out;
  if (!json.is_null()) out.add(json);
  return out;
}

PreTokenizer PreTokenizer::byte_level_words(std::string_view pattern) {
  PreTokenizer out;
  out.stages_.push_back({{}, Splitter(regex(pattern), Behavior::kIsolated)});
  out.byte_level_ = true;
  return out;
}

void PreTokenizer::add(const JsonView& json) {
  const std::string type = json.at("type").as_string();
  const auto split = [&](UnicodeRegex pattern, Behavior behavior, bool invert = false) {
    Splitter splitter(std::move(pattern), behavior, invert);
    if (byte_level_) {
      mapped_.push_back(std::move(splitter));
    } else {
      stages_.push_back({{}, std::move(splitter)});
    }
  };
  if (type == "Sequence") {
    for (const JsonView& part : json.at("pretokenizers").items()) add(part);
  } else if (type == "ByteLevel") {
    add_byte_level(json);
  } else if (type == "Metaspace") {
    add_metaspace(json);
  } else if (type == "Split") {
    split(UnicodeRegex::parse(json.at("pattern")), Splitter::parse_behavior(json.at("behavior")),
          json.get("invert", false));
  } else if (type == "Digits") {
    const bool single = json.get("individual_digits", false);
    split(regex("\\p{N}"), single ? Behavior::kIsolated : Behavior::kContiguous);
  } else if (type == "Punctuation") {
    split(regex(kPunctuation), json.has("behavior") ? Splitter::parse_behavior(json.at("behavior"))
                                                    : Behavior::kIsolated);
  } else if (type == "Whitespace") {
    split(regex(kWhitespaceWords), Behavior::kRemoved, true);
  } else if (type == "WhitespaceSplit") {
    split(regex("\\s"), Behavior::kRemoved);
  } else if (type == "CharDelimiterSplit") {
    split(UnicodeRegex::literal(json.at("delimiter").as_string()), Behavior::kRemoved);
  } else {
    json.at("type").fail(
        "one of: ByteLevel, Split, Digits, Punctuation, Metaspace, Whitespace, WhitespaceSplit, "
        "CharDelimiterSplit, Sequence");
  }
}

void PreTokenizer::add_byte_level(const JsonView& json) {
  if (byte_level_) json.fail("ByteLevel once");
  byte_level_ = true;
  Stage stage;
  if (json.get("add_prefix_space", true)) {
    stage.edit = [](TracedText& text, Pieces& pieces) {
      add_prefixes(text, pieces, " ",
                   [](std::string_view piece, std::size_t) { return !piece.starts_with(' '); });
    };
  }
  if (json.get("use_regex", true)) {
    stage.splitter = Splitter(regex(kGpt2Words), Behavior::kIsolated);
  }
  stages_.push_back(std::move(stage));
}

void PreTokenizer::add_metaspace(const JsonView& json) {
  if (byte_level_) json.fail("Metaspace before ByteLevel");
  const std::string mark = json.get("replacement", std::string("\u2581"));
  if (mark.empty()) json.at("replacement").fail("a character");
  const bool legacy_never = !json.get("add_prefix_space", true);
  const std::string scheme =
      json.get("prepend_scheme", std::string(legacy_never ? "never" : "always"));
  if (scheme != "always" && scheme != "first" && scheme != "never") {
    json.at("prepend_scheme").fail("always, first or never");
  }
  if (legacy_never && scheme != "never") json.at("prepend_scheme").fail("never");
  Stage stage;
  stage.edit = [mark, scheme](TracedText& text, Pieces& pieces) {
    mark_spaces(text, pieces, mark);
    if (scheme == "never") return;
    add_prefixes(text, pieces, mark, [&](std::string_view piece, std::size_t origin) {
      return !piece.starts_with(mark) && (scheme == "always" || origin == 0);
    });
  };
  if (json.get("split", true)) {
    stage.splitter = Splitter(UnicodeRegex::literal(mark), Behavior::kMergedWithNext);
  }
  stages_.push_back(std::move(stage));
}

}  // namespace turnbench
