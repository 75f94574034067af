#include "inference/cuda/cublas_lt.h"

#include <dlfcn.h>

#include "common/error.h"

namespace turnbench::cuda {
namespace {

template <typename Function>
void find(void* library, const char* name, Function*& function) {
  void* found = dlsym(library, name);
  if (found == nullptr) throw runtime_error("cuBLAS: {}", dlerror());
  function = reinterpret_cast<Function*>(found);
}

CublasLt loaded() {
  void* library = dlopen(TURNBENCH_CUBLAS_LT, RTLD_NOW | RTLD_LOCAL);  // never closed
  if (library == nullptr) throw runtime_error("cuBLAS: {}", dlerror());
  CublasLt out;
  find(library, "cublasLtGetStatusString", out.get_status_string);
  find(library, "cublasLtCreate", out.create);
  find(library, "cublasLtDestroy", out.destroy);
  find(library, "cublasLtMatrixLayoutCreate", out.layout_create);
  find(library, "cublasLtMatrixLayoutDestroy", out.layout_destroy);
  find(library, "cublasLtMatmulDescCreate", out.product_create);
  find(library, "cublasLtMatmulDescDestroy", out.product_destroy);
  find(library, "cublasLtMatmulDescSetAttribute", out.product_set_attribute);
  find(library, "cublasLtMatmulPreferenceCreate", out.preference_create);
  find(library, "cublasLtMatmulPreferenceDestroy", out.preference_destroy);
  find(library, "cublasLtMatmulPreferenceSetAttribute", out.preference_set_attribute);
  find(library, "cublasLtMatmulAlgoGetHeuristic", out.choose_algorithm);
  find(library, "cublasLtMatmul", out.multiply);
  return out;
}

}  // namespace

const CublasLt& cublas_lt() {
  static const CublasLt library = loaded();
  return library;
}

}  // namespace turnbench::cuda
