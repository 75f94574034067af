#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "common/error.h"

namespace turnbench::jinja {

/// A range of a template's text, in bytes.
struct Place {
  std::size_t begin = 0, end = 0;
};

/// A template's text after Jinja2's normalization: line ends are "\n", and the last one is removed.
class Source {
 public:
  /// Rejects text that is not UTF-8 or has more than 256 KiB.
  Source(std::string_view text, std::string name);

  std::string_view text() const { return text_; }
  /// "NAME: line N: THE TEXT AT PLACE: MESSAGE"
  Error error(Place place, std::string_view message) const;

 private:
  std::string name_, text_;
};

enum class TokenKind {
  kData,  ///< text between tags, after white space control
  kPrintBegin,
  kPrintEnd,
  kBlockBegin,
  kBlockEnd,
  kName,
  kString,  ///< with its escapes decoded
  kInteger,
  kFloat,
  kOperator,
  kEnd
};

struct Token {
  TokenKind kind = TokenKind::kEnd;
  std::string text{};
  Place place{};
};

/// All tokens of a template, followed by kEnd, with trim_blocks and lstrip_blocks applied.  Rejects
/// unterminated tags and comments, invalid characters, and unbalanced brackets.
std::vector<Token> tokens_of(const Source& source);

}  // namespace turnbench::jinja
