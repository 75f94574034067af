#include "inference/cpu/simd.h"

#include <hwy/targets.h>

#include "common/error.h"
#include "common/text.h"
#include "inference/cpu/amx.h"

namespace turnbench::cpu {
namespace {

constexpr const char* kAmx = "AMX";  // for products of bf16 only

}  // namespace

std::vector<std::string> simd_levels() {
  std::vector<std::string> out;
  if (amx::available()) out.emplace_back(kAmx);
  for (std::int64_t target : hwy::SupportedAndGeneratedTargets())
    out.push_back(hwy::TargetName(target));
  return out;
}

void limit_simd(const std::string& level) {
  if (level == kAmx && amx::available()) return;
  for (std::int64_t target : hwy::SupportedAndGeneratedTargets()) {
    if (level != hwy::TargetName(target)) continue;
    hwy::DisableTargets(target - 1);  // better targets have lower bits
    amx::enable(false);
    return;
  }
  throw input_error("--simd: found \"{}\", expected one of {}", printable(shorten(level, 40)),
                    join(simd_levels(), ", "));
}

}  // namespace turnbench::cpu
