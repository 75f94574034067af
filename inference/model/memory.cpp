#include "inference/model/memory.h"

#include <sys/mman.h>

#include <cstdlib>
#include <cstring>
#include <new>

namespace turnbench {
namespace {

class HostMemory : public Memory {
 public:
  std::byte* allocate(std::size_t bytes) override {
    const bool large = bytes >= (std::size_t{4} << 20);
    const std::size_t alignment = large ? std::size_t{2} << 20 : 64;
    void* data = std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
    if (data == nullptr) throw std::bad_alloc();
    if (large) madvise(data, bytes, MADV_HUGEPAGE);
    return static_cast<std::byte*>(data);
  }
  void release(std::byte* data, std::size_t) noexcept override { std::free(data); }
  void copy(std::span<const Copy> copies) override {
    for (const Copy& c : copies) {
      if (c.bytes > 0) std::memcpy(c.to, c.from, c.bytes);
    }
  }
  void synchronize() override {}
  bool is_host() const override { return true; }
};

}  // namespace

void Memory::copy_floats(const float* from, float* to, std::size_t count) {
  const Copy copy = copy_of(from, to, count);
  this->copy({&copy, 1});
  synchronize();
}

const std::shared_ptr<Memory>& host_memory() {
  static const std::shared_ptr<Memory> memory = std::make_shared<HostMemory>();
  return memory;
}

}  // namespace turnbench
