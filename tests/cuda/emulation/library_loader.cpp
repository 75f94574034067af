// The loader for emulated programs: it finds only cuBLASLt, which is linked to them.

#include "inference/cuda/library_loader.h"

#include <map>
#include <mutex>
#include <utility>

#include "cublasLt.h"

namespace {

const std::set<std::string> kDefaultFiles = {"libcublasLt.so.13"};

struct Files {
  std::mutex mutex;
  std::set<std::string> present = kDefaultFiles;
  std::string hidden;  ///< a function
};
Files& files() {
  static Files all;
  return all;
}

const std::map<std::string, void*>& functions() {
#define FUNCTION(name) \
  { #name, reinterpret_cast < void*>(&name) }
  static const std::map<std::string, void*> all = {
      FUNCTION(cublasLtGetStatusString),
      FUNCTION(cublasLtCreate),
      FUNCTION(cublasLtDestroy),
      FUNCTION(cublasLtMatrixLayoutCreate),
      FUNCTION(cublasLtMatrixLayoutDestroy),
      FUNCTION(cublasLtMatmulDescCreate),
      FUNCTION(cublasLtMatmulDescDestroy),
      FUNCTION(cublasLtMatmulDescSetAttribute),
      FUNCTION(cublasLtMatmulPreferenceCreate),
      FUNCTION(cublasLtMatmulPreferenceDestroy),
      FUNCTION(cublasLtMatmulPreferenceSetAttribute),
      FUNCTION(cublasLtMatmulAlgoGetHeuristic),
      FUNCTION(cublasLtMatmul),
  };
#undef FUNCTION
  return all;
}

}  // namespace

void emulation::set_cublas_lt_files(std::set<std::string> present) {
  const std::lock_guard lock(files().mutex);
  files().present = std::move(present);
}

void emulation::reset_cublas_lt_files() {
  set_cublas_lt_files(kDefaultFiles);
}

void emulation::hide_cublas_lt_function(std::string name) {
  const std::lock_guard lock(files().mutex);
  files().hidden = std::move(name);
}

namespace turnbench::cuda {

void* open_library(const std::string& file, std::string& error) {
  const std::lock_guard lock(files().mutex);
  if (files().present.contains(file)) return &files();
  error = file + ": cannot open shared object file: No such file or directory";
  return nullptr;
}

void* find_function(void*, const char* name) {
  const std::lock_guard lock(files().mutex);
  const auto found = functions().find(name);
  return found == functions().end() || name == files().hidden ? nullptr : found->second;
}

}  // namespace turnbench::cuda
