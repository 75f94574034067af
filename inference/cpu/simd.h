#pragma once

#include <string>
#include <vector>

namespace turnbench::cpu {

/// Instruction sets that this build has kernels for and this machine runs, best first: AVX3,
/// AVX2...
std::vector<std::string> simd_levels();

/// Uses none better than `level`, one of `simd_levels()`.  To be called before the first kernel.
void limit_simd(const std::string& level);

}  // namespace turnbench::cpu
