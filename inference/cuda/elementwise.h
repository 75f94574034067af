#pragma once

#include <cstddef>
#include <span>

#include "inference/cuda/context.h"
#include "inference/cuda/linear.h"

namespace turnbench::cuda {

// The operations of Backend of the same names; all pointers are to float32 in device memory.

/// out[r] = x[r] / sqrt(mean(x[r]^2) + eps) * weight, `width` floats a row; out may be x.
void rms_norm(Context& context, const float* x, std::size_t ldx, std::size_t rows,
              std::size_t width, const float* weight, float eps, float* out, std::size_t ldo);

/// Rotates row r's `heads` heads in place, half-split pairs (d, d + head_dim / 2), by the angles
/// whose cosines and sines are row r of cos, sin [rows, head_dim / 2].
void rotate(Context& context, float* x, std::size_t ldx, std::size_t rows, int heads, int head_dim,
            const float* cos, const float* sin);

/// gate_up: [rows, 2 width], gate first; out: [rows, width] = gate * sigmoid(gate) * up.
void silu_multiply(Context& context, const float* gate_up, std::size_t rows, std::size_t width,
                   float* out);

/// x += y, n floats.
void add(Context& context, float* x, const float* y, std::size_t n);

/// to[r] = from[r], rows of `width` floats.
void copy_rows(Context& context, const float* from, std::size_t ld_from, std::size_t rows,
               std::size_t width, float* to, std::size_t ld_to);

/// out[i] = row tokens[i] of `table`, [tokens, table.in].
void embed(Context& context, const Weights& table, std::span<const int> tokens, float* out);

}  // namespace turnbench::cuda
