#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/json.h"

namespace turnbench {

/// Joins tokens to a text: the `decoder` of tokenizer.json.
class TokenDecoder {
 public:
  /// Reads ByteLevel, ByteFallback, Fuse, Metaspace, Replace, Strip and Sequence of these; null
  /// joins the tokens with spaces.  Refuses other types.
  static TokenDecoder parse(const JsonView& json);
  /// As SentencePiece decodes: U+2581 is a space, the first of which is dropped if `dummy_prefix`;
  /// ill-formed byte tokens become U+FFFD each.
  static TokenDecoder sentencepiece(bool dummy_prefix);

  /// Well-formed UTF-8, whatever the tokens.
  std::string decode(std::vector<std::string> tokens) const;

  /// The bytes that one token stands for in the middle of a text, well-formed or not.
  std::string bytes_of(std::string_view token) const;

 private:
  /// Rewrites the list of tokens.
  using Step = std::function<void(std::vector<std::string>&)>;
  void add(const JsonView& json);

  std::vector<Step> steps_;
  bool byte_level_ = false;
  bool byte_fallback_ = false;
  std::string space_mark_;  // what stands for a space, or ""
};

}  // namespace turnbench
