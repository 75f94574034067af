#include "text/tokenizer/sentencepiece.h"

#include <bit>
#include <cstdint>
#include <cstring>

#include "common/error.h"
#include "common/text.h"

namespace turnbench {
namespace {

/// One field of a protobuf message.
struct Field {
  std::uint64_t number = 0;
  enum class Kind { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 } kind = Kind::kVarint;
  std::uint64_t value = 0;  // for numeric types
  std::string_view bytes;
  std::size_t offset = 0;  // of the field in the file
};

/// Iterates over the fields of a message.
class Message {
 public:
  Message(std::string_view bytes, std::size_t offset, const std::string& source)
      : bytes_(bytes), offset_(offset), source_(source) {}

  bool next(Field& field) {
    if (at_ == bytes_.size()) return false;
    field.offset = offset_ + at_;
    const std::uint64_t key = varint();
    field.number = key >> 3;
    field.kind = static_cast<Field::Kind>(key & 7);
    switch (field.kind) {
      case Field::Kind::kVarint:
        field.value = varint();
        return true;
      case Field::Kind::kFixed64:
        field.value = fixed(8);
        return true;
      case Field::Kind::kFixed32:
        field.value = fixed(4);
        return true;
      case Field::Kind::kBytes: {
        const std::uint64_t size = varint();
        need(size);
        field.bytes = bytes_.substr(at_, size);
        at_ += size;
        return true;
      }
    }
    fail(field.offset, fmt::format("a field of the wire type {}", key & 7), "0, 1, 2 or 5");
  }

  /// The message in `field`.
  Message open(const Field& field) const {
    if (field.kind != Field::Kind::kBytes) fail(field.offset, "a number", "a message");
    const auto inside = static_cast<std::size_t>(field.bytes.data() - bytes_.data());
    return Message(field.bytes, offset_ + inside, source_);
  }

  std::string text(const Field& field) const {
    if (field.kind != Field::Kind::kBytes || !is_valid_utf8(field.bytes)) {
      fail(field.offset, "something else", "a text in UTF-8");
    }
    return std::string(field.bytes);
  }

  std::uint64_t number(const Field& field) const {
    if (field.kind != Field::Kind::kVarint) fail(field.offset, "something else", "an integer");
    return field.value;
  }

  float real(const Field& field) const {
    if (field.kind != Field::Kind::kFixed32) fail(field.offset, "something else", "a float");
    return std::bit_cast<float>(static_cast<std::uint32_t>(field.value));
  }

  [[noreturn]] void fail(std::size_t offset, const std::string& found,
                         const std::string& expected) const {
    throw input_error("{}: byte {}: found {}, expected {}", source_, offset, found, expected);
  }

 private:
  void need(std::uint64_t size) const {
    if (size > bytes_.size() - at_) {
      fail(offset_ + at_, fmt::format("{} bytes", bytes_.size() - at_),
           fmt::format("{} more of the SentencePiece model", size));
    }
  }

  std::uint64_t varint() {
    std::uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      need(1);
      const auto byte = static_cast<unsigned char>(bytes_[at_++]);
      value |= static_cast<std::uint64_t>(byte & 0x7F) << shift;
      if (byte < 0x80) return value;
    }
    fail(offset_ + at_, "an integer of more than 64 bits", "a shorter one");
  }

  std::uint64_t fixed(std::size_t size) {
    need(size);
    std::uint64_t value = 0;
    std::memcpy(&value, bytes_.data() + at_, size);
    at_ += size;
    return value;
  }

  std::string_view bytes_;
  std::size_t offset_;
  const std::string& source_;
  std::size_t at_ = 0;
};

using Type = SentencePieceModel::Type;

SentencePieceModel::Piece read_piece(Message message, std::size_t offset) {
  SentencePieceModel::Piece piece;
  for (Field field; message.next(field);) {
    if (field.number == 1) piece.text = message.text(field);
    if (field.number == 2) piece.score = message.real(field);
    if (field.number == 3) {
      const std::uint64_t type = message.number(field);
      if (type < 1 || type > 6)
        message.fail(field.offset, fmt::format("the type {}", type), "1 to 6");
      piece.type = static_cast<Type>(type);
    }
  }
  if (piece.text.empty()) message.fail(offset, "a piece without text", "a text");
  if (piece.type == Type::kUnused) message.fail(offset, "an unused piece", "pieces in use");
  if (piece.score != piece.score) message.fail(offset, "a score that is no number", "a number");
  return piece;
}

void read_trainer(Message message, SentencePieceModel& model) {
  std::uint64_t model_type = 1;  // default: unigram
  for (Field field; message.next(field);) {
    if (field.number == 3) model_type = message.number(field);
    if (field.number == 24 && message.number(field) != 0) {
      message.fail(field.offset, "white space as a suffix", "white space as a prefix");
    }
    if (field.number == 35) model.byte_fallback = message.number(field) != 0;
  }
  if (model_type != 2) message.fail(0, fmt::format("the model type {}", model_type), "2 (BPE)");
}

void read_normalizer(Message message, SentencePieceModel& model) {
  bool remove_extra_spaces = true;
  for (Field field; message.next(field);) {
    if (field.number == 2 && !field.bytes.empty()) {
      message.fail(field.offset, "normalization rules", "the identity");
    }
    if (field.number == 3) model.add_dummy_prefix = message.number(field) != 0;
    if (field.number == 4) remove_extra_spaces = message.number(field) != 0;
    if (field.number == 5 && message.number(field) == 0) {
      message.fail(field.offset, "escape_whitespaces off", "on");
    }
  }
  if (remove_extra_spaces) message.fail(0, "remove_extra_whitespaces on", "off");
}

}  // namespace

SentencePieceModel parse_sentencepiece(std::string_view bytes, const std::string& source) {
  SentencePieceModel model;
  Message message(bytes, 0, source);
  bool has_trainer = false, has_normalizer = false;
  for (Field field; message.next(field);) {
    if (field.number == 1) {
      model.pieces.push_back(read_piece(message.open(field), field.offset));
    } else if (field.number == 2) {
      read_trainer(message.open(field), model);
      has_trainer = true;
    } else if (field.number == 3) {
      read_normalizer(message.open(field), model);
      has_normalizer = true;
    }
  }
  if (!has_trainer || !has_normalizer || model.pieces.empty()) {
    message.fail(bytes.size(), "the end of the file",
                 model.pieces.empty() ? "pieces" : "the specifications of trainer and normalizer");
  }
  return model;
}

}  // namespace turnbench
