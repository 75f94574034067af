#pragma once

#include <string>
#include <vector>

namespace turnbench::cpu {

/// The instruction sets that this build has kernels for and this machine supports, best first, by
/// Highway's names: AVX3, AVX2, ...; and AMX, whose tiles multiply bf16.
std::vector<std::string> simd_levels();

/// Limits kernels to `level`, one of `simd_levels()`, and worse ones.  Must be called before the
/// first kernel.
void limit_simd(const std::string& level);

}  // namespace turnbench::cpu
