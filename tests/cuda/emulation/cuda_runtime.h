#pragma once

// The part of CUDA's runtime that inference/cuda uses, on the host.  Streams of the emulated device
// run their operations only when something waits for them.

#include "device_functions.h"
#include "runtime_api.h"
#include "scheduler.h"
#include "vector_types.h"
