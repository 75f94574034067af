#include <algorithm>
#include <bit>
#include <map>

#include "inference/cuda/cublas_lt.h"
#include "inference/cuda/gemm.h"

namespace turnbench::cuda {
namespace {

void check_blas(const CublasLt& blas, cublasStatus_t status, const char* what) {
  if (status != CUBLAS_STATUS_SUCCESS)
    throw runtime_error("cuBLASLt, {}: {}", what, blas.get_status_string(status));
}

cudaDataType_t type_of(DType type) {
  switch (type) {
    case DType::kF32:
      return CUDA_R_32F;
    case DType::kF16:
      return CUDA_R_16F;
    case DType::kBF16:
      return CUDA_R_16BF;
  }
  return CUDA_R_32F;
}

/// The largest power of two, up to 256, that divides an address.
std::uint32_t alignment_of(const void* data) {
  const auto address = static_cast<std::uint64_t>(reinterpret_cast<std::uintptr_t>(data));
  return std::uint32_t{1} << std::min(8, std::countr_zero(address));
}

/// An opaque descriptor of the library.
template <typename T, auto kDestroy>
class Handle {
 public:
  explicit Handle(const CublasLt& blas) : blas_(blas) {}
  ~Handle() {
    if (value_ != nullptr) (blas_.*kDestroy)(value_);
  }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  T* receive() { return &value_; }
  T get() const { return value_; }

 private:
  const CublasLt& blas_;
  T value_ = nullptr;
};

using Layout = Handle<cublasLtMatrixLayout_t, &CublasLt::layout_destroy>;

/// All properties on which the choice of an algorithm depends.
struct Shape {
  DType type;
  std::size_t rows, out, in, ldx, ldy;
  std::uint32_t align_w, align_x, align_y;

  auto operator<=>(const Shape&) const = default;
};

/// The library's matrices are column-major: y^T [out, rows] = (w^T)^T x^T.
struct Plan {
  const CublasLt& blas;
  Handle<cublasLtMatmulDesc_t, &CublasLt::product_destroy> product{blas};
  Layout w{blas}, x{blas}, y{blas};
  bool exists = false;  ///< if false, the library has no algorithm
  cublasLtMatmulAlgo_t algorithm = {};

  Plan(const CublasLt& library, cublasLtHandle_t handle, const Shape& s) : blas(library) {
    check_blas(blas, blas.product_create(product.receive(), CUBLAS_COMPUTE_32F, CUDA_R_32F),
               "describing a product");
    const cublasOperation_t transposed = CUBLAS_OP_T;
    check_blas(blas,
               blas.product_set_attribute(product.get(), CUBLASLT_MATMUL_DESC_TRANSA, &transposed,
                                          sizeof(transposed)),
               "describing a product");
    make(w, type_of(s.type), s.in, s.out, s.in);
    make(x, type_of(s.type), s.in, s.rows, s.ldx);
    make(y, CUDA_R_32F, s.out, s.rows, s.ldy);
    choose(handle, s);
  }

 private:
  void make(Layout& layout, cudaDataType_t type, std::size_t rows, std::size_t columns,
            std::size_t ld) const {
    check_blas(
        blas,
        blas.layout_create(layout.receive(), type, rows, columns, static_cast<std::int64_t>(ld)),
        "describing a matrix");
  }

  void choose(cublasLtHandle_t handle, const Shape& s) {
    Handle<cublasLtMatmulPreference_t, &CublasLt::preference_destroy> preference(blas);
    check_blas(blas, blas.preference_create(preference.receive()), "choosing an algorithm");
    const auto set = [&](cublasLtMatmulPreferenceAttributes_t name, auto value) {
      check_blas(blas, blas.preference_set_attribute(preference.get(), name, &value, sizeof(value)),
                 "choosing an algorithm");
    };
    set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, std::uint64_t{Gemm::kWorkspaceBytes});
    // Partial sums are added in float32, in a separate step.
    set(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
        static_cast<std::uint32_t>(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE));
    set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, s.align_w);
    set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, s.align_x);
    set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, s.align_y);
    set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, s.align_y);
    cublasLtMatmulHeuristicResult_t best = {};
    int found = 0;
    const cublasStatus_t status =
        blas.choose_algorithm(handle, product.get(), w.get(), x.get(), y.get(), y.get(),
                              preference.get(), 1, &best, &found);
    if (status == CUBLAS_STATUS_NOT_SUPPORTED) return;
    check_blas(blas, status, "choosing an algorithm");
    exists = found > 0 && best.state == CUBLAS_STATUS_SUCCESS;
    algorithm = best.algo;
  }
};

}  // namespace

struct Gemm::Library {
  CublasLt blas = load_cublas_lt();
  Handle<cublasLtHandle_t, &CublasLt::destroy> handle{blas};
  std::byte* workspace = nullptr;
  std::map<Shape, Plan> plans;

  explicit Library(const Context& context) {
    check(cudaSetDevice(context.device()), "choosing the device");
    check_blas(blas, blas.create(handle.receive()), "starting");
    workspace = context.allocate(Gemm::kWorkspaceBytes, "workspaces of cuBLASLt");
  }
  ~Library() { cudaFree(workspace); }
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;

  const Plan& plan(const Shape& shape) {
    return plans.try_emplace(shape, blas, handle.get(), shape).first->second;
  }
};

Gemm::Gemm() = default;
Gemm::~Gemm() = default;

bool Gemm::run(Context& context, DType type, const void* x, std::size_t rows, std::size_t ldx,
               const void* w, std::size_t out, std::size_t in, float* y, std::size_t ldy) {
  if (library_ == nullptr) library_ = std::make_unique<Library>(context);
  const CublasLt& blas = library_->blas;
  const Plan& plan = library_->plan(
      {type, rows, out, in, ldx, ldy, alignment_of(w), alignment_of(x), alignment_of(y)});
  if (!plan.exists) return false;
  const float one = 1, zero = 0;
  check_blas(blas,
             blas.multiply(library_->handle.get(), plan.product.get(), &one, w, plan.w.get(), x,
                           plan.x.get(), &zero, y, plan.y.get(), y, plan.y.get(), &plan.algorithm,
                           library_->workspace, Gemm::kWorkspaceBytes, context.stream()),
             "multiplying");
  return true;
}

std::size_t Gemm::bytes() const {
  return library_ == nullptr ? 0 : Gemm::kWorkspaceBytes;
}

}  // namespace turnbench::cuda
