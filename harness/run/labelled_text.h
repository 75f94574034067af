#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "inference/policy/policy.h"
#include "text/tokenizer/tokenizer.h"

namespace turnbench {

/// "question", "markup", ...
std::string_view name_of(SpanKind kind);

/// Tokens with labelled spans.
struct LabelledTokens {
  std::vector<int> tokens;
  std::vector<Span> spans;  ///< over `tokens`, from 0; ascending, without gaps
};

/// A text under construction, with the kinds of its parts.
struct LabelledText {
  struct Part {
    SpanKind kind;
    int turn;
    std::size_t end;  ///< offset in bytes
  };
  std::string text;
  std::vector<Part> parts;

  /// Contexts always become separate parts; other neighbours of the same kind and turn are merged.
  void add(SpanKind kind, int turn, std::string_view piece);

  /// Each token belongs to the part in which it ends.  Special tokens in the text are parsed.
  LabelledTokens encode(const Tokenizer& tokenizer, bool add_special) const;
};

}  // namespace turnbench
