// cuBLASLt for the emulated GPU: checks the documented requirements of calls, and computes products
// with plain loops.

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <mutex>
#include <optional>
#include <utility>

#include "cublasLt.h"
#include "device.h"
#include "products.h"

struct cublasLtContext {
  int device;
};
struct cublasLtMatrixLayoutOpaque_t {
  cudaDataType_t type;
  std::uint64_t rows, columns, ld;
  bool operator==(const cublasLtMatrixLayoutOpaque_t&) const = default;
};
struct cublasLtMatmulDescOpaque_t {
  std::int32_t a = CUBLAS_OP_N, b = CUBLAS_OP_N;
};
struct cublasLtMatmulPreferenceOpaque_t {
  std::uint64_t workspace = 0;
  std::uint32_t reduction = CUBLASLT_REDUCTION_SCHEME_MASK;
  std::array<std::uint32_t, 4> alignment = {256, 256, 256, 256};  ///< of A, B, C, D
};

namespace {

using emulation::ProductShape;

constexpr std::uintptr_t kWorkspaceAlignment = 16;

struct State {
  std::recursive_mutex mutex;
  std::set<const void*> objects;  ///< that are not destroyed
  std::function<bool(const ProductShape&)> refuses;
  cublasStatus_t refusal = CUBLAS_STATUS_SUCCESS;
  std::size_t products = 0;
};
State& state() {
  static State all;
  return all;
}
using StateLock = std::lock_guard<std::recursive_mutex>;

template <typename T, typename... Args>
cublasStatus_t make(T** out, Args... args) {
  if (out == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  const StateLock lock(state().mutex);
  *out = new T{args...};
  state().objects.insert(*out);
  return CUBLAS_STATUS_SUCCESS;
}

template <typename T>
cublasStatus_t destroy(T* object, cublasStatus_t unknown = CUBLAS_STATUS_INVALID_VALUE) {
  const StateLock lock(state().mutex);
  if (state().objects.erase(object) == 0) return unknown;
  delete object;
  return CUBLAS_STATUS_SUCCESS;
}

bool are_live(std::initializer_list<const void*> objects) {
  const StateLock lock(state().mutex);
  return std::all_of(objects.begin(), objects.end(),
                     [](const void* x) { return state().objects.contains(x); });
}

/// False if the size is not that of the attribute.
template <typename T>
bool take(T& to, const void* value, std::size_t bytes) {
  if (value == nullptr || bytes != sizeof(T)) return false;
  std::memcpy(&to, value, sizeof(T));
  return true;
}

std::optional<turnbench::DType> element_type(cudaDataType_t type) {
  switch (type) {
    case CUDA_R_32F:
      return turnbench::DType::kF32;
    case CUDA_R_16F:
      return turnbench::DType::kF16;
    case CUDA_R_16BF:
      return turnbench::DType::kBF16;
    case CUDA_R_64F:
      break;
  }
  return std::nullopt;
}

std::size_t element_bytes(const cublasLtMatrixLayoutOpaque_t& layout) {
  return turnbench::size_of(*element_type(layout.type));
}

/// The bytes from the first to the last element.
std::size_t extent(const cublasLtMatrixLayoutOpaque_t& layout) {
  return ((layout.columns - 1) * layout.ld + layout.rows) * element_bytes(layout);
}

/// A product for which an algorithm is selected.
struct Problem {
  std::uint32_t m, n, k, lda, ldb, ldc, ldd;
  std::uint8_t type, transposed_a, transposed_b, device;
  bool operator==(const Problem&) const = default;
};
struct Algorithm {
  Problem problem;
  std::array<std::uint16_t, 4> alignment;  ///< of A, B, C, D
  std::uint64_t workspace;
};
static_assert(sizeof(Algorithm) <= sizeof(cublasLtMatmulAlgo_t));

cublasStatus_t describe(cublasLtHandle_t handle, cublasLtMatmulDesc_t product,
                        cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                        cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d, Problem& out) {
  if (!are_live({handle})) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (!are_live({product, a, b, c, d})) return CUBLAS_STATUS_INVALID_VALUE;
  const bool turn_a = product->a == CUBLAS_OP_T, turn_b = product->b == CUBLAS_OP_T;
  const std::uint64_t m = turn_a ? a->columns : a->rows, k = turn_a ? a->rows : a->columns,
                      n = turn_b ? b->rows : b->columns, same_k = turn_b ? b->columns : b->rows;
  const auto is_output = [&](const cublasLtMatrixLayoutOpaque_t& layout) {
    return layout.rows == m && layout.columns == n;
  };
  if (handle->device != emulation::current_device() || k != same_k || !is_output(*c) ||
      !is_output(*d)) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  // The documented types with float32 sums, including those with float32 output.
  if (a->type != b->type || !element_type(a->type) || c->type != CUDA_R_32F ||
      d->type != CUDA_R_32F) {
    return CUBLAS_STATUS_NOT_SUPPORTED;
  }
  const auto narrow = [](std::uint64_t x) { return static_cast<std::uint32_t>(x); };
  out = {narrow(m),
         narrow(n),
         narrow(k),
         narrow(a->ld),
         narrow(b->ld),
         narrow(c->ld),
         narrow(d->ld),
         static_cast<std::uint8_t>(a->type),
         turn_a,
         turn_b,
         static_cast<std::uint8_t>(handle->device)};
  return CUBLAS_STATUS_SUCCESS;
}

bool is_device_memory(const void* data, std::size_t bytes, int device) {
  cudaPointerAttributes first = {}, last = {};
  cudaPointerGetAttributes(&first, data);
  cudaPointerGetAttributes(&last, static_cast<const std::byte*>(data) + bytes - 1);
  const auto is_on_device = [&](const cudaPointerAttributes& found) {
    return found.type == cudaMemoryTypeDevice && found.device == device;
  };
  return is_on_device(first) && is_on_device(last);
}

struct Operand {
  const void* data;
  std::size_t bytes;
  std::uintptr_t alignment;

  std::uintptr_t begin() const { return reinterpret_cast<std::uintptr_t>(data); }
  bool is_valid(int device) const {
    return begin() % alignment == 0 && is_device_memory(data, bytes, device);
  }
  bool overlaps(const Operand& other) const {
    return begin() < other.begin() + other.bytes && other.begin() < begin() + bytes;
  }
};

}  // namespace

void emulation::refuse_products(std::function<bool(const ProductShape&)> refuses,
                                cublasStatus_t status) {
  const StateLock lock(state().mutex);
  state().refuses = std::move(refuses);
  state().refusal = status;
}

std::size_t emulation::cublas_lt_objects() {
  const StateLock lock(state().mutex);
  return state().objects.size();
}

std::size_t emulation::cublas_lt_products() {
  const StateLock lock(state().mutex);
  return state().products;
}

const char* cublasLtGetStatusString(cublasStatus_t status) {
  switch (status) {
    case CUBLAS_STATUS_SUCCESS:
      return "the operation completed successfully";
    case CUBLAS_STATUS_NOT_INITIALIZED:
      return "the library was not initialized";
    case CUBLAS_STATUS_INVALID_VALUE:
      return "an unsupported value or parameter was passed to the function";
    case CUBLAS_STATUS_EXECUTION_FAILED:
      return "the function failed to launch on the GPU";
    case CUBLAS_STATUS_NOT_SUPPORTED:
      return "the functionality requested is not supported";
  }
  return "unknown status";
}

cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  return make(handle, emulation::current_device());
}
cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
  return destroy(handle, CUBLAS_STATUS_NOT_INITIALIZED);
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* layout, cudaDataType_t type,
                                          std::uint64_t rows, std::uint64_t columns,
                                          std::int64_t ld) {
  if (rows == 0 || columns == 0 || ld < 0 || static_cast<std::uint64_t>(ld) < rows ||
      std::max<std::uint64_t>(columns, static_cast<std::uint64_t>(ld)) > INT32_MAX) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  return make(layout, type, rows, columns, static_cast<std::uint64_t>(ld));
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
  return destroy(layout);
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* product, cublasComputeType_t compute,
                                        cudaDataType_t scale) {
  if (compute != CUBLAS_COMPUTE_32F || scale != CUDA_R_32F) return CUBLAS_STATUS_INVALID_VALUE;
  return make(product);
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t product) {
  return destroy(product);
}

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t product,
                                              cublasLtMatmulDescAttributes_t attribute,
                                              const void* value, std::size_t bytes) {
  if (!are_live({product})) return CUBLAS_STATUS_INVALID_VALUE;
  if (attribute == CUBLASLT_MATMUL_DESC_EPILOGUE) {
    std::uint32_t epilogue = 0;
    if (!take(epilogue, value, bytes)) return CUBLAS_STATUS_INVALID_VALUE;
    return epilogue == CUBLASLT_EPILOGUE_DEFAULT ? CUBLAS_STATUS_SUCCESS
                                                 : CUBLAS_STATUS_NOT_SUPPORTED;
  }
  std::int32_t operation = 0;
  if (!take(operation, value, bytes)) return CUBLAS_STATUS_INVALID_VALUE;
  if (operation != CUBLAS_OP_N && operation != CUBLAS_OP_T) return CUBLAS_STATUS_NOT_SUPPORTED;
  (attribute == CUBLASLT_MATMUL_DESC_TRANSA ? product->a : product->b) = operation;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* preference) {
  return make(preference);
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
  return destroy(preference);
}

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t attribute,
                                                    const void* value, std::size_t bytes) {
  if (!are_live({preference})) return CUBLAS_STATUS_INVALID_VALUE;
  bool taken = false;
  if (attribute == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES) {
    taken = take(preference->workspace, value, bytes);
  } else if (attribute == CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK) {
    taken = take(preference->reduction, value, bytes);
  } else {
    std::uint32_t alignment = 0;
    taken = take(alignment, value, bytes) && std::has_single_bit(alignment) && alignment <= 256;
    const auto which =
        static_cast<std::size_t>(attribute - CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES);
    if (taken) preference->alignment.at(which) = alignment;
  }
  return taken ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE;
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t product,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference, int requested,
                                              cublasLtMatmulHeuristicResult_t* results,
                                              int* found) {
  const StateLock lock(state().mutex);
  Algorithm algorithm = {};
  const cublasStatus_t status = describe(handle, product, a, b, c, d, algorithm.problem);
  if (status != CUBLAS_STATUS_SUCCESS) return status;
  if (!are_live({preference}) || requested <= 0 || results == nullptr || found == nullptr)
    return CUBLAS_STATUS_INVALID_VALUE;
  *found = 0;
  const Problem& p = algorithm.problem;
  if (state().refuses && state().refuses({p.m, p.n, p.k})) return state().refusal;
  // Splits each sum into two parts, one of them in the workspace, if this is allowed.
  const std::uint64_t part = std::uint64_t{p.m} * p.n * sizeof(float);
  if (part <= preference->workspace &&
      (preference->reduction & CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE) != 0) {
    algorithm.workspace = part;
  }
  std::copy(preference->alignment.begin(), preference->alignment.end(),
            algorithm.alignment.begin());
  results[0] = {};
  std::memcpy(&results[0].algo, &algorithm, sizeof(algorithm));
  results[0].workspaceSize = algorithm.workspace;
  *found = 1;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t product,
                              const void* alpha, const void* a, cublasLtMatrixLayout_t a_layout,
                              const void* b, cublasLtMatrixLayout_t b_layout, const void* beta,
                              const void* c, cublasLtMatrixLayout_t c_layout, void* d,
                              cublasLtMatrixLayout_t d_layout, const cublasLtMatmulAlgo_t* chosen,
                              void* workspace, std::size_t workspace_bytes, cudaStream_t stream) {
  const StateLock lock(state().mutex);
  Problem p = {};
  const cublasStatus_t status =
      describe(handle, product, a_layout, b_layout, c_layout, d_layout, p);
  if (status != CUBLAS_STATUS_SUCCESS) return status;
  // Without an algorithm, the library calls its heuristic itself, with other preferences.
  if (chosen == nullptr || alpha == nullptr || beta == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  Algorithm algorithm = {};
  std::memcpy(&algorithm, chosen, sizeof(algorithm));
  const auto aligned = [&](std::size_t which, const cublasLtMatrixLayoutOpaque_t& layout) {
    return std::max<std::uintptr_t>(algorithm.alignment.at(which), element_bytes(layout));
  };
  const Operand in_a = {a, extent(*a_layout), aligned(0, *a_layout)},
                in_b = {b, extent(*b_layout), aligned(1, *b_layout)},
                in_c = {c, extent(*c_layout), aligned(2, *c_layout)},
                out = {d, extent(*d_layout), aligned(3, *d_layout)},
                work = {workspace, std::max<std::size_t>(workspace_bytes, 1), kWorkspaceAlignment};
  const bool has_workspace = workspace_bytes > 0;
  const bool valid =
      algorithm.problem == p && algorithm.workspace <= workspace_bytes && in_a.is_valid(p.device) &&
      in_b.is_valid(p.device) && in_c.is_valid(p.device) && out.is_valid(p.device) &&
      (!has_workspace || work.is_valid(p.device)) &&
      (stream == nullptr || stream->device == p.device) && !out.overlaps(in_a) &&
      !out.overlaps(in_b) && (c == d ? *c_layout == *d_layout : !out.overlaps(in_c)) &&
      !(has_workspace &&
        (work.overlaps(in_a) || work.overlaps(in_b) || work.overlaps(in_c) || work.overlaps(out)));
  if (!valid) return CUBLAS_STATUS_INVALID_VALUE;
  ++state().products;
  // A factor's vectors of k elements: columns of the stored matrix, or its rows.
  const turnbench::DType type = *element_type(a_layout->type);
  const auto factor = [&](const void* data, bool contiguous, std::uint32_t ld,
                          std::uint32_t count) {
    return emulation::Factor{data, type, count, contiguous ? ld : 1, contiguous ? 1 : ld};
  };
  const emulation::MatrixProduct work_to_do = {.m = factor(a, p.transposed_a != 0, p.lda, p.m),
                                               .n = factor(b, p.transposed_b == 0, p.ldb, p.n),
                                               .k = p.k,
                                               .alpha = *static_cast<const float*>(alpha),
                                               .beta = *static_cast<const float*>(beta),
                                               .c = static_cast<const float*>(c),
                                               .ldc = p.ldc,
                                               .d = static_cast<float*>(d),
                                               .ldd = p.ldd};
  emulation::count_launch(stream);
  const auto task = [=, bytes = algorithm.workspace] {
    if (!emulation::begin_kernel(stream, false)) return;
    if (bytes > 0) std::memset(workspace, 0xFF, bytes);
    emulation::multiply(work_to_do);
  };
  return emulation::enqueue(stream, task) == cudaSuccess ? CUBLAS_STATUS_SUCCESS
                                                         : CUBLAS_STATUS_EXECUTION_FAILED;
}
