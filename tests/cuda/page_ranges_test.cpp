// Ranges of pages in a device's memory, and kernels that address pages by index.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "inference/cuda/decode_attention.h"
#include "inference/cuda/device_memory.h"
#include "inference/cuda/selection.h"
#include "tests/cuda/device_floats.h"
#include "tests/cuda/orders.h"
#include "tests/message_of.h"

namespace turnbench {
namespace {

constexpr PageLayout kLayout{128, DType::kBF16};
constexpr std::size_t kMiB = std::size_t{1} << 20, kGranularity = 2 * kMiB;

class PageRanges : public testing::Test {
 protected:
#ifdef TURNBENCH_EMULATED
  ~PageRanges() override {
    emulation::limit_memory(0);
    emulation::fail_allocation(0);
    emulation::set_order(emulation::Order::kForward);
  }
#endif
  std::shared_ptr<KvPool> pool(const PageLayout& layout = kLayout) const {
    return std::make_shared<KvPool>(layout, memory_);
  }
  static std::vector<KvPool::Page> acquire(KvPool& pool, std::size_t count) {
    std::vector<KvPool::Page> out;
    while (out.size() < count) out.push_back(pool.acquire());
    return out;
  }
  cuda::DeviceMemory& memory() const {
    return *memory_;
  }

  std::shared_ptr<cuda::Context> context_ = std::make_shared<cuda::Context>(0);
  std::shared_ptr<cuda::DeviceMemory> memory_ = std::make_shared<cuda::DeviceMemory>(context_);
};

TEST_F(PageRanges, PoolsGrowWithinOneRange) {
  const auto own = pool();
  EXPECT_EQ(own->base(), nullptr);
  const std::size_t stride = own->stride();
  EXPECT_EQ(stride % 64, 0u);
  EXPECT_GE(stride, kLayout.bytes());
  EXPECT_LT(stride, kLayout.bytes() + 64);
  EXPECT_NE(kGranularity % stride, 0u);  // pages extend across the ends of pieces
  const std::vector<KvPool::Page> pages = acquire(*own, 40 * kMiB / stride);
  ASSERT_NE(own->base(), nullptr);
  for (std::size_t i = 0; i < pages.size(); ++i) {
    EXPECT_EQ(pages[i]->index, i);
    EXPECT_EQ(pages[i]->data, own->base() + i * stride);
  }
  EXPECT_EQ(own->live_bytes(), pages.size() * kLayout.bytes());
  EXPECT_GE(memory().bytes(), pages.size() * stride);
  EXPECT_LE(memory().bytes(), pages.size() * stride + 8 * kMiB);
  EXPECT_EQ(memory().bytes() % kGranularity, 0u);
}

TEST_F(PageRanges, SmallPoolsStaySmall) {
  const auto own = pool();
  std::vector<KvPool::Page> pages;
  std::size_t last = 0;
  while (pages.size() * own->stride() < 30 * kMiB) {
    pages.push_back(own->acquire());
    const std::size_t used = pages.size() * own->stride();
    EXPECT_LE(memory().bytes(), std::max(kGranularity, 2 * used + kGranularity));
    EXPECT_LE(memory().bytes(), last == 0 ? kGranularity : last + 8 * kMiB);
    last = memory().bytes();
  }
}

/// Rows of `count` tokens on the host and a copy of them in device memory.  The pages of the copy
/// are in random order.
struct SetPair {
  KvHeadCache host, device;

  SetPair(const std::shared_ptr<KvPool>& pool, int count, float salt)
      : host(std::make_shared<KvPool>(pool->layout())), device(pool) {
    const PageLayout& layout = pool->layout();
    const auto width = static_cast<std::size_t>(layout.head_dim);
    std::vector<float> key(width), value(width), raw(width);
    for (int i = 0; i < count; ++i) {
      for (std::size_t d = 0; d < width; ++d) {
        key[d] = salt + static_cast<float>((i * 7 + static_cast<int>(d) * 3) % 32) / 16;
        value[d] = salt - static_cast<float>((i * 5 + static_cast<int>(d)) % 64) / 8;
        raw[d] = key[d] + value[d];
      }
      host.append(key.data(), value.data(), raw.data(), i);
    }
    {  // the first released page is reused last
      std::vector<KvPool::Page> pages;
      for (int i = 0; i < count; i += kPageTokens) pages.push_back(pool->acquire());
    }
    device = KvHeadCache::working_set(pool, count);
    std::vector<Copy> copies;
    device.place(0, host, 0, count, copies);
    pool->memory().copy(copies);
  }
};

TEST_F(PageRanges, SetsListTheIndicesOfTheirPages) {
  const auto own = pool();
  SetPair set(own, 300, 0);
  ASSERT_EQ(set.device.page_indices().size(), 5u);
  EXPECT_FALSE(std::is_sorted(set.device.page_indices().begin(), set.device.page_indices().end()));
  const auto check = [&](const KvHeadCache& of) {
    ASSERT_EQ(of.page_indices().size(), of.pages().size());
    for (std::size_t i = 0; i < of.pages().size(); ++i)
      EXPECT_EQ(own->base() + of.page_indices()[i] * own->stride(), of.page_data()[i]);
  };
  check(set.device);
  KvHeadCache fork = set.device;
  fork.set_position(299, 400);  // its last page is no longer shared
  check(fork);
  EXPECT_NE(fork.page_indices()[4], set.device.page_indices()[4]);
  EXPECT_EQ(fork.page_indices()[3], set.device.page_indices()[3]);
  fork.truncate(65);
  check(fork);
  fork.keep(std::vector<std::int32_t>{1, 64});
  check(fork);
  EXPECT_TRUE(set.host.pool()->base() == nullptr);
}

// Two pools with different strides, and sets of both in one launch.
TEST_F(PageRanges, KernelsReadSetsOfSeveralPoolsInOneLaunch) {
  const auto plain = pool(), with_raw = pool({128, DType::kBF16, true});
  ASSERT_NE(plain->stride(), with_raw->stride());
  SetPair sets[] = {{plain, 200, 0}, {with_raw, 330, 1}, {plain, 65, 2}, {with_raw, 64, 3}};
  constexpr int kWidth = 128;
  std::vector<float> query(2 * kWidth);
  for (std::size_t i = 0; i < query.size(); ++i) query[i] = static_cast<float>(i % 9) / 8 - 0.5f;
  test::DeviceFloats q(query);
  const std::int32_t position = 1000;
  test::in_every_order([&] {
    std::vector<test::DeviceFloats> outs, scores, rows;
    std::vector<AttentionJob> attention;
    std::vector<KeyScoreJob> scored;
    std::vector<ReadRowsJob> read;
    for (const SetPair& s : sets) {
      const std::int64_t n = s.host.size();
      outs.emplace_back(std::size_t{2} * kWidth);
      scores.emplace_back(static_cast<std::size_t>(2 * n));
      rows.emplace_back(static_cast<std::size_t>(n * kWidth));
      AttentionJob& job = attention.emplace_back();
      job.keys = &s.device;
      job.q = {q.data(), 1, 2 * kWidth};
      job.positions = &position;
      job.out = {outs.back().data(), 1, 2 * kWidth};
      scored.push_back({&s.device, {q.data(), 2, kWidth}, {}, {scores.back().data(), 2, n}});
      read.push_back({&s.device, 0, KvRow::kValue, {rows.back().data(), n, kWidth}});
    }
    std::vector<const AttentionJob*> all;
    for (const AttentionJob& job : attention) all.push_back(&job);
    cuda::attend_single_rows(*context_, 0.1f, all);
    cuda::score_keys(*context_, 0.1f, scored);
    cuda::read_rows(*context_, read);
    context_->synchronize();
    for (std::size_t i = 0; i < std::size(sets); ++i) {
      const KvHeadCache& host = sets[i].host;
      const std::vector<float> out = outs[i].values(), score = scores[i].values(),
                               values = rows[i].values();
      std::vector<float> key(kWidth), value(kWidth);
      for (std::size_t h = 0; h < 2; ++h) {
        double sum = 0, largest = -1e30;
        std::vector<double> dots, expected(kWidth);
        for (int t = 0; t < host.size(); ++t) {
          host.read_key(t, key.data());
          double dot = 0;
          for (std::size_t d = 0; d < kWidth; ++d) dot += double{query[h * kWidth + d]} * key[d];
          dots.push_back(0.1 * dot);
          largest = std::max(largest, dots.back());
          const std::size_t at =
              h * static_cast<std::size_t>(host.size()) + static_cast<std::size_t>(t);
          ASSERT_NEAR(score[at], dots.back(), 1e-4) << i;
        }
        for (int t = 0; t < host.size(); ++t) {
          host.read_value(t, value.data());
          const double w = std::exp(dots[t] - largest);
          sum += w;
          for (std::size_t d = 0; d < kWidth; ++d) {
            expected[d] += w * value[d];
            ASSERT_EQ(values[static_cast<std::size_t>(t) * kWidth + d], value[d]) << i;
          }
        }
        for (std::size_t d = 0; d < kWidth; ++d)
          ASSERT_NEAR(out[h * kWidth + d], expected[d] / sum, 1e-4) << i;
      }
    }
  });
}

TEST_F(PageRanges, ReleasedRangesAreReused) {
  const std::byte* base = nullptr;
  std::size_t bytes = 0;
  for (int turn = 0; turn < 3; ++turn) {
    const auto own = pool();
    const auto pages = acquire(*own, 12 * kMiB / own->stride());
    if (turn == 0) {
      base = own->base();
      bytes = memory().bytes();
    }
    EXPECT_EQ(own->base(), base);
    EXPECT_EQ(memory().bytes(), bytes);
  }
  const auto other = pool({64, DType::kBF16});  // of another stride
  const auto page = other->acquire();
  EXPECT_NE(other->base(), base);
  EXPECT_EQ(memory().bytes(), bytes + kGranularity);
}

// The host releases a range with its pages before the device has finished using them.
TEST_F(PageRanges, ReusedPagesAreOrderedByTheStream) {
  test::in_every_order([&] {
    std::vector<std::int32_t> first(kLayout.bytes() / 4, 1), second(first.size(), 2),
        found(first.size());
    const auto bytes_of = [](std::vector<std::int32_t>& of) {
      return reinterpret_cast<std::byte*>(of.data());
    };
    for (auto* values : {&first, &second}) {
      const auto own = pool();
      const KvPool::Page page = own->acquire();
      memory().copy(std::array{Copy{page->data, bytes_of(*values), kLayout.bytes()}});
      if (values == &first)
        memory().copy(std::array{Copy{bytes_of(found), page->data, kLayout.bytes()}});
    }
    memory().synchronize();
    EXPECT_EQ(found, first);
  });
}

TEST_F(PageRanges, CopiesHandlePagesOfRanges) {
  const auto own = pool();
  const auto pages = acquire(*own, 5 * kMiB / own->stride());
  std::vector<std::byte> values(kLayout.bytes(), std::byte{7}), found(kLayout.bytes());
  const std::byte* from = pages.front()->data;
  for (const KvPool::Page& page : pages) {
    memory().copy(std::array{
        Copy{page->data, page == pages.front() ? values.data() : from, kLayout.bytes()}});
  }
  memory().copy(std::array{Copy{found.data(), pages.back()->data, kLayout.bytes()}});
  memory().synchronize();
  EXPECT_EQ(found, values);
  // Memory of another backend is not host memory.
  const auto other = std::make_shared<cuda::DeviceMemory>(std::make_shared<cuda::Context>(0));
  const auto there = std::make_shared<KvPool>(kLayout, other);
  const KvPool::Page page = there->acquire();
  other->copy(std::array{Copy{page->data, from, kLayout.bytes()}});
  std::vector<std::byte> again(kLayout.bytes());
  other->copy(std::array{Copy{again.data(), page->data, kLayout.bytes()}});
  other->synchronize();
  EXPECT_EQ(again, values);
}

#ifdef TURNBENCH_EMULATED

std::size_t free_bytes() {
  std::size_t free = 0, total = 0;
  EXPECT_EQ(cudaMemGetInfo(&free, &total), cudaSuccess);
  return free;
}

TEST_F(PageRanges, ErrorsNameTheAllocation) {
  emulation::limit_memory(64 * kMiB);
  const auto own = pool();
  std::vector<KvPool::Page> pages;
  const std::string text = test::message_of(
      [&] {
        for (;;) pages.push_back(own->acquire());
      },
      ErrorKind::kMemory);
  EXPECT_TRUE(text.starts_with("cuda:0: keys and values need 8 MiB; ")) << text;
  EXPECT_TRUE(text.ends_with(" of 64 MiB are free (1/32 is kept free)")) << text;
  EXPECT_GE(pages.size() * own->stride(), 48 * kMiB);
  EXPECT_GE(free_bytes(), 2 * kMiB);
  EXPECT_EQ(own->live_bytes(), pages.size() * kLayout.bytes());
  const auto small = pool({64, DType::kBF16});
  EXPECT_EQ(small->acquire()->index, 0u);  // a smaller request fits
  const std::byte* last = pages.back()->data;
  pages.pop_back();
  EXPECT_EQ(own->acquire()->data, last);  // the pool still works
}

TEST_F(PageRanges, AllocationsMayFailAnywhere) {
  for (std::size_t n = 1; n <= 4; ++n) {
    const auto own = pool({192, DType::kF32});
    std::vector<KvPool::Page> pages;
    emulation::fail_allocation(n);
    const std::string text = test::message_of(
        [&] {
          for (;;) pages.push_back(own->acquire());
        },
        ErrorKind::kMemory);
    EXPECT_TRUE(text.starts_with("cuda:0: keys and values need ")) << text;
    emulation::fail_allocation(0);
    const std::size_t before = pages.size();
    pages.push_back(own->acquire());
    EXPECT_EQ(pages.back()->index, before);
    EXPECT_EQ(pages.back()->data, own->base() + before * own->stride());
  }
}

// Blocks, ranges of another stride, and the remains of a range's earlier use.
TEST_F(PageRanges, ReturnReleasedPages) {
  emulation::limit_memory(64 * kMiB);
  constexpr PageLayout kOther{64, DType::kBF16};
  const auto fill = [&](const PageLayout& layout, std::size_t bytes) {
    const auto own = pool(layout);
    return std::pair(own, acquire(*own, bytes / own->stride()));
  };
  fill(kLayout, 40 * kMiB);  // and released
  { Buffer block(40 * kMiB, memory_); }
  fill(kOther, 40 * kMiB);
  const auto [few, page] = fill(kOther, kMiB);  // of a range that has 40 MiB
  EXPECT_GE(memory().bytes(), 40 * kMiB);
  const auto [many, pages] = fill(kLayout, 40 * kMiB);
  EXPECT_LE(memory().bytes(), 40 * kMiB + 8 * kMiB + kGranularity);
  EXPECT_EQ(page.front()->data, few->base());
  const auto more = acquire(*few, 3 * kMiB / few->stride());  // the range grows again
  EXPECT_EQ(more.back()->data, few->base() + more.back()->index * few->stride());
}

// Operations may still use released pages.
TEST_F(PageRanges, AreUnmappedAfterTheDeviceHasFinished) {
  emulation::limit_memory(64 * kMiB);
  std::vector<std::byte> found(kLayout.bytes());
  {
    const auto own = pool();
    const auto pages = acquire(*own, 40 * kMiB / own->stride());
    memory().copy(std::array{Copy{pages.back()->data, pages.front()->data, kLayout.bytes()}});
    memory().copy(std::array{Copy{found.data(), pages.back()->data, kLayout.bytes()}});
  }
  Buffer block(40 * kMiB, memory_);
  memory().synchronize();
  EXPECT_EQ(found.front(), std::byte{0xFF});
}

TEST_F(PageRanges, AreFreeAtTheEnd) {
  const std::size_t before = free_bytes();
  for (const bool is_lost : {false, true}) {
    auto context = std::make_shared<cuda::Context>(0);
    auto own = std::make_shared<cuda::DeviceMemory>(context);
    {
      auto there = std::make_shared<KvPool>(kLayout, own);
      const auto pages = acquire(*there, 100);
      own->copy(std::array{Copy{pages[0]->data, pages[1]->data, 100}});
      if (is_lost) {
        emulation::fail_launch(1);
        own->copy(std::array{Copy{pages[0]->data, pages[1]->data, 100}});
        EXPECT_THROW(own->synchronize(), Error);
        EXPECT_THROW(acquire(*there, 1000), Error);
      }
    }
    own.reset();
    context.reset();
    emulation::fail_launch(0);
    emulation::restore_devices();
    memory().synchronize();
  }
  EXPECT_EQ(free_bytes(), before);
}

TEST_F(PageRanges, RequireVirtualMemoryManagement) {
  const auto refusal = [&](bool by_devices, const char* missing) {
    emulation::support_virtual_memory(by_devices, missing);
    std::string out =
        test::message_of([&] { cuda::DeviceMemory memory(context_); }, ErrorKind::kRuntime);
    emulation::support_virtual_memory(true);
    return out;
  };
  for (const std::string& text : {refusal(false, nullptr), refusal(true, "cuMemSetAccess")}) {
    EXPECT_EQ(text,
              "cuda:0: found no virtual memory management on the device or in its driver, expected "
              "it for keys and values");
  }
}

#endif

}  // namespace
}  // namespace turnbench
