#pragma once

#include <cublasLt.h>

namespace turnbench::cuda {

/// The functions of cuBLASLt that this backend uses.
struct CublasLt {
  decltype(&cublasLtGetStatusString) get_status_string;
  decltype(&cublasLtCreate) create;
  decltype(&cublasLtDestroy) destroy;
  decltype(&cublasLtMatrixLayoutCreate) layout_create;
  decltype(&cublasLtMatrixLayoutDestroy) layout_destroy;
  decltype(&cublasLtMatmulDescCreate) product_create;
  decltype(&cublasLtMatmulDescDestroy) product_destroy;
  decltype(&cublasLtMatmulDescSetAttribute) product_set_attribute;
  decltype(&cublasLtMatmulPreferenceCreate) preference_create;
  decltype(&cublasLtMatmulPreferenceDestroy) preference_destroy;
  decltype(&cublasLtMatmulPreferenceSetAttribute) preference_set_attribute;
  decltype(&cublasLtMatmulAlgoGetHeuristic) choose_algorithm;
  decltype(&cublasLtMatmul) multiply;
};

/// Loads the library on demand, because loading takes longer than most commands that multiply
/// nothing on a device.  Tries the toolkit's major version, then other versions with the same
/// functions: each in the system loader's search path, then in the toolkit's directories.  If the
/// environment variable TURNBENCH_CUBLAS_LT names a file, tries only that file.
/// @throws Error (runtime) if the library or one of the functions is missing.
CublasLt load_cublas_lt();

}  // namespace turnbench::cuda
