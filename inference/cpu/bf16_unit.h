#pragma once

#include <vector>

namespace turnbench::cpu {

/// Instructions that multiply bf16.  All give the same bits (see `multiply`).
enum class Bf16Unit {
  kMultiplyAdd,  ///< float32 multiply-adds of widened factors
  kDotProduct,   ///< VDPBF16PS of AVX512-BF16
  kTiles         ///< TDPBF16PS of AMX (Advanced Matrix Extensions)
};

/// "AMX", "AVX512-BF16"; empty for multiply-adds.
const char* name_of(Bf16Unit unit);

/// Units that this machine has, best first.  Asks for the permission to use tiles and compares the
/// sums of each unit the first time.
const std::vector<Bf16Unit>& bf16_units();

/// Units that this machine has but does not use, because their sums are not those of
/// `multiply`.
const std::vector<Bf16Unit>& deviating_bf16_units();

/// The unit of products: the best one, unless `use_bf16_unit` said otherwise.
Bf16Unit bf16_unit();
/// Must not be called while a product runs.
void use_bf16_unit(Bf16Unit unit);

}  // namespace turnbench::cpu
