// Programs of nvcc with drivers that cannot run them: each is replaced by stub_driver.cpp.

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "tests/cli/program.h"

namespace turnbench::test {
namespace {

/// Makes programs load the library in a directory as their CUDA driver.
class Driver {
 public:
  explicit Driver(const std::string& directory) {
    setenv("LD_LIBRARY_PATH", (directory + ":" + before_).c_str(), 1);
  }
  /// The stub with a version and a result of cuInit.
  Driver(int version, int init) : Driver(TURNBENCH_STUB_DRIVER) {
    setenv("STUB_DRIVER_VERSION", std::to_string(version).c_str(), 1);
    setenv("STUB_DRIVER_INIT", std::to_string(init).c_str(), 1);
  }
  ~Driver() { setenv("LD_LIBRARY_PATH", before_.c_str(), 1); }
  Driver(const Driver&) = delete;
  Driver& operator=(const Driver&) = delete;

 private:
  static std::string library_path() {
    const char* path = std::getenv("LD_LIBRARY_PATH");
    return path == nullptr ? "" : path;
  }

  const std::string before_ = library_path();
};

/// `doctor` states the reason and succeeds; a request for the GPU is refused with the reason; a
/// choice of the device takes the CPU.
void expect_no_gpu(const std::string& reason) {
  const Finished doctor = run_program({"doctor", "--json"});
  EXPECT_EQ(doctor.code, 0) << doctor.err;
  EXPECT_EQ(doctor.json()["gpu"], "none: " + reason);

  const auto generate = [](const char* device) {
    return run_program(
        {"generate", "--model", "tiny", "--ids", "1,2", "--max-tokens", "1", "--device", device});
  };
  const Finished refused = generate("cuda");
  EXPECT_EQ(refused.code, 2);
  EXPECT_EQ(refused.out, "");
  EXPECT_EQ(refused.err, "turnbench: --device: found cuda, expected auto or cpu: " + reason + "\n");

  const Finished automatic = generate("auto");
  EXPECT_EQ(automatic.code, 0) << automatic.err;
  EXPECT_EQ(automatic.out, generate("cpu").out);
}

TEST(CudaDriver, Absent) {
  const TemporaryDirectory d;
  d.write("libcuda.so.1", "");  // also hides the driver of a machine that has one
  const Driver driver(d.path());
  expect_no_gpu("this machine has no CUDA driver (libcuda.so.1)");
}

TEST(CudaDriver, OlderThanTheRuntime) {
  const Driver driver(11040, 0);
  expect_no_gpu(std::string("the CUDA driver (11.4) is older than the runtime (") +
                TURNBENCH_CUDA_RUNTIME +
                "): CUDA driver version is insufficient for CUDA runtime version");
}

TEST(CudaDriver, WithoutDevices) {
  const Driver driver(99000, 100);  // CUDA_ERROR_NO_DEVICE
  expect_no_gpu("this machine has no CUDA device");
}

TEST(CudaDriver, NotYetReady) {
  const Driver driver(99000, 802);  // CUDA_ERROR_SYSTEM_NOT_READY
  expect_no_gpu(std::string("CUDA counts no devices: system not yet initialized (driver 99.0, ") +
                "runtime " + TURNBENCH_CUDA_RUNTIME + ")");
}

}  // namespace
}  // namespace turnbench::test
