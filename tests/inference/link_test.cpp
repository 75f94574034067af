#include "inference/kv/link.h"

#include <gtest/gtest.h>

#include <atomic>
#include <limits>
#include <numeric>
#include <semaphore>

#include "common/clock.h"
#include "common/error.h"
#include "tests/message_of.h"

namespace turnbench {
namespace {

using Bytes = std::vector<std::byte>;
constexpr auto kToDevice = LinkDirection::kToDevice;
constexpr auto kToHost = LinkDirection::kToHost;

Copy copy_to(Bytes& to, const Bytes& from) {
  return {to.data(), from.data(), from.size()};
}

Bytes pattern(std::size_t size, int seed) {
  Bytes out(size);
  for (std::size_t i = 0; i < size; ++i) out[i] = static_cast<std::byte>(i * 7 + seed);
  return out;
}

/// Host memory whose copies wait until the test releases them, or fail.
class SlowMemory : public Memory {
 public:
  std::byte* allocate(std::size_t bytes) override { return host_memory()->allocate(bytes); }
  void release(std::byte* data, std::size_t bytes) noexcept override {
    host_memory()->release(data, bytes);
  }
  void copy(std::span<const Copy> copies) override {
    gate.acquire();
    if (fails) throw runtime_error("the link is broken");
    host_memory()->copy(copies);
    ++copied;
  }
  void synchronize() override {}
  bool is_host() const override { return true; }

  std::counting_semaphore<> gate{0};
  std::atomic<bool> fails = false;
  std::atomic<int> copied = 0;
};

TEST(HostLink, CopiesInOrder) {
  HostLink link;
  const Bytes a = pattern(3000, 1), b = pattern(3000, 2);
  Bytes to(3000), back(3000);
  link.submit(std::vector{copy_to(to, a)}, kToDevice, LinkUse::kKvFetch);
  const Link::Ticket second =
      link.submit(std::vector{copy_to(to, b)}, kToDevice, LinkUse::kKvFetch);
  const Link::Ticket third =
      link.submit(std::vector{copy_to(back, to)}, kToHost, LinkUse::kWriteback);
  EXPECT_EQ(second, 2u);
  link.wait(third);
  EXPECT_EQ(to, b);
  EXPECT_EQ(back, b);
  link.wait(0);
  link.synchronize();
}

// The counts are those of the transferred bytes, by direction and use.
TEST(HostLink, CountsBytes) {
  HostLink link;
  const Bytes from = pattern(1000, 3);
  Bytes to(1000);
  const auto part = [&](std::size_t at, std::size_t bytes) {
    return Copy{to.data() + at, from.data() + at, bytes};
  };
  link.submit(std::vector{part(0, 100), part(200, 50), part(300, 0)}, kToDevice, LinkUse::kIndex);
  link.submit(std::vector{part(400, 7)}, kToDevice, LinkUse::kKvFetch);
  link.submit(std::vector{part(500, 11), part(600, 13)}, kToDevice, LinkUse::kCacheFill);
  link.submit(std::vector{part(800, 17)}, kToDevice, LinkUse::kPrefill);
  link.submit(std::vector{part(700, 19)}, kToHost, LinkUse::kWriteback);
  link.wait(link.submit({}, kToDevice, LinkUse::kKvFetch));
  const LinkTraffic t = link.traffic();
  EXPECT_EQ(t.to_device(LinkUse::kIndex), 150);
  EXPECT_EQ(t.to_device(LinkUse::kKvFetch), 7);
  EXPECT_EQ(t.to_device(LinkUse::kCacheFill), 24);
  EXPECT_EQ(t.to_device(LinkUse::kPrefill), 17);
  EXPECT_EQ(t.to_device(LinkUse::kWriteback), 0);
  EXPECT_EQ(t.to_host(LinkUse::kWriteback), 19);
  EXPECT_EQ(t.to_host(LinkUse::kIndex), 0);
  EXPECT_EQ(std::reduce(t.to_device_bytes.begin(), t.to_device_bytes.end()), 198);
  std::int64_t arrived = 0;
  for (std::size_t i = 0; i < to.size(); ++i) arrived += to[i] != std::byte{0};
  std::int64_t zeros = 0;  // zero bytes of the pattern, which look unwritten
  for (const Copy& c : {part(0, 100), part(200, 50), part(400, 7), part(500, 11), part(600, 13),
                        part(700, 19), part(800, 17)}) {
    zeros += std::count(c.from, c.from + c.bytes, std::byte{0});
  }
  EXPECT_EQ(arrived + zeros, 198 + 19);
  EXPECT_GT(t.measured_seconds, 0);
  EXPECT_EQ(t.throttled_seconds, 0);
}

// `submit` does not wait for copies; `wait` waits for its own and earlier ones, not for later ones.
TEST(HostLink, CopiesConcurrentlyWithTheCaller) {
  const auto memory = std::make_shared<SlowMemory>();
  HostLink link({}, memory);
  const Bytes from = pattern(64, 4);
  Bytes first(64), second(64);
  const auto ticket = link.submit(std::vector{copy_to(first, from)}, kToDevice, LinkUse::kKvFetch);
  link.submit(std::vector{copy_to(second, from)}, kToDevice, LinkUse::kCacheFill);
  EXPECT_EQ(memory->copied, 0);
  EXPECT_EQ(link.traffic().to_device(LinkUse::kCacheFill), 64);
  memory->gate.release();
  link.wait(ticket);
  EXPECT_EQ(first, from);
  EXPECT_EQ(memory->copied, 1);
  memory->gate.release();
  link.synchronize();
  EXPECT_EQ(second, from);
}

TEST(HostLink, FinishesSubmittedCopies) {
  const auto memory = std::make_shared<SlowMemory>();
  memory->gate.release(20);
  const Bytes from = pattern(100000, 5);
  std::vector<Bytes> to(20, Bytes(from.size()));
  const auto start = Clock::now();
  {
    HostLink link({.gbps = 0.001}, memory);  // the destructor does not wait 0.1 s for each
    for (Bytes& t : to) link.submit(std::vector{copy_to(t, from)}, kToDevice, LinkUse::kKvFetch);
  }
  EXPECT_LT(seconds_since(start), 1);
  for (const Bytes& t : to) EXPECT_EQ(t, from);
}

// A failure is reported to those that wait for the copies or for later ones, and to no others.
TEST(HostLink, ReportsErrorsToWaiters) {
  const auto memory = std::make_shared<SlowMemory>();
  HostLink link({}, memory);
  const Bytes from = pattern(64, 6);
  Bytes first(64), second(64), third(64);
  const auto submit = [&](Bytes& to) {
    return link.submit(std::vector{copy_to(to, from)}, kToDevice, LinkUse::kKvFetch);
  };
  const auto good = submit(first);
  memory->gate.release();
  link.wait(good);
  memory->fails = true;
  const auto bad = submit(second);
  memory->gate.release();
  const auto message = [&](Link::Ticket ticket) {
    return test::message_of([&] { link.wait(ticket); }, ErrorKind::kRuntime);
  };
  EXPECT_EQ(message(bad), "the link is broken");
  memory->fails = false;
  EXPECT_EQ(message(submit(third)), "the link is broken");
  EXPECT_EQ(message(bad), "the link is broken");
  EXPECT_EQ(test::message_of([&] { link.synchronize(); }, ErrorKind::kRuntime),
            "the link is broken");
  link.wait(good);
  EXPECT_EQ(memory->copied, 1);
  EXPECT_EQ(third, Bytes(64));
  EXPECT_EQ(message(9), "found ticket 9 of a link, expected at most 3");
}

TEST(HostLink, RejectsInvalidArguments) {
  HostLink link;
  Bytes to(8);
  EXPECT_EQ(test::message_of(
                [&] {
                  link.submit(std::vector{Copy{to.data(), nullptr, 8}}, kToDevice, LinkUse::kIndex);
                },
                ErrorKind::kRuntime),
            "found a copy of 8 bytes from or to a null address");
  EXPECT_EQ(link.traffic().to_device(LinkUse::kIndex), 0);
  for (const double gbps : {-1.0, 1e-9, std::numeric_limits<double>::infinity(),
                            std::numeric_limits<double>::quiet_NaN()}) {
    EXPECT_NE(test::message_of([&] { HostLink({.gbps = gbps}); }).find("GB/s, expected 0 or"),
              std::string::npos);
  }
}

// 4 submissions of 0.1 MB at 0.02 GB/s take 20 ms, of which the copies themselves are a part.
TEST(HostLink, SimulatesASlowerLink) {
  HostLink link({.gbps = 0.02});
  const Bytes from = pattern(100000, 7);
  std::vector<Bytes> to(4, Bytes(from.size()));
  const auto start = Clock::now();
  Link::Ticket last = 0;
  for (Bytes& t : to) {
    last = link.submit(std::vector{copy_to(t, from)}, kToDevice, LinkUse::kKvFetch);
  }
  link.wait(last);
  EXPECT_GE(seconds_since(start), 0.0199);
  const LinkTraffic t = link.traffic();
  EXPECT_GT(t.measured_seconds, 0);
  EXPECT_GT(t.throttled_seconds, 0);
  EXPECT_LE(t.measured_seconds + t.throttled_seconds, seconds_since(start));
  for (const Bytes& b : to) EXPECT_EQ(b, from);
}

// Several threads submit and wait at once.
TEST(HostLink, ServesSeveralThreads) {
  HostLink link;
  constexpr int kThreads = 4, kCopies = 200;
  const Bytes from = pattern(128, 8);
  std::vector<std::vector<Bytes>> to(kThreads, std::vector<Bytes>(kCopies, Bytes(128)));
  std::vector<std::thread> threads;
  std::atomic<int> wrong = 0;
  for (auto& own : to) {
    threads.emplace_back([&] {
      for (Bytes& t : own) {
        link.wait(link.submit(std::vector{copy_to(t, from)}, kToDevice, LinkUse::kKvFetch));
        wrong += t != from;
        wrong += link.traffic().to_device(LinkUse::kKvFetch) < 128;
      }
    });
  }
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(link.traffic().to_device(LinkUse::kKvFetch), 128 * kThreads * kCopies);
}

}  // namespace
}  // namespace turnbench
