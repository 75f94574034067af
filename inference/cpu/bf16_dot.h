#pragma once

#include <cstddef>
#include <cstdint>

#include "inference/model/matrix_view.h"

namespace turnbench::cpu {

struct Bf16Product;

/// Products of bf16 by VDPBF16PS of AVX512-BF16.
///
/// VDPBF16PS adds the products of two pairs of factors to a sum by two fused multiply-adds, that of
/// the upper halves first (32 million random results on AMD Zen 4 and on Intel Sapphire Rapids do
/// not differ).  With an input in the upper half and the second next one in the lower half, it
/// continues a chain of `cpu::multiply` by two inputs.
namespace bf16_dot {

/// Whether the processor has the instruction and the operating system saves its registers.
bool available();

/// Whether it multiplies faster than float32 multiply-adds: on AMD's processors twice as many
/// factors per cycle (Zen 4), on Intel's half as many (Sapphire Rapids).
bool is_fast();

/// Rounds a row of x to bf16, for `multiply`: per four inputs [2, 0, 3, 1], padded with zeros to
/// whole blocks of 32 inputs.
void round_row(const float* x, std::int64_t n, std::uint16_t* out);

/// See `cpu::multiply`; x has rows of `round_row`, without gaps.
void multiply(const Bf16Product& product);

/// `rounds` rounds of products in registers, for the ceiling.  Writes a value that depends on all
/// of them and returns the number of floating-point operations.
double multiply_registers(std::size_t rounds, float* out);

}  // namespace bf16_dot
}  // namespace turnbench::cpu
