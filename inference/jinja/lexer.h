#pragma once

#include <string>
#include <vector>

#include "inference/jinja/source.h"

namespace turnbench::jinja {

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
