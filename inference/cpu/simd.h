#pragma once

#include <string>
#include <vector>

namespace turnbench::cpu {

/// The instruction sets that this build has kernels for and this machine supports: first those that
/// multiply bf16 (AMX, AVX512-BF16), then the others by Highway's names (AVX3, AVX2, ...), the best
/// first.
std::vector<std::string> simd_levels();

/// Limits kernels to `level`, one of `simd_levels()`, and worse ones.  Must be called before the
/// first kernel.
void limit_simd(const std::string& level);

}  // namespace turnbench::cpu
