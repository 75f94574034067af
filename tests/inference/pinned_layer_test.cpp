// The tokens that a pinned layer holds of those in host memory, row by row.

#include "inference/kv/pinned_layer.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <random>
#include <vector>

#include "tests/backends/backend.h"
#include "tests/inference/set_rows.h"

namespace turnbench::test {
namespace {

constexpr int kDim = 8, kSets = 2;
using Ranges = std::vector<SlotRange>;

class PinnedLayerTest : public testing::Test {
 protected:
  PinnedLayerTest() {
    std::mt19937 random(1);
    for (int s = 0; s < kSets; ++s) {
      KvHeadCache set(host_);
      for (int token = 0; token < 400; ++token) {
        std::vector<float> key, value;
        for (int d = 0; d < kDim; ++d) {
          key.push_back(static_cast<float>(random() % 1000));
          value.push_back(static_cast<float>(random() % 1000));
        }
        test::append_row(set, key.data(), value.data(), nullptr, token);
      }
      all_.push_back(set);
    }
  }

  /// The first tokens, on the device.
  std::vector<KvHeadCache> first(int tokens) const {
    std::vector<KvHeadCache> out;
    for (const KvHeadCache& set : all_) out.push_back(set.gathered(all_slots(tokens), device_));
    backend_->memory()->synchronize();
    return out;
  }

  /// Changes the ranges of the layer; returns the bytes that were transferred.
  std::int64_t change(PinnedLayer& layer, const Ranges& ranges) {
    std::int64_t bytes = 0;
    for (std::size_t r = layer.drop_ranges(ranges); r < ranges.size(); ++r) {
      std::vector<Copy> copies;
      layer.add_range(ranges[r], 400, all_, copies);
      layer.expect(link_->submit(copies, LinkDirection::kToDevice, LinkUse::kPrefill, &bytes));
    }
    layer.settle();
    return bytes;
  }

  void expect_rows(const PinnedLayer& layer, const Ranges& ranges) {
    backend_->memory()->synchronize();
    std::vector<float> got(kDim), want(kDim);
    for (std::size_t s = 0; s < kSets; ++s) {
      const KvHeadCache& set = layer.sets()[s];
      int slot = 0;
      for (const SlotRange& range : ranges) {
        for (int token = range.begin; token < range.end; ++token, ++slot) {
          ASSERT_LT(slot, set.size());
          EXPECT_EQ(set.position(slot), token);
          test::read_row(set, KvRow::kKey, slot, got.data());
          test::read_row(all_[s], KvRow::kKey, token, want.data());
          EXPECT_EQ(got, want) << "key of token " << token;
          test::read_row(set, KvRow::kValue, slot, got.data());
          test::read_row(all_[s], KvRow::kValue, token, want.data());
          EXPECT_EQ(got, want) << "value of token " << token;
        }
      }
      EXPECT_EQ(set.size(), slot);
    }
  }

  std::unique_ptr<Backend> backend_ = make_backend(1);
  std::shared_ptr<KvPool> device_ =
      std::make_shared<KvPool>(PageLayout{kDim, DType::kF32}, backend_->memory());
  std::shared_ptr<KvPool> host_ = std::make_shared<KvPool>(PageLayout{kDim, DType::kF32});
  std::shared_ptr<Link> link_ = make_link(backend_->memory(), 0);
  std::vector<KvHeadCache> all_;  // on the host
};

TEST_F(PinnedLayerTest, StartsWithTokensOnTheDevice) {
  for (const Ranges& ranges : {Ranges{{0, 200}}, Ranges{{0, 3}, {60, 70}, {128, 200}}}) {
    const PinnedLayer layer(device_, first(200), ranges, link_);
    expect_rows(layer, ranges);
    EXPECT_TRUE(layer.is_extended_by(ranges));
  }
  EXPECT_EQ(device_->live_bytes(), 0u);
}

// The first range stays; the others are transferred again, even if some of their tokens were
// present.
TEST_F(PinnedLayerTest, ChangesItsTokens) {
  const std::int64_t token =
      kSets * (2 * kDim + (backend_->memory()->is_host() ? 0 : 1)) * std::int64_t{sizeof(float)};
  PinnedLayer layer(device_, first(200), Ranges{{0, 200}}, link_);
  EXPECT_TRUE(layer.is_extended_by(Ranges{{0, 230}}));
  EXPECT_FALSE(layer.is_extended_by(Ranges{{0, 190}}));
  const Ranges next = {{0, 5}, {50, 150}, {200, 210}};
  EXPECT_FALSE(layer.is_extended_by(next));
  EXPECT_EQ(change(layer, next), token * 110);
  expect_rows(layer, next);
  EXPECT_EQ(layer.extend(std::vector<std::int32_t>{210, 211}),
            (std::vector<std::int32_t>{115, 115}));
  EXPECT_TRUE(layer.is_extended_by(Ranges{{0, 5}, {50, 150}, {200, 212}}));
  EXPECT_FALSE(layer.is_extended_by(Ranges{{0, 5}, {50, 150}, {200, 211}}));
  const Ranges last = {{0, 5}, {50, 60}, {300, 400}};
  EXPECT_EQ(change(layer, last), token * 110);
  expect_rows(layer, last);
  const Ranges other = {{0, 6}, {50, 60}};
  EXPECT_EQ(change(layer, other), token * 16) << "not held: a longer first range";
  expect_rows(layer, other);
}

TEST_F(PinnedLayerTest, ForksAndTruncationsAreIndependent) {
  const Ranges ranges = {{0, 3}, {60, 70}, {128, 200}};
  PinnedLayer layer(device_, first(200), ranges, link_);
  PinnedLayer fork(layer);
  change(fork, {{0, 3}, {70, 80}});
  expect_rows(layer, ranges);
  layer.truncate(150);
  expect_rows(layer, {{0, 3}, {60, 70}, {128, 150}});
  layer.truncate(65);
  expect_rows(layer, {{0, 3}, {60, 65}});
  expect_rows(fork, {{0, 3}, {70, 80}});
}

TEST_F(PinnedLayerTest, WritesNewRowsBack) {
  PinnedLayer layer(device_, first(200), Ranges{{0, 3}, {60, 200}}, link_);
  std::vector<KvHeadCache> host(kSets, KvHeadCache(host_));
  std::vector<std::int32_t> positions = {197, 198, 199};
  for (KvHeadCache& set : host) set.extend(positions);
  LedgerEntry ledger;
  layer.write_back(host, 3, ledger);
  layer.settle();
  link_->synchronize();
  std::vector<float> got(kDim), want(kDim);
  for (std::size_t s = 0; s < kSets; ++s) {
    for (int i = 0; i < 3; ++i) {
      test::read_row(host[s], KvRow::kValue, i, got.data());
      test::read_row(all_[s], KvRow::kValue, 197 + i, want.data());
      EXPECT_EQ(got, want) << i;
    }
  }
  EXPECT_EQ(ledger.writeback_bytes, ledger.bytes());
  EXPECT_GE(ledger.writeback_bytes, 3 * kSets * 2 * kDim * std::int64_t{sizeof(float)});
}

}  // namespace
}  // namespace turnbench::test
