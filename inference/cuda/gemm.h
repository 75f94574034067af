#pragma once

#include <cstddef>
#include <memory>

#include "inference/cuda/context.h"
#include "inference/model/dtype.h"

namespace turnbench::cuda {

/// Products of large matrices by cuBLASLt, which is loaded at the first product.  Results are
/// deterministic from run to run.
class Gemm {
 public:
  static constexpr std::size_t kWorkspaceBytes = std::size_t{32}
                                                 << 20;  ///< of the library, at most

  Gemm();
  ~Gemm();
  Gemm(const Gemm&) = delete;
  Gemm& operator=(const Gemm&) = delete;

  /// y[r, o] = sum_i x[r, i] w[o, i], all in device memory.  x: [rows, in] of `type`, stride ldx;
  /// w: [out, in] of `type`; y: [rows, out] of float32, stride ldy.  Sums are float32.  False if
  /// the library has no algorithm for these shapes and addresses; y is then unchanged.
  /// @throws Error (runtime) if the library is missing, Error (memory) if its workspace does not
  /// fit.
  [[nodiscard]] bool run(Context& context, DType type, const void* x, std::size_t rows,
                         std::size_t ldx, const void* w, std::size_t out, std::size_t in, float* y,
                         std::size_t ldy);

  /// Bytes of device memory in use: none before the first product.
  std::size_t bytes() const;

 private:
  struct Library;
  std::unique_ptr<Library> library_;
};

}  // namespace turnbench::cuda
