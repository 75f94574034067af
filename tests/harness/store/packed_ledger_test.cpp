#include "harness/store/packed_ledger.h"

#include <gtest/gtest.h>

#include <limits>
#include <random>

#include "common/error.h"

namespace turnbench {
namespace {

/// A turn as recorded for methods: the prompt transfers nothing, steps transfer nearly the same
/// amounts.
Ledger ledger_of(int steps, int layers) {
  std::mt19937_64 random(3);
  Ledger out;
  for (int s = 0; s < steps; ++s) {
    out.begin_step(layers);
    if (s == 0) continue;
    for (int l = 1; l < layers; ++l) {
      const auto misses = static_cast<std::int64_t>(random() % 100);
      out.now(l) = {.index_bytes = 1 << 20,
                    .index_bits = 6 << 20,
                    .kv_fetch_bytes = misses * 512,
                    .writeback_bytes = 512,
                    .hits = 1000 - misses,
                    .misses = misses};
    }
  }
  return out;
}

void expect_equal(const Ledger& a, const Ledger& b) {
  ASSERT_EQ(a.steps(), b.steps());
  ASSERT_EQ(a.layers(), b.layers());
  for (std::size_t s = 0; s < a.steps(); ++s) {
    for (std::size_t l = 0; l < a.layers(); ++l)
      EXPECT_EQ(a.at(s, static_cast<int>(l)), b.at(s, static_cast<int>(l))) << s << " " << l;
  }
}

TEST(PackedLedger, RoundTrips) {
  for (const auto& [steps, layers] : {std::pair{0, 0}, {1, 1}, {1, 5}, {2, 1}, {65, 16}})
    expect_equal(unpack_ledger(pack(ledger_of(steps, layers)), "x"), ledger_of(steps, layers));
  Ledger extremes;
  extremes.begin_step(2);
  extremes.now(0).hits = std::numeric_limits<std::int64_t>::max();
  extremes.now(1).misses = std::numeric_limits<std::int64_t>::min() + 1;
  extremes.begin_step(2);
  extremes.now(0).hits = 7;
  expect_equal(unpack_ledger(pack(extremes), "x"), extremes);
}

TEST(PackedLedger, UsesFewBytesPerStepAndLayer) {
  EXPECT_LT(pack(ledger_of(65, 16)).size(), 65u * 16 * 7);
  Ledger nothing;
  for (int s = 0; s < 1000; ++s) nothing.begin_step(80);
  EXPECT_LT(pack(nothing).size(), 10u);
}

TEST(PackedLedger, RejectsOtherBytes) {
  const std::string good = pack(ledger_of(9, 4));
  for (std::size_t n = 0; n < good.size(); ++n)
    EXPECT_THROW(unpack_ledger(std::string_view(good).substr(0, n), "x"), Error) << n;
  EXPECT_THROW(unpack_ledger(good + '\1', "x"), Error);
  EXPECT_THROW(unpack_ledger(std::string(11, '\xff'), "x"), Error);
  std::mt19937 random(5);
  for (int i = 0; i < 2000; ++i) {  // reading ends for any bytes
    std::string bytes = good;
    bytes[random() % bytes.size()] = static_cast<char>(random());
    try {
      unpack_ledger(bytes, "x");
    } catch (const Error&) {
    }
  }
}

TEST(BoundedLedger, LeavesOutLayersAndThenSteps) {
  const Ledger ledger = ledger_of(200, 8);
  const std::string packed = pack(ledger);
  const BoundedLedger whole = bound(packed, packed.size());
  EXPECT_EQ(whole.data, packed);
  EXPECT_EQ(whole.dropped, "");

  const BoundedLedger summed = bound(packed, packed.size() - 1);
  EXPECT_EQ(summed.dropped, "layers");
  EXPECT_LT(summed.data.size(), packed.size());
  const Ledger totals = unpack_ledger(summed.data, "totals");
  ASSERT_EQ(totals.steps(), 200u);
  ASSERT_EQ(totals.layers(), 1u);
  for (std::size_t s = 0; s < 200; ++s) EXPECT_EQ(totals.at(s, 0), ledger.total_of_step(s)) << s;

  const BoundedLedger cut = bound(packed, summed.data.size() - 1);
  EXPECT_EQ(cut.dropped, "layers, steps");
  EXPECT_LT(cut.data.size(), summed.data.size());
  const Ledger first = unpack_ledger(cut.data, "first");
  ASSERT_EQ(first.steps(), 100u);
  for (std::size_t s = 0; s < 100; ++s) EXPECT_EQ(first.at(s, 0), ledger.total_of_step(s)) << s;
}

}  // namespace
}  // namespace turnbench
