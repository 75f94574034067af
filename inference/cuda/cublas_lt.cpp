#include "inference/cuda/cublas_lt.h"

#include <cuda_runtime.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "common/error.h"
#include "common/text.h"
#include "inference/cuda/library_loader.h"

namespace turnbench::cuda {
namespace {

constexpr const char* kFileVariable = "TURNBENCH_CUBLAS_LT";
constexpr const char* kToolkitFolders[] = {TURNBENCH_CUDA_LIBRARY_DIR, "/usr/local/cuda/lib64"};

std::vector<std::string> library_names() {
  std::vector<std::string> out;
  const int own = CUDART_VERSION / 1000;
  out.push_back(fmt::format("libcublasLt.so.{}", own));
  for (int other : {13, 12}) {  // versions with the same functions and constants
    if (other != own) out.push_back(fmt::format("libcublasLt.so.{}", other));
  }
  return out;
}

std::vector<std::string> library_files() {
  std::vector<std::string> out;
  for (const std::string& name : library_names()) {
    out.push_back(name);
    for (const char* folder : kToolkitFolders) out.push_back(fmt::format("{}/{}", folder, name));
  }
  return out;
}

/// True if the loader's reason is only that the file does not exist.
bool is_absence(const std::string& error, const std::string& file) {
  return error.starts_with(file + ": ") && error.find("No such file") != std::string::npos;
}

/// Opens the library; `file` receives the name under which it was opened.
void* open_cublas_lt(std::string& file) {
  std::string error;
  if (const char* named = std::getenv(kFileVariable); named != nullptr && *named != '\0') {
    file = named;
    if (void* library = open_library(file, error)) return library;
    throw runtime_error("cuBLASLt, as {} names the file: {}", kFileVariable, error);
  }
  std::string reason;  // the first reason other than a missing file
  for (const std::string& tried : library_files()) {
    file = tried;
    if (void* library = open_library(file, error)) return library;
    if (reason.empty() && !is_absence(error, file)) reason = fmt::format(" ({})", error);
  }
  throw runtime_error(
      "cuBLASLt: found no {} in the loader's path (LD_LIBRARY_PATH), {} or {}{}; {} can name the "
      "file",
      join(library_names(), " or "), kToolkitFolders[0], kToolkitFolders[1], reason, kFileVariable);
}

}  // namespace

CublasLt load_cublas_lt() {
  std::string file;
  void* library = open_cublas_lt(file);
  const auto find = [&]<typename Function>(const char* name, Function*& function) {
    void* found = find_function(library, name);
    if (found == nullptr) throw runtime_error("cuBLASLt: {} has no function {}", file, name);
    function = reinterpret_cast<Function*>(found);
  };
  CublasLt out;
  find("cublasLtGetStatusString", out.get_status_string);
  find("cublasLtCreate", out.create);
  find("cublasLtDestroy", out.destroy);
  find("cublasLtMatrixLayoutCreate", out.layout_create);
  find("cublasLtMatrixLayoutDestroy", out.layout_destroy);
  find("cublasLtMatmulDescCreate", out.product_create);
  find("cublasLtMatmulDescDestroy", out.product_destroy);
  find("cublasLtMatmulDescSetAttribute", out.product_set_attribute);
  find("cublasLtMatmulPreferenceCreate", out.preference_create);
  find("cublasLtMatmulPreferenceDestroy", out.preference_destroy);
  find("cublasLtMatmulPreferenceSetAttribute", out.preference_set_attribute);
  find("cublasLtMatmulAlgoGetHeuristic", out.choose_algorithm);
  find("cublasLtMatmul", out.multiply);
  return out;
}

}  // namespace turnbench::cuda
