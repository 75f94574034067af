#include "inference/aligned.h"

#include <sys/mman.h>

namespace turnbench {

void AlignedBytes::advise_huge_pages() {
  if (size_ >= (std::size_t{4} << 20)) madvise(data_.get(), size_, MADV_HUGEPAGE);
}

}  // namespace turnbench
