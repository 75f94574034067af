#pragma once

#include <optional>
#include <string>
#include <vector>

#include "methods/method.h"

namespace turnbench {

/// The settings that methods have besides their own parameters, as far as a method accepts them.
struct MethodSettings {
  bool evicts_at_prompt_ends = false;    ///< with its defaults, it evicts, and only there
  bool can_compress = false;             ///< accepts "compress"
  std::string compress_with;             ///< "mode=prefill": the setting needed for it; "": none
  bool can_compress_blocks = false;      ///< accepts "compress_block"
  std::vector<ParameterInfo> placement;  ///< with the method's defaults; empty: device only

  /// Those of the parameters "compress" and "compress_block" that it accepts.  They refer to this
  /// object.
  std::vector<ParameterInfo> compression() const;
};

MethodSettings settings_of(const MethodInfo& method);

}  // namespace turnbench
