#pragma once

#include "methods/method.h"

namespace turnbench {

MethodInfo loopserve_decode();

}  // namespace turnbench
