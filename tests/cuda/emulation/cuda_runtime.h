#pragma once

// CUDA's runtime as far as inference/cuda uses it, on the host: one emulated device, whose streams
// run what was asked of them only when something waits for them.

#include "device_functions.h"
#include "runtime_api.h"
#include "scheduler.h"
#include "vector_types.h"
