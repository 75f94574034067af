#include "harness/store/packed_text.h"

#include <zstd.h>

#include "common/error.h"

namespace turnbench {
namespace {

constexpr std::size_t kShortText = 1024;       // bytes up to which a text stays readable in SQL
constexpr std::size_t kLongestText = 1 << 30;  // bytes, a bound for damaged data
constexpr int kLevel = 6;                      // of compression

}  // namespace

PackedText::PackedText(std::string_view text) : text_(text) {
  if (text.size() <= kShortText) return;
  compressed_.resize(ZSTD_compressBound(text.size()));
  const std::size_t size =
      ZSTD_compress(compressed_.data(), compressed_.size(), text.data(), text.size(), kLevel);
  if (ZSTD_isError(size) != 0 || size >= text.size()) {
    compressed_.clear();
  } else {
    compressed_.resize(size);
  }
}

Statement& operator<<(Statement& statement, const PackedText& text) {
  if (text.compressed_.empty()) return statement << text.text_;
  return statement << Statement::Blob{text.compressed_};
}

std::size_t unpacked_size(const Statement& row, int column) {
  const std::string_view bytes = row.bytes(column);
  if (!row.is_blob(column)) return bytes.size();
  const unsigned long long size = ZSTD_getFrameContentSize(bytes.data(), bytes.size());
  return size <= kLongestText ? static_cast<std::size_t>(size) : 0;
}

std::string unpacked_text(const Statement& row, int column) {
  if (!row.is_blob(column)) return row.text(column);
  const std::string_view bytes = row.bytes(column);
  const unsigned long long size = ZSTD_getFrameContentSize(bytes.data(), bytes.size());
  std::string out;
  if (size <= kLongestText) {
    out.resize(size);
    if (ZSTD_decompress(out.data(), out.size(), bytes.data(), bytes.size()) == size) return out;
  }
  throw input_error("{}: {}: found {} bytes that cannot be decompressed, expected a text",
                    row.path(), row.name(column), bytes.size());
}

}  // namespace turnbench
