// The guarantees of a device's memory for its copies, in all orders in which the emulation runs
// streams.

#include "inference/cuda/device_memory.h"

#include <gtest/gtest.h>

#include <functional>

#include "inference/cuda/cuda_backend.h"
#include "inference/cuda/device_copies.h"
#include "tests/cuda/bytes.h"
#include "tests/cuda/device_array.h"

namespace turnbench {
namespace {

using test::bytes_of;
using Bytes = std::vector<std::byte>;

constexpr std::size_t kBig = (std::size_t{1} << 20) + 3, kSmall = 100;
constexpr std::size_t kSizes[] = {1, kSmall, (256 << 10) - 1, 256 << 10, kBig, (40 << 20) + 1};

/// Pinned memory of the host.
class Pinned {
 public:
  explicit Pinned(const Bytes& values) {
    void* data = nullptr;
    cuda::check(cudaMallocHost(&data, values.size()), "allocating in a test");
    data_ = static_cast<std::byte*>(data);
    std::copy(values.begin(), values.end(), data_);
  }
  ~Pinned() { cudaFreeHost(data_); }
  Pinned(const Pinned&) = delete;
  Pinned& operator=(const Pinned&) = delete;
  std::byte* data() { return data_; }

 private:
  std::byte* data_;
};

class DeviceMemoryTest : public testing::Test {
 protected:
  void copy(std::byte* to, const std::byte* from, std::size_t bytes) {
    const Copy copy{to, from, bytes};
    memory_->copy({&copy, 1});
  }
  Bytes contents(const Buffer& buffer) {
    memory_->synchronize();
    Bytes out(buffer.size());
    cuda::check(cudaMemcpy(out.data(), buffer.data(), out.size(), cudaMemcpyDefault),
                "copying in a test");
    return out;
  }
  Buffer buffer(const Bytes& values) {
    Buffer out(values.size(), memory_);
    memory_->synchronize();  // reuses released memory
    cuda::check(cudaMemcpy(out.data(), values.data(), values.size(), cudaMemcpyDefault),
                "copying in a test");
    return out;
  }

  std::shared_ptr<cuda::Context> context_ = std::make_shared<cuda::Context>(0);
  std::shared_ptr<Memory> memory_ = std::make_shared<cuda::DeviceMemory>(context_);
};

TEST_F(DeviceMemoryTest, HostSourceMayChangeImmediately) {
  for (std::size_t size : kSizes) {
    SCOPED_TRACE(size);
    const Bytes expected = bytes_of(size, 1);
    test::in_every_order([&] {
      Bytes pageable = expected;
      Pinned pinned(expected);
      for (std::byte* source : {pageable.data(), pinned.data()}) {
        Buffer device(size, memory_);
        copy(device.data(), source, size);
        std::fill_n(source, size, std::byte{0});
        EXPECT_TRUE(contents(device) == expected);
      }
    });
  }
}

TEST_F(DeviceMemoryTest, CopiesToTheHostEndBeforeReturning) {
  for (std::size_t size : kSizes) {
    SCOPED_TRACE(size);
    const Bytes expected = bytes_of(size, 2);
    const Buffer device = buffer(expected);
    test::in_every_order([&] {
      Bytes found(size);
      copy(found.data(), device.data(), size);
      memory_->synchronize();
      EXPECT_TRUE(found == expected);
    });
  }
}

// A row that is written back and fetched again immediately.
TEST_F(DeviceMemoryTest, CopiesFromHostMemoryWaitForTransfersToIt) {
  for (std::size_t size : kSizes) {
    SCOPED_TRACE(size);
    const Bytes expected = bytes_of(size, 8);
    const Buffer device = buffer(expected);
    test::in_every_order([&] {
      Bytes host(size);
      Buffer again(size, memory_);
      copy(host.data(), device.data(), size);
      copy(again.data(), host.data(), size);
      EXPECT_TRUE(contents(again) == expected);
    });
  }
}

TEST_F(DeviceMemoryTest, CopiesKeepTheOrderOfOperations) {
  for (std::size_t size : kSizes) {
    SCOPED_TRACE(size);
    const Bytes first = bytes_of(size, 3), second = bytes_of(size, 4);
    test::in_every_order([&] {
      Buffer a(size, memory_), b(size, memory_);
      Bytes found_first(size), found_second(size);
      copy(a.data(), first.data(), size);
      copy(b.data(), a.data(), size);  // by a kernel
      copy(found_first.data(), b.data(), size);
      copy(a.data(), second.data(), size);
      copy(b.data(), a.data(), size);
      copy(found_second.data(), b.data(), size);
      memory_->synchronize();
      EXPECT_TRUE(found_first == first);
      EXPECT_TRUE(found_second == second);
    });
  }
}

TEST_F(DeviceMemoryTest, LaterCopyToTheSamePlaceWins) {
  const Bytes big = bytes_of(kBig, 5), small = bytes_of(kSmall, 6);
  Bytes expected = big;
  std::copy(small.begin(), small.end(), expected.begin());
  test::in_every_order([&] {
    Buffer device(kBig, memory_);
    copy(device.data(), big.data(), kBig);
    copy(device.data(), small.data(), kSmall);
    EXPECT_TRUE(contents(device) == expected);
    copy(device.data(), small.data(), kSmall);
    copy(device.data(), big.data(), kBig);
    EXPECT_TRUE(contents(device) == big);

    const Buffer from_big = buffer(big), from_small = buffer(small);
    Bytes host(kBig);
    copy(host.data(), from_big.data(), kBig);
    copy(host.data(), from_small.data(), kSmall);
    memory_->synchronize();
    EXPECT_TRUE(host == expected);
  });
}

TEST_F(DeviceMemoryTest, OneCallSupportsAllKindsOfCopies) {
  const std::size_t sizes[] = {kSmall, kBig, 0, 3 * kBig};
  test::in_every_order([&] {
    std::vector<Buffer> up, inside;
    std::vector<Bytes> sources, down;
    for (std::size_t size : sizes) {
      up.emplace_back(size, memory_);
      inside.emplace_back(size, memory_);
      sources.push_back(bytes_of(size, static_cast<unsigned>(size)));
      down.emplace_back(size);
    }
    std::vector<Copy> there, on, back;
    for (std::size_t i = 0; i < sources.size(); ++i) {
      there.push_back({up[i].data(), sources[i].data(), sizes[i]});
      on.push_back({inside[i].data(), up[i].data(), sizes[i]});
      back.push_back({down[i].data(), inside[i].data(), sizes[i]});
    }
    memory_->copy(there);
    memory_->copy(on);
    memory_->copy(back);
    memory_->synchronize();
    for (std::size_t i = 0; i < sources.size(); ++i) EXPECT_TRUE(down[i] == sources[i]) << i;
  });
}

// Memory of another backend, on this device or another, is not host memory.
TEST_F(DeviceMemoryTest, CopiesFromOtherBackendsMemory) {
  for (const int device : {0, 1}) {
    if (device >= turnbench::cuda::device_count()) continue;
    const auto other =
        std::make_shared<cuda::DeviceMemory>(std::make_shared<cuda::Context>(device));
    for (std::size_t size : kSizes) {
      SCOPED_TRACE(size);
      const Bytes expected = bytes_of(size, 7);
      Buffer there(size, other), here(size, memory_);
      const Copy up{there.data(), expected.data(), size};
      other->copy({&up, 1});
      other->synchronize();
      copy(here.data(), there.data(), size);
      EXPECT_TRUE(contents(here) == expected);
    }
  }
}

TEST_F(DeviceMemoryTest, SizeClassesWasteAnEighthAtMost) {
  std::size_t last = 0;
  int classes = 0;
  for (std::size_t bytes = 1; bytes < (std::size_t{64} << 20); bytes += 1 + bytes / 100) {
    const std::size_t size = cuda::size_class(bytes);
    EXPECT_GE(size, bytes);
    EXPECT_EQ(size % 256, 0u);
    EXPECT_EQ(cuda::size_class(size), size);
    if (bytes > 2048) {
      EXPECT_LE(size, bytes + bytes / 8);
    }
    classes += size != last;
    last = size;
  }
  EXPECT_LT(classes, 140);
}

// An array that grows a little in each step, like the scores of a growing cache.
TEST_F(DeviceMemoryTest, ReusesBlocksForGrowingSizes) {
  auto& memory = dynamic_cast<cuda::DeviceMemory&>(*memory_);
  const auto grow = [&](std::size_t from, std::size_t to) {
    for (std::size_t size = from; size < to; size += 132) Buffer(size, memory_);
  };
  grow(400'000, 440'000);
  const std::size_t before = memory.bytes();
  grow(400'000, 440'000);
  EXPECT_EQ(memory.bytes(), before);
  EXPECT_LE(before, std::size_t{8} << 20);
}

TEST_F(DeviceMemoryTest, ErrorsNameTheAllocation) {
  std::size_t free = 0, total = 0;
  ASSERT_EQ(cudaMemGetInfo(&free, &total), cudaSuccess);
  try {
    Buffer all(free - total / 64, memory_);  // less than is free: a part is reserved
    FAIL() << "was allocated";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kMemory);
    const std::string text = error.what();
    EXPECT_NE(text.find("cuda:0: keys, values and activations need "), std::string::npos) << text;
    EXPECT_NE(text.find(" MiB are free (1/32 is kept free)"), std::string::npos) << text;
  }
  Buffer some(kBig, memory_);  // the memory still works
}

// Released blocks are freed to make room for a block of another size.
TEST_F(DeviceMemoryTest, GivesReleasedBlocksBack) {
#ifdef TURNBENCH_EMULATED
  emulation::limit_memory(std::size_t{64} << 20);
  std::size_t free = 0, total = 0;
  ASSERT_EQ(cudaMemGetInfo(&free, &total), cudaSuccess);
  const std::size_t half = (free - total / 32) / 2;
  for (const std::size_t size : {half + (1 << 20), half + half / 2}) Buffer(size, memory_);
  emulation::limit_memory(0);
#else
  GTEST_SKIP() << "takes the memory of a whole device";
#endif
}

}  // namespace
}  // namespace turnbench
