#pragma once

#include <cstddef>
#include <cstdint>

#include "inference/model/matrix_view.h"

namespace turnbench::cpu {

struct Bf16Product;

/// Products of bf16 by the tiles of AMX (Advanced Matrix Extensions).
namespace amx {

constexpr std::int64_t kTileRows = 16;

/// Whether the processor has AMX with bf16 and the operating system permits its use.  Asks for the
/// permission the first time.
bool available();

/// Rounds at most 16 rows to bf16 and writes them as tiles: [blocks of 32 inputs][16 rows][32],
/// padded with zeros.
void round_to_tiles(MatrixView<const float> x, std::uint16_t* tiles);

/// See `cpu::multiply`; x is as `round_to_tiles` leaves it, [tiles of 16 rows][blocks][16][32].
void multiply(const Bf16Product& product);

/// `rounds` times four products of tiles that are in registers, for the ceiling.  Returns the
/// number of floating-point operations.
double multiply_registers(std::size_t rounds);

}  // namespace amx
}  // namespace turnbench::cpu
