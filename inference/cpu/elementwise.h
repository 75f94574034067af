#pragma once

#include <cstddef>
#include <cstdint>

namespace turnbench::cpu {

/// out[r] = x[r] / sqrt(mean(x[r]^2) + eps) * weight, `width` floats a row; out may be x.
void rms_norm(const float* x, std::size_t ldx, std::size_t rows, std::size_t width,
              const float* weight, float eps, float* out, std::size_t ldo);

/// Rotates `heads` heads of `head_dim` floats in place, half-split pairs (d, d + head_dim / 2) by
/// the angle whose cosines and sines stand at cos, sin [head_dim / 2].
void rotate(float* x, int heads, int head_dim, const float* cos, const float* sin);

/// out[i] = gate[i] * sigmoid(gate[i]) * up[i].
void silu_multiply(const float* gate, const float* up, std::size_t n, float* out);

/// x[i] += y[i].
void add(float* x, const float* y, std::size_t n);

/// Name of the instruction set that the kernels were dispatched to.
const char* instruction_set();

}  // namespace turnbench::cpu
