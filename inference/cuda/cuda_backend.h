#pragma once

#include <memory>

#include "inference/backend.h"

namespace turnbench::cuda {

/// Devices that CUDA offers; 0 where there is no driver.
int device_count();

/// The backend of a device, with `threads` host threads for what policies compute (0: all
/// processors of this process).  One stream: operations run one after the other, and the host runs
/// ahead of them until it asks for a result.
std::unique_ptr<Backend> make_backend(int device, int threads);

/// What a backend of any device says of `Backend::scratch_bytes`: an upper bound.
std::size_t scratch_bytes(const ModelConfig& config, const PassSize& pass);

}  // namespace turnbench::cuda
