#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace turnbench {

/// The content of SentencePiece's tokenizer.model (sentencepiece_model.proto) that encoding needs.
struct SentencePieceModel {
  enum class Type {
    kNormal = 1,
    kUnknown = 2,
    kControl = 3,
    kUserDefined = 4,
    kUnused = 5,
    kByte = 6
  };
  struct Piece {
    std::string text;
    float score = 0;
    Type type = Type::kNormal;
  };
  std::vector<Piece> pieces;  // the index is the id
  bool byte_fallback = false;
  bool add_dummy_prefix = true;
};

/// Reads the protobuf.
/// @throws Error (input) for damaged files, and for features that Llama and Mistral do not use:
/// models other than BPE, normalization rules, removal of extra white space, unescaped spaces,
/// unused pieces.
SentencePieceModel parse_sentencepiece(std::string_view bytes, const std::string& source);

}  // namespace turnbench
