#pragma once

#include <cstddef>
#include <span>

namespace turnbench {

/// Blocks of 32 elements, with a shorter one at the end of a row if necessary: a scale as float16,
/// then one integer per element, as in the blocks block_q8_0, block_q5_0 and block_q4_0 of ggml.
class GgmlBlocks {
 public:
  explicit GgmlBlocks(int bits) : bits_(bits) {}  ///< of an integer: 8, 5 or 4

  std::size_t row_bytes(std::size_t dims) const;
  void encode(std::span<const float> row, std::byte* out) const;    ///< out: [row_bytes]
  void decode(const std::byte* bytes, std::span<float> row) const;  ///< bytes: [row_bytes]

 private:
  /// The integers of a block: 8 bits each; or the lower 4 bits of elements j and j + (n + 1) / 2 in
  /// a byte, after the fifth bits of all elements if there are any.
  std::size_t block_bytes(std::size_t elements) const;
  std::size_t high_bytes(std::size_t elements) const { return bits_ == 5 ? (elements + 7) / 8 : 0; }
  int offset() const { return bits_ == 8 ? 0 : 1 << (bits_ - 1); }  ///< the integer of 0
  void encode_block(std::span<const float> block, std::byte* out) const;
  /// Rounds a multiple of the scale to nearest, ties away from 0; with an offset, ties upwards.
  unsigned rounded(float multiple) const;
  void put(std::byte* integers, std::size_t elements, std::size_t j, unsigned value) const;
  void decode_block(const std::byte* bytes, std::span<float> out) const;

  int bits_;
};

}  // namespace turnbench
