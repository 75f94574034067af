#pragma once

#include <string>

namespace turnbench::cuda {

/// Opens a shared library, which stays open. file: a path, or a name in the system loader's search
/// path.  Null if it cannot be opened; `error` then receives the loader's reason.
void* open_library(const std::string& file, std::string& error);

/// The address of a function of an open library; null if the library does not have it.
void* find_function(void* library, const char* name);

}  // namespace turnbench::cuda
