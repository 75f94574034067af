#pragma once

#include <string>

namespace turnbench::cuda {

/// Opens a shared library, which stays open.  file: a path, or a name for which the system's loader
/// looks.  Null if it cannot be opened; `error` then gets the loader's reason.
void* open_library(const std::string& file, std::string& error);

/// The address of a function of an open library; null if the library has none of this name.
void* find_function(void* library, const char* name);

}  // namespace turnbench::cuda
