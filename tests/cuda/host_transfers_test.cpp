// Transfers in parallel to a stream of kernels, in all orders in which the emulation runs the two
// streams.

#include "inference/cuda/host_transfers.h"

#include <gtest/gtest.h>

#include <thread>

#include "inference/cuda/device_copies.h"
#include "tests/cuda/bytes.h"
#include "tests/cuda/device_array.h"

namespace turnbench {
namespace {

using cuda::HostTransfers;
using test::bytes_of;
using test::DeviceArray;
using test::same_bits;
using TransferBytes = std::vector<std::byte>;

constexpr std::size_t kBuffer = HostTransfers::kBufferBytes,
                      kRing = HostTransfers::kBuffers * kBuffer;
constexpr std::size_t kTransferSizes[] = {0, 1, 1000, kBuffer - 1, kBuffer, kBuffer + 1, kRing + 1};
constexpr std::size_t kSome = 3 * kBuffer + 77;

class HostTransfersTest : public testing::Test {
 protected:
  /// A kernel of the context's stream.
  void copy_by_kernel(std::byte* to, const std::byte* from, std::size_t bytes) {
    const Copy copy{to, from, bytes};
    cuda::copy_bytes(context_, {&copy, 1});
  }

  cuda::Context context_{0};
  HostTransfers& transfers_ = context_.transfers();
};

TEST_F(HostTransfersTest, OfAnySizeToTheDeviceWhoseSourceChangesAtOnce) {
  for (std::size_t size : kTransferSizes) {
    SCOPED_TRACE(size);
    const TransferBytes expected = bytes_of(size, 1);
    test::in_every_order([&] {
      DeviceArray<std::byte> device(TransferBytes(size), 3);
      TransferBytes source = expected;
      transfers_.to_device(device.data(), source);
      std::fill(source.begin(), source.end(), std::byte{0});
      context_.synchronize();
      EXPECT_TRUE(same_bits(device.values(), expected));
    });
  }
}

TEST_F(HostTransfersTest, OfAnySizeToTheHost) {
  for (std::size_t size : kTransferSizes) {
    SCOPED_TRACE(size);
    const TransferBytes expected = bytes_of(size, 2);
    DeviceArray<std::byte> device(expected, 1);
    test::in_every_order([&] {
      TransferBytes found(size);
      transfers_.to_host(found, device.data());
      context_.synchronize();
      EXPECT_TRUE(same_bits(found, expected));
    });
  }
}

TEST_F(HostTransfersTest, SupportsManyTransfersInBothDirections) {
  const std::size_t sizes[] = {5, kBuffer + 1, 300, 0, kRing, 77, kSome};
  test::in_every_order([&] {
    std::vector<std::unique_ptr<DeviceArray<std::byte>>> device;
    std::vector<TransferBytes> found;
    for (std::size_t size : sizes) {
      device.push_back(std::make_unique<DeviceArray<std::byte>>(TransferBytes(size)));
      found.emplace_back(size);
    }
    for (std::size_t i = 0; i < found.size(); ++i) {
      transfers_.to_device(device[i]->data(), bytes_of(sizes[i], static_cast<unsigned>(i)));
      if (i % 2 == 0) transfers_.to_host(found[i], device[i]->data());
    }
    transfers_.synchronize();
    for (std::size_t i = 0; i < found.size(); i += 2)
      EXPECT_TRUE(same_bits(found[i], bytes_of(sizes[i], static_cast<unsigned>(i)))) << i;
  });
}

TEST_F(HostTransfersTest, PiecesAreFilledInOrder) {
  const TransferBytes expected = bytes_of(kSome, 3);
  DeviceArray<std::byte> device{TransferBytes(kSome)};
  std::size_t filled = 0;
  transfers_.to_device(device.data(), kSome, [&](std::size_t at, std::span<std::byte> piece) {
    EXPECT_EQ(at, filled);
    EXPECT_EQ(at % kBuffer, 0u);
    std::copy_n(&expected[at], piece.size(), piece.data());
    filled += piece.size();
  });
  EXPECT_EQ(filled, kSome);
  context_.synchronize();
  EXPECT_TRUE(same_bits(device.values(), expected));
}

TEST_F(HostTransfersTest, KernelsReadTransferredData) {
  const TransferBytes expected = bytes_of(kSome, 4);
  test::in_every_order([&] {
    DeviceArray<std::byte> in{TransferBytes(kSome)}, out{TransferBytes(kSome)};
    transfers_.to_device(in.data(), expected);
    transfers_.order_before(context_.stream());
    copy_by_kernel(out.data(), in.data(), kSome);
    context_.synchronize();
    EXPECT_TRUE(same_bits(out.values(), expected));
  });
}

TEST_F(HostTransfersTest, OverwritesDataAfterAKernelHasReadIt) {
  const TransferBytes before = bytes_of(kSome, 5), after = bytes_of(kSome, 6);
  test::in_every_order([&] {
    DeviceArray<std::byte> in(before), out{TransferBytes(kSome)};
    copy_by_kernel(out.data(), in.data(), kSome);
    transfers_.order_after(context_.stream());
    transfers_.to_device(in.data(), after);
    context_.synchronize();
    EXPECT_TRUE(same_bits(out.values(), before));
    EXPECT_TRUE(same_bits(in.values(), after));
  });
}

TEST_F(HostTransfersTest, TransfersToTheHostBetweenTwoKernels) {
  const TransferBytes first = bytes_of(kSome, 7), second = bytes_of(kSome, 8);
  DeviceArray<std::byte> a(first), b(second);
  test::in_every_order([&] {
    DeviceArray<std::byte> device{TransferBytes(kSome)};
    TransferBytes found(kSome);
    copy_by_kernel(device.data(), a.data(), kSome);
    transfers_.order_after(context_.stream());
    transfers_.to_host(found, device.data());
    transfers_.order_before(context_.stream());
    copy_by_kernel(device.data(), b.data(), kSome);
    context_.synchronize();
    EXPECT_TRUE(same_bits(found, first));
    EXPECT_TRUE(same_bits(device.values(), second));
  });
}

TEST_F(HostTransfersTest, SupportsConcurrentCallers) {
  std::vector<std::unique_ptr<DeviceArray<std::byte>>> device;
  for (int i = 0; i < 4; ++i)
    device.push_back(std::make_unique<DeviceArray<std::byte>>(TransferBytes(kSome)));
  std::vector<TransferBytes> found(device.size(), TransferBytes(kSome));
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < device.size(); ++i) {
    threads.emplace_back([&, i] {
      transfers_.to_device(device[i]->data(), bytes_of(kSome, static_cast<unsigned>(i)));
      transfers_.to_host(found[i], device[i]->data());
      transfers_.synchronize();
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (std::size_t i = 0; i < found.size(); ++i)
    EXPECT_TRUE(same_bits(found[i], bytes_of(kSome, static_cast<unsigned>(i)))) << i;
}

TEST_F(HostTransfersTest, AllocatesAndCountsTheRingOnFirstUse) {
  transfers_.order_after(context_.stream());
  transfers_.order_before(context_.stream());
  transfers_.to_device(nullptr, {});
  transfers_.synchronize();
  EXPECT_EQ(context_.bytes(), 0u);
  DeviceArray<std::byte> device{TransferBytes(1)};
  for (int i = 0; i < 9; ++i) transfers_.to_device(device.data(), bytes_of(1, 1));
  transfers_.synchronize();
  EXPECT_EQ(transfers_.bytes(), kRing);
  EXPECT_EQ(context_.bytes(), kRing);
}

}  // namespace
}  // namespace turnbench
