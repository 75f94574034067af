#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "inference/backend.h"

namespace turnbench {

/// Where a model, or a stage of one, runs.
struct Device {
  bool cuda = false;
  int index = 0;
  bool operator==(const Device&) const = default;
};

/// `auto`, `cpu`, `cuda`, `cuda:N`, or `cuda:N,M,...` for a model whose stages lie on these cards
/// in this order; an input error that names `place` for anything else, and for what is not here.
/// `auto` is the CPU: kernels that have never run on a card are not chosen for anybody who did not
/// ask for them.
std::vector<Device> parse_devices(const std::string& text, const std::string& place);

std::unique_ptr<Backend> make_backend(const Device& device, int threads);
std::vector<std::unique_ptr<Backend>> make_backends(std::span<const Device> devices, int threads);

/// What a backend of the device with `threads` threads says of `Backend::scratch_bytes`.
std::size_t scratch_bytes_of(const Device& device, int threads, const ModelConfig& config,
                             const PassSize& pass);

/// What each calls itself, in one line.
std::string description_of(std::span<const std::unique_ptr<Backend>> backends);

/// What `doctor` says about CUDA here.
std::string cuda_description();

}  // namespace turnbench
