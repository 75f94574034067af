#pragma once

#include <string>

#include "harness/store/store.h"

namespace turnbench {

/// One experiment of a store, as one side of a comparison.
struct Run {
  const Store* store = nullptr;
  std::string experiment;
};

}  // namespace turnbench
