#include "methods/cached_keys.h"

#include <array>

namespace turnbench {

std::vector<float> keys_on_host(Backend& backend, const KvHeadCache& set, int first, int end) {
  const std::int64_t rows = end - first, head_dim = set.layout().head_dim;
  std::vector<float> out(static_cast<std::size_t>(rows * head_dim));
  Memory& memory = *backend.memory();
  if (memory.is_host()) {
    const ReadKeysJob job{&set, first, false, MatrixView(out.data(), rows, head_dim)};
    backend.read_keys({&job, 1});
    return out;
  }
  Scratch scratch(backend.memory());
  const ReadKeysJob job{&set, first, false, MatrixView(scratch.get(out.size()), rows, head_dim)};
  backend.read_keys({&job, 1});
  memory.copy_floats(scratch.data(), out.data(), out.size());
  return out;
}

}  // namespace turnbench
