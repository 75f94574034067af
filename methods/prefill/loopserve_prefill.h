#pragma once

#include "methods/method.h"

namespace turnbench {

MethodInfo loopserve_prefill();

}  // namespace turnbench
