#include "rows_problem.h"
#include "tests/message_of.h"

namespace turnbench {
namespace {

using test::attend;
using test::Case;
using test::Problem;
using test::tolerance_of;

void expect_as_on_cpu(const Case& c, std::uint64_t seed) {
  SCOPED_TRACE(testing::Message() << c.rows << " rows, " << c.keys << " keys, " << c.heads
                                  << " heads of " << c.head_dim << " " << name_of(c.dtype)
                                  << ", window " << c.window << ", holes " << c.holes);
  Problem p(c, seed);
  attend(p);
  p.expect_as_on_cpu(tolerance_of(c.dtype));
}

TEST(CudaAttendRows, EqualsCpu) {
  std::uint64_t seed = 1;
  for (DType dtype : {DType::kF32, DType::kF16, DType::kBF16}) {
    for (int n : {1, 63, 64, 65, 130}) {
      for (int head_dim : {16, 32, 64}) expect_as_on_cpu({n, n, 1, head_dim, dtype}, seed += 3);
    }
    for (int heads : {1, 4, 7}) {
      expect_as_on_cpu({65, 65, heads, 128, dtype}, seed += 3);
      expect_as_on_cpu({130, 130, heads, 16, dtype}, seed += 3);
    }
    for (int head_dim : {24, 80, 96}) expect_as_on_cpu({66, 66, 2, head_dim, dtype}, seed += 3);
    expect_as_on_cpu({66, 66, 1, 256, dtype}, seed += 3);
    expect_as_on_cpu({1000, 1000, 1, 64, dtype}, seed += 3);
  }
  expect_as_on_cpu({1000, 1000, 1, 128, DType::kBF16}, seed += 3);
  for (int head_dim : {4, 8, 20, 36, 132}) expect_as_on_cpu({66, 66, 2, head_dim}, seed += 3);
}

TEST(CudaAttendRows, EqualsTheReference) {
  for (DType dtype : {DType::kF32, DType::kF16, DType::kBF16}) {
    Problem p({150, 200, 2, 64, dtype}, 5);
    attend(p);
    p.expect_pairs(tolerance_of(dtype), [](int row, int, int key) { return key <= row; });
  }
}

TEST(CudaAttendRows, RowsThatContinueALongerCache) {
  std::uint64_t seed = 300;
  for (DType dtype : {DType::kF32, DType::kF16, DType::kBF16}) {
    for (int window : {0, 1, 40, 5000}) {
      for (bool holes : {false, true}) {
        expect_as_on_cpu({2, 321, 2, 32, dtype, window, holes}, seed += 3);
        expect_as_on_cpu({150, 450, 2, 32, dtype, window, holes}, seed += 3);
      }
    }
    expect_as_on_cpu({40, 300, 1, 128, dtype, 70, true}, seed += 3);
  }
}

TEST(CudaAttendRows, HeadDimsBesideThePowersOfTwo) {
  std::uint64_t seed = 500;
  for (int head_dim : {72, 80, 96, 136, 192, 256}) {
    for (DType dtype : {DType::kF32, DType::kF16, DType::kBF16}) {
      SCOPED_TRACE(testing::Message() << head_dim << " " << name_of(dtype));
      Problem p({70, 130, 2, head_dim, dtype}, seed += 3);
      HeadPattern band;
      band.kind = HeadPattern::Kind::kBand;
      band.sinks = 3;
      band.local = 40;
      const std::vector<HeadPattern> patterns = {HeadPattern{}, band};
      p.set_patterns(patterns);
      attend(p);
      p.expect_pairs(tolerance_of(dtype), [&](int row, int head, int key) {
        return pattern_contains(patterns[head], p.pass(), row, key);
      });
    }
  }
}

TEST(CudaAttendRows, RejectsOtherHeadDims) {
  const auto message = [](int head_dim, DType dtype) {
    Problem p({70, 70, 1, head_dim, dtype}, 1);
    return test::message_of([&] { attend(p); }, ErrorKind::kRuntime);
  };
  EXPECT_EQ(message(60, DType::kF16),
            "CUDA, attention: found a head_dim of 60 in f16, expected a multiple of 8 up to 256");
  EXPECT_EQ(message(264, DType::kBF16),
            "CUDA, attention: found a head_dim of 264 in bf16, expected a multiple of 8 up to 256");
  EXPECT_EQ(message(257, DType::kF32),
            "CUDA, attention: found a head_dim of 257 in f32, expected a multiple of 4 up to 256");
}

// For few rows over many keys, parts of the keys are computed separately.
TEST(CudaAttendRows, KeysThatAreSplit) {
  std::uint64_t seed = 700;
  for (DType dtype : {DType::kF32, DType::kBF16}) {
    expect_as_on_cpu({2, 4097, 2, 16, dtype}, seed += 3);
    expect_as_on_cpu({150, 8300, 1, 16, dtype}, seed += 3);
    expect_as_on_cpu({5, 9000, 2, 16, dtype, 4200, true}, seed += 3);
    expect_as_on_cpu({5, 9000, 2, 16, dtype, 300}, seed += 3);
  }
  Problem a({20, 4200, 2, 16}, 1), b({7, 300, 3, 16}, 2), c({3, 8200, 1, 16}, 3);
  Problem* const problems[] = {&a, &b, &c};
  cuda::Context context(0);
  attend(context, problems);
  for (Problem* p : problems) p->expect_as_on_cpu(1e-4);
}

// Rows before all keys: a method has removed all keys that they could attend to.
TEST(CudaAttendRows, RowsThatSeeNothing) {
  for (DType dtype : {DType::kF32, DType::kBF16}) {
    for (int keys : {70, 4200}) {  // in one part, in two
      Problem p({70, keys, 1, 32, dtype}, 9);
      AttentionJob job = p.job();
      std::vector<std::int32_t> positions(70);
      for (int r = 0; r < 70; ++r) positions[r] = r < 66 ? r - 66 : keys - 70 + r;
      job.positions = positions.data();
      const AttentionJob* const jobs[] = {&job};
      cuda::Context context(0);
      cuda::attend_rows(context, p.scale(), jobs);
      context.synchronize();
      for (int r = 0; r < 70; ++r) {
        const float out = p.out()[r * 64];
        EXPECT_EQ(p.lse()[r] == -INFINITY, r < 66) << r;
        EXPECT_EQ(out == 0, r < 66) << r;
        EXPECT_TRUE(std::isfinite(out)) << r;
      }
    }
  }
}

TEST(CudaAttendRows, JobsOfDifferentShapesTogether) {
  for (DType dtype : {DType::kF32, DType::kBF16}) {
    Problem a({100, 100, 3, 32, dtype}, 1), b({3, 200, 1, 32, dtype, 20}, 2),
        c({65, 130, 2, 32, dtype, 0, true}, 3), d({64, 64, 2, 32, dtype}, 4);
    HeadPattern band;
    band.kind = HeadPattern::Kind::kBand;
    band.sinks = 3;
    band.local = 9;
    d.set_patterns({HeadPattern{}, band});
    Problem* const problems[] = {&a, &b, &c, &d};
    cuda::Context context(0);
    attend(context, problems);
    for (Problem* p : problems) p->expect_as_on_cpu(tolerance_of(dtype));
  }
}

TEST(CudaAttendRows, RowsDoNotDependOnTheBatch) {
  for (DType dtype : {DType::kF32, DType::kBF16}) {
    Problem alone({90, 150, 2, 32, dtype}, 1), together({90, 150, 2, 32, dtype}, 1),
        other({200, 200, 4, 32, dtype}, 2);
    attend(alone);
    Problem* const problems[] = {&other, &together};
    cuda::Context context(0);
    attend(context, problems);
    EXPECT_EQ(alone.out(), together.out());
    EXPECT_EQ(alone.lse(), together.lse());
  }
}

}  // namespace
}  // namespace turnbench
