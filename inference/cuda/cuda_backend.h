#pragma once

#include <memory>

#include "inference/backend.h"

namespace turnbench::cuda {

/// The number of CUDA devices; 0 if there is no driver.
int device_count();

/// Makes the backend of a device, with `threads` host threads for policies (0: all processors of
/// this process).  Operations run in one stream; the host does not wait for them until it needs a
/// result.
std::unique_ptr<Backend> make_backend(int device, int threads);

/// `Backend::scratch_bytes` of any CUDA device.
std::size_t scratch_bytes(const ModelConfig& config, const PassSize& pass);

}  // namespace turnbench::cuda
