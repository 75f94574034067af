// What a device's memory promises of its copies, in all orders in which the emulation runs streams.

#include "inference/cuda/device_memory.h"

#include <gtest/gtest.h>

#include <functional>

#include "inference/cuda/device_copies.h"
#include "tests/cuda/bytes.h"
#include "tests/cuda/device_array.h"

namespace turnbench {
namespace {

using test::bytes_of;
using Bytes = std::vector<std::byte>;

constexpr std::size_t kBig = (std::size_t{1} << 20) + 3, kSmall = 100;
constexpr std::size_t kSizes[] = {1, kSmall, (256 << 10) - 1, 256 << 10, kBig, (40 << 20) + 1};

/// Memory of the host that CUDA knows.
class Known {
 public:
  enum class Kind { kPinned, kManaged };
  Known(Kind kind, const Bytes& values) : kind_(kind) {
    void* data = nullptr;
    cuda::check(kind == Kind::kPinned ? cudaMallocHost(&data, values.size())
                                      : cudaMallocManaged(&data, values.size()),
                "allocating in a test");
    data_ = static_cast<std::byte*>(data);
    std::copy(values.begin(), values.end(), data_);
  }
  ~Known() {
    if (kind_ == Kind::kPinned) {
      cudaFreeHost(data_);
    } else {
      cudaFree(data_);
    }
  }
  Known(const Known&) = delete;
  Known& operator=(const Known&) = delete;
  std::byte* data() { return data_; }

 private:
  Kind kind_;
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
    return {buffer.data(), buffer.data() + buffer.size()};
  }
  Buffer buffer(const Bytes& values) {
    Buffer out(values.size(), memory_);
    memory_->synchronize();  // memory that is used again
    std::copy(values.begin(), values.end(), out.data());
    return out;
  }

  std::shared_ptr<cuda::Context> context_ = std::make_shared<cuda::Context>(0);
  std::shared_ptr<Memory> memory_ = std::make_shared<cuda::DeviceMemory>(context_);
};

TEST_F(DeviceMemoryTest, WhatIsCopiedFromTheHostMayChangeAtOnce) {
  for (std::size_t size : kSizes) {
    SCOPED_TRACE(size);
    const Bytes expected = bytes_of(size, 1);
    test::in_every_order([&] {
      Bytes pageable = expected;
      Known pinned(Known::Kind::kPinned, expected), managed(Known::Kind::kManaged, expected);
      for (std::byte* source : {pageable.data(), pinned.data(), managed.data()}) {
        Buffer device(size, memory_);
        copy(device.data(), source, size);
        std::fill_n(source, size, std::byte{0});
        EXPECT_TRUE(contents(device) == expected);
      }
    });
  }
}

TEST_F(DeviceMemoryTest, WhatIsCopiedToTheHostIsThereAtTheEnd) {
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

TEST_F(DeviceMemoryTest, OfTwoCopiesToOnePlaceTheLaterOneWins) {
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

TEST_F(DeviceMemoryTest, OneCallTakesCopiesOfAllKinds) {
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

}  // namespace
}  // namespace turnbench
