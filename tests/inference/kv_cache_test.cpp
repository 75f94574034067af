#include "inference/kv/kv_cache.h"

#include <gtest/gtest.h>

#include <numeric>
#include <random>

#include "inference/engine/sequence.h"

namespace turnbench {
namespace {

constexpr int kHeadDim = 8;

/// A token as plain numbers, which a set must return.
struct Token {
  std::int32_t position;
  std::vector<float> key, value, raw;
};

Token make_token(std::int32_t position, float salt = 0) {
  Token t{position, {}, {}, {}};
  for (int d = 0; d < kHeadDim; ++d) {
    // Small multiples of 1/8: exact in every dtype.
    t.key.push_back(static_cast<float>(position % 16) + static_cast<float>(d) / 8 + salt);
    t.value.push_back(static_cast<float>(-position % 16) + static_cast<float>(d) / 8 - salt);
    t.raw.push_back(static_cast<float>((3 * position + d) % 16) + salt);
  }
  return t;
}

/// A set and the plain vector that it must equal.
struct Checked {
  explicit Checked(std::shared_ptr<KvPool> pool) : set(std::move(pool)) {}

  void append(const Token& t) {
    set.append(t.key.data(), t.value.data(), t.raw.data(), t.position);
    model.push_back(t);
  }
  void keep(const std::vector<std::int32_t>& slots) {
    set.keep(slots);
    std::vector<Token> next;
    for (std::int32_t s : slots) next.push_back(model[s]);
    model = next;
  }
  void check() const {
    ASSERT_EQ(set.size(), static_cast<int>(model.size()));
    EXPECT_EQ(set.pages().size(), (model.size() + kPageTokens - 1) / kPageTokens);
    ASSERT_EQ(set.page_data().size(), set.pages().size());
    for (std::size_t i = 0; i < set.pages().size(); ++i)
      ASSERT_EQ(set.page_data()[i], set.pages()[i]->data);
    std::vector<float> row(kHeadDim);
    for (int j = 0; j < set.size(); ++j) {
      const Token& t = model[j];
      ASSERT_EQ(set.position(j), t.position);
      set.read_key(j, row.data());
      ASSERT_EQ(row, t.key) << j;
      set.read_value(j, row.data());
      ASSERT_EQ(row, t.value) << j;
      if (!set.layout().pre_rope_keys) continue;
      set.read_pre_rope_key(j, row.data());
      ASSERT_EQ(row, t.raw) << j;
    }
  }

  KvHeadCache set;
  std::vector<Token> model;
};

std::shared_ptr<KvPool> make_pool(DType dtype = DType::kF32, bool pre_rope_keys = false) {
  return std::make_shared<KvPool>(PageLayout{kHeadDim, dtype, pre_rope_keys});
}

// Any sequence of appends, evictions, truncations, rewrites and copies, compared with plain
// vectors; copies share pages, and no write to one changes another.
TEST(KvHeadCache, EqualsPlainVectorsUnderRandomUse) {
  for (DType dtype : {DType::kF32, DType::kF16, DType::kBF16}) {
    for (const bool pre_rope_keys : {false, true}) {
      const auto pool = make_pool(dtype, pre_rope_keys);
      std::mt19937 random(7);
      std::vector<Checked> sets(3, Checked(pool));
      std::int32_t clock = 0;
      for (int step = 0; step < 600; ++step) {
        Checked& s = sets[random() % sets.size()];
        switch (random() % 8) {
          case 0: {
            std::vector<std::int32_t> slots;
            for (int j = 0; j < s.set.size(); ++j) {
              if (j < 70 || random() % 3 != 0) slots.push_back(j);
            }
            s.keep(slots);
            break;
          }
          case 1: {
            const auto size = s.model.size() - std::min<std::size_t>(s.model.size(), random() % 40);
            s.set.truncate(static_cast<int>(size));
            s.model.resize(size);
            break;
          }
          case 2:
            sets[random() % sets.size()] = s;
            break;
          case 3:
            if (s.model.empty()) break;
            {
              const std::size_t j = random() % s.model.size();
              s.model[j].key = make_token(static_cast<std::int32_t>(random() % 100), 0.5f).key;
              s.set.write(static_cast<int>(j), {s.model[j].key.data(), 1, s.set.layout().head_dim});
            }
            break;
          default:
            for (std::size_t n = random() % 50; n > 0; --n) s.append(make_token(clock++));
        }
      }
      for (const Checked& s : sets) s.check();
    }
  }
}

TEST(KvHeadCache, CopiesShareTheirPagesUntilOneIsWritten) {
  const auto pool = make_pool();
  const std::size_t page = pool->layout().bytes();
  Checked a(pool);
  for (int i = 0; i < 130; ++i) a.append(make_token(i));
  EXPECT_EQ(pool->live_bytes(), 3 * page);
  Checked b = a;
  EXPECT_EQ(pool->live_bytes(), 3 * page);
  b.append(make_token(200));  // the third page has two owners: one copy
  EXPECT_EQ(pool->live_bytes(), 4 * page);
  b.append(make_token(201));
  EXPECT_EQ(pool->live_bytes(), 4 * page);
  std::vector<std::int32_t> slots(70);
  std::iota(slots.begin(), slots.end(), 0);  // an unchanged prefix: the first page stays shared
  b.keep(slots);
  EXPECT_EQ(a.set.pages()[0].get(), b.set.pages()[0].get());
  EXPECT_EQ(a.set.pages()[1].get(), b.set.pages()[1].get());
  EXPECT_EQ(pool->live_bytes(), 3 * page);
  slots[69] = 99;  // a changed slot: the second page becomes b's own
  Checked c = a;
  c.keep(slots);
  EXPECT_EQ(pool->live_bytes(), 4 * page);
  c.check();
  c.set.truncate(0);
  a.check();
  b.check();
  a.set.truncate(0);
  b.set.truncate(0);
  EXPECT_EQ(pool->live_bytes(), 0u);
  EXPECT_EQ(pool->peak_bytes(), 4 * page);
  pool->reset_peak();
  EXPECT_EQ(pool->peak_bytes(), 0u);
}

TEST(KvHeadCache, GatherIntoAPoolWithoutRawKeys) {
  const auto raw = make_pool(DType::kF32, true), plain = make_pool();
  Checked a(raw);
  for (int i = 0; i < 200; ++i) a.append(make_token(i));
  const std::vector<std::int32_t> slots = {0, 3, 64, 65, 127, 128, 199};
  Checked b = a;
  b.keep(slots);
  Checked gathered(plain);
  gathered.set = a.set.gathered(slots, plain);
  gathered.model = b.model;
  gathered.check();
  EXPECT_EQ(plain->live_bytes(), plain->layout().bytes());
}

TEST(KvHeadCache, FindsPositions) {
  Checked a(make_pool());
  for (int i = 0; i < 100; ++i) a.append(make_token(3 * i));
  EXPECT_FALSE(a.set.is_contiguous());
  for (int p = -1; p < 305; ++p) EXPECT_EQ(a.set.lower_bound(p), std::clamp((p + 2) / 3, 0, 100));
  Checked b(make_pool());
  EXPECT_TRUE(b.set.is_contiguous());
  for (int i = 0; i < 70; ++i) b.append(make_token(i));
  EXPECT_TRUE(b.set.is_contiguous());
}

// Bytes are those of the kept sets: exact for the tokens, whole pages for allocated memory.
TEST(SequenceBytes, CountTokensExactlyAndWholePages) {
  for (DType dtype : {DType::kF32, DType::kBF16}) {
    const auto pool = make_pool(dtype);
    const std::size_t token = 2 * kHeadDim * size_of(dtype);
    const auto storage =
        std::make_shared<const KvStorage>(KvStorage{pool, pool, pool, nullptr, nullptr});
    Sequence sequence({2, 2, 2, kHeadDim}, {}, std::vector(2, storage), 0);
    std::size_t tokens = 0, pages = 0;
    const int sizes[2][2] = {{64, 10}, {65, 0}};
    for (int l = 0; l < 2; ++l) {
      for (int s = 0; s < 2; ++s) {
        for (int i = 0; i < sizes[l][s]; ++i) {
          const Token t = make_token(i);
          sequence.sets(l)[s].append(t.key.data(), t.value.data(), nullptr, i);
        }
        tokens += static_cast<std::size_t>(sizes[l][s]);
        pages += static_cast<std::size_t>((sizes[l][s] + kPageTokens - 1) / kPageTokens);
      }
    }
    EXPECT_EQ(sequence.logical_bytes(), tokens * token);
    EXPECT_EQ(sequence.page_bytes(), pages * pool->layout().bytes());
    EXPECT_EQ(pool->live_bytes(), sequence.page_bytes());
    EXPECT_EQ(sequence.mean_tokens(), static_cast<double>(tokens) / 4);
    EXPECT_EQ(pool->layout().bytes(), kPageTokens * (token + sizeof(std::int32_t)));
    const Sequence fork = sequence.fork();
    EXPECT_EQ(pool->live_bytes(), sequence.page_bytes());
    sequence.tokens.resize(65);
    sequence.truncate(10);
    EXPECT_EQ(sequence.logical_bytes(), 30 * token);
    EXPECT_EQ(fork.logical_bytes(), tokens * token);
  }
}

}  // namespace
}  // namespace turnbench
