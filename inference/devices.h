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

/// `auto` (the first CUDA device where this build and this machine have one, else the CPU), `cpu`,
/// `cuda` or `cuda:N`; an input error that names `place` for anything else, and for what is not
/// here.
Device parse_device(const std::string& text, const std::string& place);

std::unique_ptr<Backend> make_backend(const Device& device, int threads);

/// What `doctor` says about CUDA here.
std::string cuda_description();

}  // namespace turnbench
