#pragma once

#include <memory>
#include <string>

#include "inference/backend/backend.h"

namespace turnbench::cuda {

/// The number of CUDA devices; 0 if they cannot be counted.
int device_count();
/// The reason why `device_count` is 0, as a clause: there is no device or no driver, the driver is
/// older than the runtime, or else CUDA's error and both versions.
std::string no_device_reason();

/// Makes the backend of a device, with `threads` host threads for policies (0: all processors of
/// this process).  Operations run in one stream; the host does not wait for them until it needs a
/// result.
std::unique_ptr<Backend> make_backend(int device, int threads);

/// `Backend::scratch_bytes` of any CUDA device.
std::size_t scratch_bytes(const ModelConfig& config, const PassSize& pass);

}  // namespace turnbench::cuda
