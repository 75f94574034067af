#pragma once

#include <cstddef>
#include <cstdint>

#include "inference/model/matrix_view.h"

namespace turnbench::cpu {

struct PairedMatrix;

/// Products of bf16 by the tiles of AMX (Advanced Matrix Extensions).
namespace amx {

constexpr std::int64_t kTileRows = 16;

enum class Support {
  kMissing,  ///< the processor lacks AMX with bf16, or the operating system does not permit its use
  kDeviates,  ///< its sums are not those of `linear_bf16`
  kAvailable
};

/// Asks for the permission and compares sums the first time.
Support support();
inline bool available() {
  return support() == Support::kAvailable;
}
/// Whether products use it: if it is available, unless `enable` said otherwise.
bool enabled();
/// Must not be called while a product runs.
void enable(bool use);

/// Rounds at most 16 rows to bf16 and writes them as tiles: [blocks of 32 inputs][16 rows][32],
/// padded with zeros.
void round_to_tiles(MatrixView<const float> x, std::uint16_t* tiles);

/// One thread's share of a product.
struct Task {
  /// x as `round_to_tiles` leaves it: [tiles of 16 rows][blocks][16][32].
  const std::uint16_t* tiles;
  const PairedMatrix* w;
  std::int64_t first_panel, last_panel;
  MatrixView<float> y;  ///< [rows, out], set
};

/// y[r, o] = sum_i x[r, i] w[o, i]; see `linear_bf16`.
void multiply(const Task& task);

/// `rounds` times four products of tiles that are in registers, for the ceiling.  Returns the
/// number of floating-point operations.
double multiply_registers(std::size_t rounds);

}  // namespace amx
}  // namespace turnbench::cpu
