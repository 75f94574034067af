#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/json.h"

namespace turnbench {

/// The `decoder` of tokenizer.json, which joins tokens to a text.
class TokenDecoder {
 public:
  /// Reads ByteLevel, ByteFallback, Fuse, Metaspace, Replace, Strip and Sequence; null joins the
  /// tokens with spaces.
  /// @throws Error (input) for other types.
  static TokenDecoder parse(const JsonView& json);
  /// The decoder of SentencePiece.  U+2581 becomes a space; the first one is dropped if
  /// `dummy_prefix`.  Each ill-formed byte token becomes U+FFFD.
  static TokenDecoder sentencepiece(bool dummy_prefix);

  /// Always returns well-formed UTF-8.
  std::string decode(std::vector<std::string> tokens) const;

  /// The bytes of a token in the middle of a text; not necessarily well-formed UTF-8.
  std::string bytes_of(std::string_view token) const;

 private:
  /// Rewrites the list of tokens.
  using Step = std::function<void(std::vector<std::string>&)>;
  void add(const JsonView& json);

  std::vector<Step> steps_;
  bool byte_level_ = false;
  bool byte_fallback_ = false;
  std::string space_mark_;  // the character that replaces spaces, or ""
};

}  // namespace turnbench
