#include <bit>
#include <cstring>

#include "scheduler.h"

namespace emulation {
namespace {

// The compiler's vector types, because whole attention kernels run on this.
using Floats = float __attribute__((vector_size(16)));
using Bits = std::uint32_t __attribute__((vector_size(16)));

/// Four elements as float, each as converted by turnbench::f16_to_float.
Floats widened_f16(const std::uint16_t* x) {
  const Bits bits = {x[0], x[1], x[2], x[3]};
  const Bits magnitude = (bits & 0x7FFF) << 13;
  const Bits finite = std::bit_cast<Bits>(std::bit_cast<Floats>(magnitude) * 0x1p112F);
  const Bits special = std::bit_cast<Bits>(magnitude >= 0x0F800000);
  const Bits wide = (special & (magnitude | 0x7F800000)) | (~special & finite);
  return std::bit_cast<Floats>(wide | (bits & 0x8000) << 16);
}

Floats widened_bf16(const std::uint16_t* x) {
  return std::bit_cast<Floats>(Bits{x[0], x[1], x[2], x[3]} << 16);
}

template <Floats (*widened)(const std::uint16_t*)>
void multiply_factors(Exchange& e) {
  Floats b[16][2];
  for (int k = 0; k < 16; ++k) {
    b[k][0] = widened(&e.b[k][0]);
    b[k][1] = widened(&e.b[k][4]);
  }
  for (int row = 0; row < 16; ++row) {
    Floats low = {}, high = {};
    for (int k = 0; k < 16; k += 4) {
      const Floats a = widened(&e.a[row][k]);
      for (int i = 0; i < 4; ++i) {
        low += a[i] * b[k + i][0];
        high += a[i] * b[k + i][1];
      }
    }
    std::memcpy(&e.product[row][0], &low, sizeof(low));
    std::memcpy(&e.product[row][4], &high, sizeof(high));
  }
}

template <Floats (*widened)(const std::uint16_t*)>
Product multiply(const Factors& mine, const Place& where) {
  const int row = lane() / 4, pair = lane() % 4 * 2;
  const auto deposit = [&](Exchange& e) {
    for (int i = 0; i < 4; ++i) std::memcpy(&e.a[row + i % 2 * 8][pair + i / 2 * 8], &mine.a[i], 4);
    for (int i = 0; i < 2; ++i) {
      e.b[pair + i * 8][row] = static_cast<std::uint16_t>(mine.b[i]);
      e.b[pair + i * 8 + 1][row] = static_cast<std::uint16_t>(mine.b[i] >> 16);
    }
  };
  const Exchange& e = meet(kFullMask, true, where, deposit, multiply_factors<widened>);
  return {{e.product[row][pair], e.product[row][pair + 1], e.product[row + 8][pair],
           e.product[row + 8][pair + 1]}};
}

}  // namespace

Product multiply_f16(const Factors& mine, const Place& where) {
  return multiply<widened_f16>(mine, where);
}

Product multiply_bf16(const Factors& mine, const Place& where) {
  return multiply<widened_bf16>(mine, where);
}

Pairs distribute(const Pairs& row, bool transposed, const Place& where) {
  const int i = lane();
  const Exchange& e = meet(
      kFullMask, true, where,
      [&](Exchange& mine) { std::memcpy(mine.matrices[i / 8][i % 8], row.words, 16); },
      [](Exchange&) {});
  Pairs out;
  for (int k = 0; k < 4; ++k) {
    if (!transposed) {
      out.words[k] = e.matrices[k][i / 4][i % 4];
      continue;
    }
    const int column = i / 4, first = i % 4 * 2;
    const int shift = column % 2 * 16;
    out.words[k] = (e.matrices[k][first][column / 2] >> shift & 0xFFFF) |
                   (e.matrices[k][first + 1][column / 2] >> shift & 0xFFFF) << 16;
  }
  return out;
}

}  // namespace emulation
