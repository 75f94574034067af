#include "inference/devices/devices.h"

#include <algorithm>

#include "common/error.h"
#include "common/text.h"
#ifdef TURNBENCH_CUDA
#include "inference/cuda/cuda_backend.h"
#endif

namespace turnbench {
namespace {

#ifdef TURNBENCH_CUDA
using cuda::device_count, cuda::no_device_reason;
#else
int device_count() {
  return 0;
}
std::string no_device_reason() {
  return "this program was built without CUDA";
}
#endif

}  // namespace

std::vector<Device> parse_devices(const std::string& text, const std::string& place) {
  if (text == "cpu" || text == "auto") return {Device{}};
  const auto malformed = [&] {
    return input_error("{}: found \"{}\", expected auto, cpu or cuda[:N[,M...]]", place,
                       printable(text));
  };
  if (text != "cuda" && !text.starts_with("cuda:")) throw malformed();
  std::vector<Device> out;
  for (const std::string& part : split(text == "cuda" ? "0" : text.substr(5), ",")) {
    const std::optional<std::int64_t> index = parse_number<std::int64_t>(part);
    if (!index || *index < 0 || *index > INT32_MAX) throw malformed();
    const Device device{true, static_cast<int>(*index)};
    if (std::find(out.begin(), out.end(), device) != out.end()) {
      throw input_error("{}: found device {} twice in {}, expected each once", place, device.index,
                        printable(text));
    }
    out.push_back(device);
  }
  const int count = device_count();
  if (count == 0) {
    throw input_error("{}: found {}, expected auto or cpu: {}", place, printable(text),
                      no_device_reason());
  }
  for (const Device& device : out) {
    if (device.index < count) continue;
    throw input_error("{}: found device {}, expected one from 0 to {}: this machine has {}", place,
                      device.index, count - 1, count);
  }
  return out;
}

std::unique_ptr<Backend> make_backend(const Device& device, int threads) {
#ifdef TURNBENCH_CUDA
  if (device.cuda) return cuda::make_backend(device.index, threads);
#endif
  return device.cuda ? nullptr : make_cpu_backend(threads);
}

std::size_t scratch_bytes_of(const Device& device, int threads, const ModelConfig& config,
                             const PassSize& pass) {
#ifdef TURNBENCH_CUDA
  if (device.cuda) return cuda::scratch_bytes(config, pass);
#endif
  return device.cuda ? 0 : cpu_scratch_bytes(config, pass, threads);
}

std::vector<std::unique_ptr<Backend>> make_backends(std::span<const Device> devices, int threads) {
  std::vector<std::unique_ptr<Backend>> out;
  for (const Device& device : devices) out.push_back(make_backend(device, threads));
  return out;
}

std::string description_of(std::span<const std::unique_ptr<Backend>> backends) {
  std::vector<std::string> each;
  for (const auto& backend : backends) each.push_back(backend->description());
  return join(each, "; ");
}

std::string cuda_description() {
  const int devices = device_count();
  if (devices == 0) return fmt::format("none: {}", no_device_reason());
  return fmt::format("{}, the first of {}", make_backend({true, 0}, 1)->description(), devices);
}

}  // namespace turnbench
