#pragma once

#include <cstdint>

#include "inference/model/matrix_view.h"

namespace turnbench::cpu {

/// out[r] = x[r] / sqrt(mean(x[r]^2) + eps) * weight.  x, out: [rows, width]; weight: [width]; out
/// may be x.
void rms_norm(MatrixView<const float> x, const float* weight, float eps, MatrixView<float> out);

/// Applies RoPE in place: rotates the pairs (d, d + head_dim / 2) of every head of row r by the
/// angles whose cosines and sines are row r of cos and sin.  x: [rows, heads * head_dim]; cos, sin:
/// [rows, head_dim / 2].
void apply_rope(MatrixView<float> x, MatrixView<const float> cos, MatrixView<const float> sin);

/// SwiGLU: out = gate * sigmoid(gate) * up.  gate_up: [rows, 2 * width], gate first; out: [rows,
/// width].
void silu_multiply(MatrixView<const float> gate_up, MatrixView<float> out);

/// x += y.  x, y: [n].
void add(float* x, const float* y, std::int64_t n);

/// The name of the instruction set that the kernels use.
const char* instruction_set();

}  // namespace turnbench::cpu
