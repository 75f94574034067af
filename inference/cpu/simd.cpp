#include "inference/cpu/simd.h"

#include <hwy/targets.h>

#include "common/error.h"
#include "common/text.h"
#include "inference/cpu/bf16_unit.h"

namespace turnbench::cpu {
std::vector<std::string> simd_levels() {
  std::vector<std::string> out;
  for (const Bf16Unit unit : bf16_units()) {
    if (unit != Bf16Unit::kMultiplyAdd) out.emplace_back(name_of(unit));
  }
  for (std::int64_t target : hwy::SupportedAndGeneratedTargets())
    out.push_back(hwy::TargetName(target));
  return out;
}

void limit_simd(const std::string& level) {
  for (const Bf16Unit unit : bf16_units()) {
    if (unit == Bf16Unit::kMultiplyAdd || level != name_of(unit)) continue;
    use_bf16_unit(unit);
    return;
  }
  for (std::int64_t target : hwy::SupportedAndGeneratedTargets()) {
    if (level != hwy::TargetName(target)) continue;
    hwy::DisableTargets(target - 1);  // better targets have lower bits
    use_bf16_unit(Bf16Unit::kMultiplyAdd);
    return;
  }
  throw input_error("--simd: found \"{}\", expected one of {}", printable(shorten(level, 40)),
                    join(simd_levels(), ", "));
}

}  // namespace turnbench::cpu
