#include "inference/devices.h"

#include "common/error.h"
#include "common/text.h"
#ifdef TURNBENCH_CUDA
#include "inference/cuda/cuda_backend.h"
#endif

namespace turnbench {
Device parse_device(const std::string& text, const std::string& place) {
  if (text == "cpu" || text == "auto") return {};
  if (text != "cuda" && !text.starts_with("cuda:"))
    throw input_error("{}: found \"{}\", expected auto, cpu or cuda[:N]", place, printable(text));
#ifndef TURNBENCH_CUDA
  throw input_error("{}: found {}, expected auto or cpu: this program was built without CUDA",
                    place, printable(text));
#else
  const int devices = cuda::device_count();
  const std::optional<std::int64_t> index =
      text == "cuda" ? 0 : parse_number<std::int64_t>(std::string_view(text).substr(5));
  if (!index || *index < 0)
    throw input_error("{}: found \"{}\", expected auto, cpu or cuda[:N]", place, printable(text));
  if (devices == 0) {
    throw input_error("{}: found {}, expected auto or cpu: this machine has no CUDA device", place,
                      printable(text));
  }
  if (*index >= devices) {
    throw input_error("{}: found {}, expected one of this machine's {} CUDA devices", place,
                      printable(text), devices);
  }
  return {true, static_cast<int>(*index)};
#endif
}

std::unique_ptr<Backend> make_backend(const Device& device, int threads) {
#ifdef TURNBENCH_CUDA
  if (device.cuda) return cuda::make_backend(device.index, threads);
#endif
  return device.cuda ? nullptr : make_cpu_backend(threads);
}

std::string cuda_description() {
#ifdef TURNBENCH_CUDA
  const int devices = cuda::device_count();
  if (devices == 0) return "none: built with CUDA, but this machine has no device";
  return fmt::format("{}, the first of {}", cuda::make_backend(0, 1)->description(), devices);
#else
  return "none: built without CUDA";
#endif
}

}  // namespace turnbench
