#include "inference/cuda/library_loader.h"

#include <dlfcn.h>

namespace turnbench::cuda {

void* open_library(const std::string& file, std::string& error) {
  void* library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) error = dlerror();
  return library;
}

void* find_function(void* library, const char* name) {
  return dlsym(library, name);
}

}  // namespace turnbench::cuda
