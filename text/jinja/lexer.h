#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "common/error.h"

namespace turnbench::jinja {

/// A part of a template's text, in bytes.
struct Place {
  std::size_t begin = 0, end = 0;
};

/// A template's text as Jinja2 reads it: line ends are \n, and the last one is gone.
class Source {
 public:
  /// Refuses text that is not UTF-8 or has more than 256 KiB.
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

/// All tokens of a template, kEnd at the end, with trim_blocks and lstrip_blocks.  Refuses tags and
/// comments that do not end, characters that mean nothing, and brackets that do not match.
std::vector<Token> tokens_of(const Source& source);

}  // namespace turnbench::jinja
