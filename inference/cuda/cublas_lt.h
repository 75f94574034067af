#pragma once

#include <cublasLt.h>

namespace turnbench::cuda {

/// The functions of cuBLASLt that are used.  The library is loaded when they are first asked for:
/// that takes longer than most commands of a program that multiplies nothing on a device.
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

/// An error where the library or one of the functions is missing.
const CublasLt& cublas_lt();

}  // namespace turnbench::cuda
