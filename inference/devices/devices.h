#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "inference/backend/backend.h"

namespace turnbench {

/// The device of a model or of one of its stages: the CPU, or a CUDA device.
struct Device {
  bool cuda = false;
  int index = 0;
  bool operator==(const Device&) const = default;
};

/// Parses `auto`, `cpu`, `cuda`, `cuda:N`, or `cuda:N,M,...` for a model whose stages are on these
/// devices in this order.  `auto` is the CPU, because the CUDA kernels have never run on a GPU.
/// @throws Error (input), with `place` in the message, for anything else and for missing devices.
std::vector<Device> parse_devices(const std::string& text, const std::string& place);

std::unique_ptr<Backend> make_backend(const Device& device, int threads);
std::vector<std::unique_ptr<Backend>> make_backends(std::span<const Device> devices, int threads);

/// `Backend::scratch_bytes` of a backend on this device with `threads` threads.
std::size_t scratch_bytes_of(const Device& device, int threads, const ModelConfig& config,
                             const PassSize& pass);

/// The descriptions of the backends, on one line.
std::string description_of(std::span<const std::unique_ptr<Backend>> backends);

/// The output of `doctor` about CUDA on this machine.
std::string cuda_description();

}  // namespace turnbench
