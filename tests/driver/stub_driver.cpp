// A library that replaces the CUDA driver (libcuda.so.1) for programs of nvcc: of the driver API
// (cuda.h), it has what the runtime calls before it counts devices.  The environment determines
// its answers.
//
// STUB_DRIVER_VERSION   of cuDriverGetVersion: 1000 * major + 10 * minor
// STUB_DRIVER_INIT      the CUresult of cuInit

#include <array>
#include <cstdint>
#include <cstdlib>
#include <string_view>
#include <utility>

namespace {

constexpr int kSuccess = 0, kInvalidValue = 1, kNotInitialized = 3, kNotFound = 500;

int from_environment(const char* name, int otherwise) {
  const char* value = std::getenv(name);
  return value == nullptr ? otherwise : std::atoi(value);
}

/// Any function that needs an initialized driver.
int not_initialized() {
  return kNotInitialized;
}

}  // namespace

extern "C" {

int cuDriverGetVersion(int* version) {
  if (version == nullptr) return kInvalidValue;
  *version = from_environment("STUB_DRIVER_VERSION", 0);
  return kSuccess;
}

int cuInit(unsigned /*flags*/) {
  return from_environment("STUB_DRIVER_INIT", kSuccess);
}

int cuGetExportTable(const void** /*table*/, const void* /*id*/) {
  return kNotFound;
}

int cuGetProcAddress_v2(const char* symbol, void** function, int /*version*/,
                        std::uint64_t /*flags*/, int* status) {
  using Function = std::pair<std::string_view, void*>;
  const std::array functions = {
      Function{"", nullptr},  // the runtime asks for it to see whether the function works
      Function{"cuDriverGetVersion", reinterpret_cast<void*>(&cuDriverGetVersion)},
      Function{"cuInit", reinterpret_cast<void*>(&cuInit)},
      Function{"cuGetExportTable", reinterpret_cast<void*>(&cuGetExportTable)},
      Function{"cuGetProcAddress", reinterpret_cast<void*>(&cuGetProcAddress_v2)},
  };
  if (status != nullptr) *status = 0;
  *function = reinterpret_cast<void*>(&not_initialized);
  for (const auto& [name, address] : functions)
    if (name == symbol) *function = address;
  return kSuccess;
}

}  // extern "C"
