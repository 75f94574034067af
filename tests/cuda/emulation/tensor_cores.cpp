#include <bit>
#include <cstring>

#include "scheduler.h"

namespace emulation {
namespace {

// Vectors of the compiler: whole attention kernels run on this.
using Floats = float __attribute__((vector_size(16)));
using Bits = std::uint32_t __attribute__((vector_size(16)));

/// Four elements as float; what turnbench::f16_to_float computes of each.
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
void multiply(Exchange& e) {
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

}  // namespace

void multiply_f16(Exchange& e) {
  multiply<widened_f16>(e);
}

void multiply_bf16(Exchange& e) {
  multiply<widened_bf16>(e);
}

void read_matrices(Exchange& e) {
  for (int i = 0; i < 32; ++i) {
    std::memcpy(e.matrices[i / 8][i % 8], reinterpret_cast<const void*>(e.values[i]), 16);
  }
}

}  // namespace emulation
