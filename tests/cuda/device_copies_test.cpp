#include "inference/cuda/device_copies.h"

#include <gtest/gtest.h>

#include <random>

#include "inference/cuda/selection.h"
#include "tests/cuda/device_array.h"
#include "tests/cuda/device_floats.h"
#include "tests/inference/reference.h"

namespace turnbench {
namespace {

using test::DeviceArray;

std::vector<std::byte> random_bytes(std::size_t n, unsigned seed) {
  std::mt19937 engine(seed);
  std::vector<std::byte> out(n);
  for (std::byte& b : out) b = static_cast<std::byte>(engine());
  return out;
}

class DeviceCopies : public testing::Test {
 protected:
  /// Copies `sizes` from one array to another, with `gap` bytes between them, from offset `from` to
  /// offset `to`.
  void expect_copied(const std::vector<std::size_t>& sizes, std::size_t gap, std::size_t from,
                     std::size_t to) {
    SCOPED_TRACE(fmt::format("{} copies, gap {}, off by {} and {}", sizes.size(), gap, from, to));
    std::size_t total = 32;
    for (std::size_t size : sizes) total += size + gap;
    const std::vector<std::byte> source = random_bytes(total, 1), before = random_bytes(total, 2);
    DeviceArray<std::byte> in(source);
    std::vector<std::byte> expected = before;
    const std::vector<std::byte> found = test::in_every_order([&] {
      DeviceArray<std::byte> out(before);
      std::vector<Copy> copies;
      std::size_t at = 0;
      for (std::size_t size : sizes) {
        copies.push_back({out.data() + to + at, in.data() + from + at, size});
        std::copy_n(&source[from + at], size, &expected[to + at]);
        at += size + gap;
      }
      cuda::copy_bytes(context_, copies);
      return out.values();
    });
    EXPECT_TRUE(found == expected);
  }

  cuda::Context context_{0};
};

TEST_F(DeviceCopies, HaveAnySizeAndAlignment) {
  const std::vector<std::size_t> sizes = {0,   1,    4,    15,   16,   17,   31,    128,
                                          512, 4095, 4096, 4097, 8192, 8207, 33024, 3};
  for (std::size_t gap : {0, 1, 16}) {
    for (std::size_t from : {0, 1, 4, 16}) {
      for (std::size_t to : {0, 2, 4, 16}) expect_copied(sizes, gap, from, to);
    }
  }
}

TEST_F(DeviceCopies, ManyRowsAndSomePages) {
  std::vector<std::size_t> sizes;
  for (std::size_t i = 0; i < 3000; ++i) sizes.push_back(128 << i % 3);
  for (int page = 0; page < 3; ++page) sizes.push_back(PageLayout{128, DType::kBF16}.bytes());
  expect_copied(sizes, 64, 0, 16);
}

TEST_F(DeviceCopies, NoneAtAll) {
  expect_copied({}, 0, 0, 0);
  expect_copied({0, 0}, 16, 0, 0);
}

/// Several sets that receive rows of one array in one call, and the same sets on the host.
class Append : public testing::TestWithParam<std::tuple<DType, bool, int>> {
 protected:
  struct Part {
    int first, rows;
  };

  PageLayout layout() const {
    const auto [dtype, pre_rope_keys, head_dim] = GetParam();
    return {head_dim, dtype, pre_rope_keys};
  }

  static std::vector<std::int32_t> positions(int begin, int count) {
    std::vector<std::int32_t> out(static_cast<std::size_t>(count));
    for (int i = 0; i < count; ++i) out[i] = begin + i;
    return out;
  }

  /// All bytes of the pages, which were filled with a pattern before the first write.
  static std::vector<std::byte> contents(const KvHeadCache& set) {
    const std::size_t bytes = set.layout().position_offset();
    std::vector<std::byte> out(set.pages().size() * bytes);
    std::vector<Copy> copies;
    for (const KvPool::Page& page : set.pages())
      copies.push_back({out.data() + copies.size() * bytes, page->data, bytes});
    copy(set, copies);
    return out;
  }
  static void fill(const KvHeadCache& set) {
    const std::vector<std::byte> pattern(set.layout().position_offset(), std::byte{0x5A});
    std::vector<Copy> copies;
    for (const KvPool::Page& page : set.pages())
      copies.push_back({page->data, pattern.data(), pattern.size()});
    copy(set, copies);
  }
  static void copy(const KvHeadCache& set, const std::vector<Copy>& copies) {
    set.pool()->memory().copy(copies);
    set.pool()->memory().synchronize();
  }

  cuda::Context context_{0};
  const std::shared_ptr<Memory>& memory_ = test::plain_device_memory();
};

TEST_P(Append, WritesWhatTheHostWouldWrite) {
  const std::vector<Part> parts = {{0, 1}, {0, 200}, {63, 2}, {64, 64}, {100, 29}, {5, 0}};
  const auto width = static_cast<std::size_t>(layout().head_dim);
  const std::size_t stride = parts.size() * width + 3;
  std::vector<float> k = test::random_floats(200 * stride, 1, 3);
  const std::vector<float> v = test::random_floats(200 * stride, 2),
                           raw = test::random_floats(200 * stride, 3, 1e-6f);
  k[0] = 1e30f;
  k[1] = -65520;
  k[2] = 1.00048828125f;  // halfway between two of f16
  DeviceArray<float> dk(k), dv(v), draw(raw);

  std::vector<std::byte> expected;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    KvHeadCache set(std::make_shared<KvPool>(layout()));
    set.extend(positions(0, parts[i].first + parts[i].rows));
    fill(set);
    const auto rows = [&](const std::vector<float>& of) {
      return MatrixView<const float>(&of[i * width], parts[i].rows,
                                     static_cast<std::int64_t>(width),
                                     static_cast<std::int64_t>(stride));
    };
    set.write(parts[i].first, rows(k), rows(v), rows(raw));
    const std::vector<std::byte> bytes = contents(set);
    expected.insert(expected.end(), bytes.begin(), bytes.end());
  }

  const std::vector<std::byte> found = test::in_every_order([&] {
    const auto pool = std::make_shared<KvPool>(layout(), memory_);
    std::vector<KvHeadCache> sets;
    std::vector<AppendJob> jobs;
    for (const Part& part : parts) {
      sets.emplace_back(pool);
      sets.back().extend(positions(0, part.first + part.rows));
      fill(sets.back());
    }
    for (std::size_t i = 0; i < parts.size(); ++i) {
      const auto own = [&](const float* all) {
        return MatrixView(all + i * width, parts[i].rows, width, stride);
      };
      jobs.push_back({&sets[i], parts[i].first, own(dk.data()), own(dv.data())});
      if (layout().pre_rope_keys) jobs.back().pre_rope_k = own(draw.data());
    }
    cuda::append(context_, jobs);
    context_.synchronize();
    std::vector<std::byte> out;
    for (const KvHeadCache& set : sets) {
      const std::vector<std::byte> bytes = contents(set);
      out.insert(out.end(), bytes.begin(), bytes.end());
    }
    return out;
  });
  EXPECT_TRUE(found == expected);
}

TEST_P(Append, LeavesAForkAlone) {
  const auto width = static_cast<std::size_t>(layout().head_dim);
  DeviceArray<float> rows(test::random_floats(100 * width, 1));
  KvHeadCache set(std::make_shared<KvPool>(layout(), memory_));
  set.extend(positions(0, 70));
  fill(set);
  KvHeadCache fork = set;
  fork.extend(positions(70, 30));
  const std::vector<std::byte> before = contents(set);
  const MatrixView<const float> added(rows.data(), 30, width);
  const AppendJob job = {&fork, 70, added, added, added};
  cuda::append(context_, {&job, 1});
  context_.synchronize();
  EXPECT_TRUE(contents(set) == before);
  DeviceArray<float> found(std::vector<float>(30 * width));
  const ReadRowsJob reading{&fork, 70, KvRow::kKey, {found.data(), 30, layout().head_dim}};
  cuda::read_rows(context_, {&reading, 1});
  context_.synchronize();
  std::vector<float> expected = test::rounded_to(layout().dtype, rows.values());
  expected.resize(30 * width);
  EXPECT_EQ(found.values(), expected);
}

INSTANTIATE_TEST_SUITE_P(Layouts, Append,
                         testing::Combine(testing::Values(DType::kF32, DType::kF16, DType::kBF16),
                                          testing::Bool(), testing::Values(16, 20, 64, 128)));

}  // namespace
}  // namespace turnbench
