#include "common/random.h"

#include <gtest/gtest.h>

namespace turnbench {
namespace {

TEST(Random, SkippingEqualsDrawing) {
  Random drawn(7);
  std::uint64_t done = 0;
  for (const std::uint64_t count : {0, 1, 2, 1000}) {
    for (std::uint64_t i = 0; i < count; ++i) drawn.next();
    done += count;
    Random skipped(7);
    skipped.skip(done);
    EXPECT_EQ(skipped.next(), Random(drawn).next());
  }
}

}  // namespace
}  // namespace turnbench
