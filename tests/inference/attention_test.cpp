#include "inference/cpu/attention.h"
#include "tests/inference/set_rows.h"

#include <gtest/gtest.h>

#include <cstring>
#include <numeric>

#include "inference/cpu/elementwise.h"
#include "reference.h"
#include "tests/cpu/simd_levels.h"

namespace turnbench {
namespace {

using test::band;
using test::eager_attention;
using test::make_set;
using test::random_floats;

std::vector<std::int32_t> iota(int n, int step = 1) {
  std::vector<std::int32_t> out(static_cast<std::size_t>(n));
  for (int i = 0; i < n; ++i) out[i] = i * step;
  return out;
}

/// Types of keys and values, and of the factors of products.
struct Types {
  DType dtype = DType::kF32;
  Math math = Math::kF32;
};
constexpr Types kAllTypes[] = {
    {DType::kF32}, {DType::kF16}, {DType::kBF16}, {DType::kBF16, Math::kBF16}};

struct Case {
  int rows, keys, heads, head_dim, window;
  Types types;

  /// Of outputs: softmax weights are rounded to bf16, with an error of up to 1/256.
  double tolerance() const { return types.math == Math::kF32 ? 1e-5 : 2e-2; }
};

/// Runs one job over `keys` cached tokens; the last `rows` tokens are the queries.
struct Problem {
  Problem(const Case& c, std::uint64_t seed)
      : c(c),
        keys(random_floats(static_cast<std::size_t>(c.keys * c.head_dim), seed)),
        values(random_floats(static_cast<std::size_t>(c.keys * c.head_dim), seed + 1)),
        q(random_floats(static_cast<std::size_t>(c.rows * c.heads * c.head_dim), seed + 2)),
        set(make_set(keys, values, c.head_dim, iota(c.keys), c.types.dtype)) {
    if (c.types.math == Math::kBF16) q = test::rounded_to(DType::kBF16, q);
    for (int r = 0; r < c.rows; ++r) positions.push_back(c.keys - c.rows + r);
    // The cached values after rounding to the cache's dtype.
    for (int j = 0; j < c.keys; ++j) {
      test::read_row(set, KvRow::kKey, j, keys.data() + j * c.head_dim);
      test::read_row(set, KvRow::kValue, j, values.data() + j * c.head_dim);
    }
  }

  AttentionJob job() {
    out.assign(q.size(), -1);
    lse.assign(static_cast<std::size_t>(c.rows * c.heads), -1);
    AttentionJob j;
    j.keys = &set;
    j.q = {q.data(), c.rows, c.heads * c.head_dim};
    j.positions = positions.data();
    j.out = {out.data(), c.rows, c.heads * c.head_dim};
    j.lse = {lse.data(), c.rows, c.heads};
    j.sliding_window = c.window;
    j.pass = {positions[0], c.rows};
    j.math = c.types.math;
    return j;
  }

  void run(const AttentionJob& j, int threads) {
    ThreadPool pool(threads);
    cpu::AttentionWorkspace workspace(threads);
    cpu::attend(pool, 1.0f / std::sqrt(static_cast<float>(c.head_dim)), {&j, 1}, workspace);
  }

  void expect_equal(const std::function<bool(int row, int head, int key)>& visible) {
    for (int r = 0; r < c.rows; ++r) {
      for (int h = 0; h < c.heads; ++h) {
        const std::size_t at = static_cast<std::size_t>((r * c.heads + h) * c.head_dim);
        const auto want = eager_attention(q.data() + at, keys, values, c.head_dim,
                                          [&](int j) { return visible(positions[r], h, j); });
        for (int d = 0; d < c.head_dim; ++d) {
          ASSERT_NEAR(out[at + static_cast<std::size_t>(d)], want.out[d], c.tolerance())
              << "row " << r << " head " << h;
        }
        ASSERT_NEAR(lse[r * c.heads + h], want.lse, 1e-4);
      }
    }
  }

  Case c;
  std::vector<float> keys, values, q, out, lse;
  KvHeadCache set;
  std::vector<std::int32_t> positions;
};

TEST(Attention, DenseEqualsEager) {
  std::uint64_t seed = 1;
  for (int n : {1, 2, 63, 64, 65, 130, 1000, 1100, 2100}) {
    for (int heads : {1, 4, 7}) {
      for (int head_dim : {8, 32, 64, 128}) {
        if (n > 1000 && head_dim > 32) continue;
        for (int rows : {1, 3, n}) {
          if (rows > n || (rows == n && n > 130 && heads * head_dim > 32)) continue;
          Problem p({rows, n, heads, head_dim, 0, {}}, seed += 3);
          p.run(p.job(), 2);
          p.expect_equal([](int i, int, int j) { return j <= i; });
        }
      }
    }
  }
}

TEST(Attention, SixteenBitCachesAndSlidingWindows) {
  std::uint64_t seed = 100;
  for (const Types types : kAllTypes) {
    for (int window : {0, 1, 70, 5000}) {
      for (int rows : {1, 5, 200}) {
        Problem p({rows, 1300, 3, 64, window, types}, seed += 3);
        p.run(p.job(), 2);
        p.expect_equal(
            [&](int i, int, int j) { return j <= i && (window == 0 || j > i - window); });
      }
    }
  }
}

TEST(Attention, DenseEqualsTheReferenceAtEverySimdLevel) {
  test::with_each_simd_level([](std::int64_t target) {
    SCOPED_TRACE(hwy::TargetName(target));
    for (const Types types : kAllTypes) {
      Problem p({33, 150, 2, 48, 0, types}, 7);
      p.run(p.job(), 1);
      p.expect_equal([](int i, int, int j) { return j <= i; });
    }
  });
}

// A row's bits do not depend on the rows that are computed with it, or on threads.
TEST(Attention, RowsAreIndependentToTheBit) {
  for (const Types types : {Types{}, Types{DType::kBF16, Math::kBF16}}) {
    const Case c{300, 1500, 3, 32, 0, types};
    Problem whole(c, 11);
    whole.run(whole.job(), 3);
    for (int first : {0, 1, 63, 64, 150, 299}) {
      for (int rows : {1, 2, 64, 77}) {
        if (first + rows > 300) continue;
        Problem part(c, 11);
        AttentionJob j = part.job();
        j.q = j.q.rows_at(first, rows);
        j.out = j.out.rows_at(first, rows);
        j.lse = {};
        j.positions += first;
        part.run(j, 1);
        whole.run(whole.job(), 2);
        const std::int64_t at = first * j.out.stride;
        EXPECT_EQ(0, std::memcmp(part.out.data() + at, whole.out.data() + at,
                                 rows * j.out.stride * sizeof(float)))
            << first << " " << rows;
      }
    }
  }
}

// Decoding has separate kernels, with the same bits as those for chunks, for all group sizes.
TEST(Attention, SingleRowsEqualRowsOfAChunkAtEverySimdLevel) {
  test::with_each_simd_level([](std::int64_t target) {
    SCOPED_TRACE(hwy::TargetName(target));
    for (const Types types : kAllTypes) {
      for (int head_dim : {20, 64}) {
        for (int heads : {1, 3, 4, 7, 9}) {
          const int window = heads % 3 == 0 ? 100 : 0;
          Problem chunk({3, 1100, heads, head_dim, window, types}, 51);
          chunk.run(chunk.job(), 1);
          Problem single({3, 1100, heads, head_dim, window, types}, 51);
          const AttentionJob all = single.job();
          AttentionJob j = all;
          for (int r = 0; r < 3; ++r) {
            j.q = all.q.rows_at(r, 1);
            j.out = all.out.rows_at(r, 1);
            j.lse = all.lse.rows_at(r, 1);
            j.positions = all.positions + r;
            single.run(j, 2);
          }
          EXPECT_EQ(chunk.out, single.out)
              << name_of(types.dtype) << " " << heads << " x " << head_dim;
          EXPECT_EQ(chunk.lse, single.lse)
              << name_of(types.dtype) << " " << heads << " x " << head_dim;
        }
      }
    }
  });
}

TEST(Attention, SelectedSlots) {
  for (const Math math : {Math::kF32, Math::kBF16}) {
    Problem p({1, 1700, 4, 64, 0, {DType::kBF16, math}}, 21);
    std::vector<std::int32_t> slots;
    std::mt19937 random(3);
    for (int j = 0; j < 1700; ++j) {
      if (random() % 3 == 0 || j == 1699) slots.push_back(j);
    }
    AttentionJob j = p.job();
    j.slots = &slots;
    p.run(j, 2);
    p.expect_equal(
        [&](int, int, int key) { return std::binary_search(slots.begin(), slots.end(), key); });
  }
}

/// A third of 1,700 slots, each of which some heads read.
struct SharedSlots {
  explicit SharedSlots(int heads_) {
    std::mt19937 random(5);
    for (int j = 0; j < 1700; ++j) {
      const bool all = j == 1699, block = j >= 640 && j < 900;  // one head reads nothing of these
      if (!all && random() % 3 != 0) continue;
      slots.push_back(j);
      heads.push_back(all ? ~0U : block ? random() & ~2U : static_cast<std::uint32_t>(random()));
    }
    for (int h = 0; h < heads_; ++h) of_head.push_back(list(h));
  }
  std::vector<std::int32_t> list(int head) const {
    std::vector<std::int32_t> out;
    for (std::size_t i = 0; i < slots.size(); ++i) {
      if ((heads[i] >> head & 1) != 0) out.push_back(slots[i]);
    }
    return out;
  }
  std::vector<std::int32_t> slots;
  std::vector<std::uint32_t> heads;
  std::vector<std::vector<std::int32_t>> of_head;
};

TEST(Attention, SlotsOfSomeHeads) {
  for (const Types types : kAllTypes) {
    for (const int heads : {2, 4, 7, 32}) {
      Problem p({1, 1700, heads, 64, 0, types}, 23);
      const SharedSlots shared(heads);
      AttentionJob j = p.job();
      j.slots = &shared.slots;
      j.slot_heads = &shared.heads;
      p.run(j, 2);
      p.expect_equal([&](int, int head, int key) {
        const auto& list = shared.of_head[head];
        return std::binary_search(list.begin(), list.end(), key);
      });
    }
  }
}

TEST(Attention, AllSlotsSelectedIsDenseToTheBit) {
  Problem p({1, 2200, 2, 64, 0, {}}, 31);
  p.run(p.job(), 2);
  const std::vector<float> dense = p.out;
  const std::vector<std::int32_t> slots = iota(2200);
  AttentionJob j = p.job();
  j.slots = &slots;
  p.run(j, 2);
  EXPECT_EQ(dense, p.out);
}

TEST(Attention, ConstantValuesComeOutUnchanged) {
  Problem p({5, 200, 2, 16, 0, {}}, 41);
  p.values.assign(p.values.size(), 0.75f);
  p.set = make_set(p.keys, p.values, 16, iota(200));
  p.run(p.job(), 1);
  for (float x : p.out) EXPECT_NEAR(x, 0.75f, 1e-6);
}

HeadPattern lines(std::vector<std::int32_t> columns, std::vector<std::int32_t> offsets,
                  HeadPattern::Granularity g) {
  HeadPattern p;
  p.kind = HeadPattern::Kind::kVerticalSlash;
  p.columns = std::move(columns);
  p.offsets = std::move(offsets);
  p.granularity = g;
  return p;
}

/// Lists of key blocks; the diagonal is always included.
HeadPattern key_blocks(int n, int rows, int size, int rows_per_list) {
  HeadPattern p;
  p.kind = HeadPattern::Kind::kBlocks;
  p.block_size = size;
  p.block_rows = rows_per_list;
  const BlockGrid grid(size, n - rows);
  std::mt19937 random(static_cast<unsigned>(n + size));
  for (int first = n - rows; first < n; first += rows_per_list) {
    std::vector<std::int32_t>& list = p.blocks.emplace_back();
    for (int b = 0; b <= grid.block_of(n - 1); ++b) {
      if (b >= grid.block_of(first) || random() % 4 == 0) list.push_back(b);
    }
  }
  return p;
}

/// Every kind of pattern as one head of a job, compared with the mask by pattern_contains.
void expect_patterns_equal_their_mask(std::span<const int> sizes, Types types) {
  std::uint64_t seed = 51;
  for (int n : sizes) {
    for (int rows : {n, std::max(1, n - 37)}) {
      if (rows == 1) continue;
      std::vector<std::int32_t> columns, offsets{0};
      std::mt19937 random(static_cast<unsigned>(n));
      for (int j = 0; j < n; ++j) {
        if (random() % 31 == 0) columns.push_back(j);
        if (j > 0 && random() % 47 == 0) offsets.push_back(j);
      }
      const std::vector<HeadPattern> patterns = {
          HeadPattern{},
          band(3, 20),
          band(0, 1),
          band(2, 10, 9),
          key_blocks(n, rows, 32, 64),
          key_blocks(n, rows, 128, 128),
          key_blocks(n, rows, 64, 512),
          lines(columns, offsets, HeadPattern::Granularity::kLine),
          lines(columns, offsets, HeadPattern::Granularity::kBlock64)};
      Problem p({rows, n, static_cast<int>(patterns.size()), 32, 0, types}, seed += 3);
      AttentionJob j = p.job();
      j.patterns = patterns.data();
      p.run(j, 2);
      p.expect_equal(
          [&](int i, int h, int key) { return pattern_contains(patterns[h], j.pass, i, key); });
    }
  }
}

TEST(Attention, PatternsEqualTheirMaskAtEverySimdLevel) {
  expect_patterns_equal_their_mask(std::vector{1, 8, 64, 65, 300, 700}, {});
  test::with_each_simd_level([](std::int64_t target) {
    SCOPED_TRACE(hwy::TargetName(target));
    for (const Types types : kAllTypes)
      expect_patterns_equal_their_mask(std::vector{65, 300}, types);
  });
}

TEST(RowProbabilities, EqualEager) {
  for (int window : {0, 40}) {
    Problem p({5, 333, 1, 64, window, {}}, 61);
    p.positions = {3, 70, 200, 331, 332};  // most rows can attend to no key of the last tiles
    std::vector<float> got(5 * 384);
    cpu::row_probabilities(0.125f, p.set, {p.q.data(), 5, 64}, p.positions.data(), window,
                           {got.data(), 5, 384});
    for (int r = 0; r < 5; ++r) {
      const int i = p.positions[r];
      const auto want = eager_attention(p.q.data() + r * 64, p.keys, p.values, 64, [&](int j) {
        return j <= i && (window == 0 || j > i - window);
      });
      for (int j = 0; j < 384; ++j) {
        EXPECT_NEAR(got[r * 384 + j], j < 333 ? want.probabilities[j] : 0.0, 1e-6);
      }
    }
  }
}

}  // namespace
}  // namespace turnbench
