#include "runners/result_bytes.h"

#include <cstddef>
#include <cstring>
#include <span>
#include <string>
#include <type_traits>
#include <utility>

#include "common/error.h"

namespace turnbench {
namespace {

template <typename T>
concept Plain = std::is_arithmetic_v<T> || std::is_enum_v<T>;

/// Appends values to bytes; a length precedes the elements of texts and lists.
class Writer {
 public:
  void bytes(const void* data, std::size_t size) {
    const auto* begin = static_cast<const std::uint8_t*>(data);
    out_.insert(out_.end(), begin, begin + size);
  }
  template <typename List>
  void resize(List& list) {
    const std::size_t size = list.size();
    bytes(&size, sizeof(size));
  }
  std::vector<std::uint8_t> take() { return std::move(out_); }

 private:
  std::vector<std::uint8_t> out_;
};

/// Reads the values that a `Writer` has written, in the same order.
class Reader {
 public:
  explicit Reader(std::span<const std::uint8_t> left) : left_(left) {}

  void bytes(void* data, std::size_t size) {
    if (size > left_.size()) throw runtime_error("a worker process sent an incomplete result");
    std::memcpy(data, left_.data(), size);
    left_ = left_.subspan(size);
  }
  template <typename List>
  void resize(List& list) {
    std::size_t size = 0;
    bytes(&size, sizeof(size));
    if (size > left_.size()) throw runtime_error("a worker process sent an incomplete result");
    list.resize(size);
  }

 private:
  std::span<const std::uint8_t> left_;
};

// Each function lists the members of a type once, for both directions.

template <typename Stream, Plain T>
void transfer(Stream& stream, T& value) {
  stream.bytes(&value, sizeof(value));
}

template <typename Stream>
void transfer(Stream& stream, std::string& text) {
  stream.resize(text);
  if (!text.empty()) stream.bytes(text.data(), text.size());
}

template <typename Stream, typename T>
void transfer(Stream& stream, std::vector<T>& list) {
  stream.resize(list);
  for (T& element : list) transfer(stream, element);
}

template <typename Stream, typename... T>
void transfer_all(Stream& stream, T&... values) {
  (transfer(stream, values), ...);
}

template <typename Stream>
void transfer(Stream& stream, Record::NamedValue& v) {
  transfer_all(stream, v.name, v.value);
}

template <typename Stream>
void transfer(Stream& stream, Record& r) {
  transfer_all(stream, r.cell, r.dialogue, r.turn, r.status, r.error, r.prompt_hash,
               r.prompt_tokens, r.truncated_tokens, r.answer, r.answer_tokens, r.stopped,
               r.counters, r.timings, r.ledger);
}

template <typename Stream>
void transfer(Stream& stream, ScoreValue& s) {
  transfer_all(stream, s.cell, s.dialogue, s.turn, s.metric, s.postprocess, s.value);
}

template <typename Stream>
void transfer(Stream& stream, SentResult& r) {
  transfer_all(stream, r.unit.records, r.unit.prefilled_tokens, r.unit.decoded_tokens,
               r.unit.engine_seconds, r.unit.lost_device, r.unit.batch_error, r.scores);
}

}  // namespace

std::vector<std::uint8_t> to_bytes(SentResult result) {
  Writer writer;
  transfer(writer, result);
  return writer.take();
}

SentResult result_from_bytes(const std::vector<std::uint8_t>& bytes) {
  SentResult out;
  Reader reader(bytes);
  transfer(reader, out);
  return out;
}

}  // namespace turnbench
