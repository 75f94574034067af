#pragma once

#include <memory>
#include <string>

#include "inference/backend.h"

namespace turnbench {

/// Where a model runs.
struct Device {
  bool cuda = false;
  int index = 0;
};

/// `auto`, `cpu`, `cuda` or `cuda:N`; an input error that names `place` for anything else, and for
/// what is not here.  `auto` is the CPU: kernels that have never run on a card are not chosen for
/// anybody who did not ask for them.
Device parse_device(const std::string& text, const std::string& place);

std::unique_ptr<Backend> make_backend(const Device& device, int threads);

/// What `doctor` says about CUDA here.
std::string cuda_description();

}  // namespace turnbench
