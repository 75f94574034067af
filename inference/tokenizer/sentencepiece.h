#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace turnbench {

/// What tokenizer.model of SentencePiece holds (sentencepiece_model.proto), as far as encoding
/// needs it.
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

/// Reads the protobuf.  Refuses damaged files and the kinds of model that Llama and Mistral do not
/// use: other than BPE, normalization rules, removal of extra white space, unescaped spaces, unused
/// pieces.
SentencePieceModel parse_sentencepiece(std::string_view bytes, const std::string& source);

}  // namespace turnbench
