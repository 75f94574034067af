#include "methods/parts/ggml_blocks.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

#include "inference/model/dtype.h"

namespace turnbench {
namespace {

constexpr std::size_t kBlock = 32;  // elements with a common scale

std::size_t half(std::size_t elements) {
  return (elements + 1) / 2;
}

}  // namespace

std::size_t GgmlBlocks::block_bytes(std::size_t elements) const {
  return sizeof(std::uint16_t) + (bits_ == 8 ? elements : high_bytes(elements) + half(elements));
}

std::size_t GgmlBlocks::row_bytes(std::size_t dims) const {
  const std::size_t rest = dims % kBlock;
  return dims / kBlock * block_bytes(kBlock) + (rest > 0 ? block_bytes(rest) : 0);
}

void GgmlBlocks::encode(std::span<const float> row, std::byte* out) const {
  for (std::size_t d = 0; d < row.size(); d += kBlock) {
    const auto block = row.subspan(d, std::min(kBlock, row.size() - d));
    encode_block(block, out);
    out += block_bytes(block.size());
  }
}

void GgmlBlocks::decode(const std::byte* bytes, std::span<float> row) const {
  for (std::size_t d = 0; d < row.size(); d += kBlock) {
    const auto block = row.subspan(d, std::min(kBlock, row.size() - d));
    decode_block(bytes, block);
    bytes += block_bytes(block.size());
  }
}

void GgmlBlocks::encode_block(std::span<const float> block, std::byte* out) const {
  float largest = 0;
  bool is_finite = true;
  for (float x : block) {
    if (std::abs(x) > std::abs(largest)) largest = x;
    is_finite &= std::isfinite(x);
  }
  const float scale =
      bits_ == 8 ? std::abs(largest) / 127 : largest / static_cast<float>(-offset());
  const std::uint16_t stored = float_to_f16(scale);
  // A block that cannot be stored is read back as NaN, which the engine reports.
  is_finite = is_finite && std::isfinite(f16_to_float(stored));
  const std::uint16_t written =
      is_finite ? stored : float_to_f16(std::numeric_limits<float>::quiet_NaN());
  std::memcpy(out, &written, sizeof written);
  const float inverse = is_finite && f16_to_float(stored) != 0 ? 1 / scale : 0;
  std::byte* integers = out + sizeof stored;
  std::fill_n(integers, block_bytes(block.size()) - sizeof stored, std::byte{0});
  for (std::size_t j = 0; j < block.size(); ++j)
    put(integers, block.size(), j, is_finite ? rounded(block[j] * inverse) : 0);
}

unsigned GgmlBlocks::rounded(float multiple) const {
  if (bits_ == 8) return static_cast<std::uint8_t>(static_cast<int>(std::round(multiple)));
  const int largest = 2 * offset() - 1;
  const float shifted = multiple + (static_cast<float>(offset()) + 0.5f);
  return static_cast<unsigned>(std::min(largest, static_cast<int>(shifted)));
}

void GgmlBlocks::put(std::byte* integers, std::size_t elements, std::size_t j,
                     unsigned value) const {
  if (bits_ == 8) {
    integers[j] = static_cast<std::byte>(value);
    return;
  }
  if (bits_ == 5) integers[j / 8] |= static_cast<std::byte>((value >> 4) << j % 8);
  const std::size_t at = high_bytes(elements) + j % half(elements);
  integers[at] |= static_cast<std::byte>((value & 15) << (j < half(elements) ? 0 : 4));
}

void GgmlBlocks::decode_block(const std::byte* bytes, std::span<float> out) const {
  std::uint16_t stored = 0;
  std::memcpy(&stored, bytes, sizeof stored);
  const float scale = f16_to_float(stored);
  const std::byte* integers = bytes + sizeof stored;
  if (bits_ == 8) {
    for (std::size_t j = 0; j < out.size(); ++j)
      out[j] = scale * static_cast<float>(static_cast<std::int8_t>(integers[j]));
    return;
  }
  const std::byte* lower = integers + high_bytes(out.size());
  const std::size_t n = half(out.size());
  std::array<int, kBlock> values;
  for (std::size_t j = 0; j < n; ++j) values[j] = std::to_integer<int>(lower[j]) & 15;
  for (std::size_t j = n; j < out.size(); ++j) values[j] = std::to_integer<int>(lower[j - n]) >> 4;
  for (std::size_t j = 0; bits_ == 5 && j < out.size(); ++j)
    values[j] |= (std::to_integer<int>(integers[j / 8]) >> j % 8 & 1) << 4;
  for (std::size_t j = 0; j < out.size(); ++j)
    out[j] = scale * static_cast<float>(values[j] - offset());
}

}  // namespace turnbench
