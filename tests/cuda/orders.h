#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <optional>
#include <type_traits>
#include <vector>

#include "inference/cuda/context.h"

namespace turnbench::test {

template <typename T>
bool same_bits(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0);
}

#ifdef TURNBENCH_EMULATED
/// An order in which the emulated GPU runs threads and streams.
struct ThreadOrder {
  const char* name;
  emulation::Order order;
  std::uint64_t seed;
};
constexpr ThreadOrder kOrders[] = {{"forward", emulation::Order::kForward, 0},
                                   {"backward", emulation::Order::kBackward, 0},
                                   {"shuffled", emulation::Order::kShuffled, 1},
                                   {"shuffled again", emulation::Order::kShuffled, 2}};
#endif

/// Calls run() in every order that a GPU may use; on a real GPU, twice in the order that occurs.
/// If run() returns a vector, its bits must be the same in each order; this vector is returned.
template <typename Run>
auto in_every_order(const Run& run) {
  using Result = decltype(run());
  const auto each = [](const auto& body) {
#ifndef TURNBENCH_EMULATED
    body();
    body();
#else
    for (const auto& [name, order, seed] : kOrders) {
      SCOPED_TRACE(name);
      emulation::set_order(order, seed);
      body();
    }
    emulation::set_order(emulation::Order::kForward);
#endif
  };
  if constexpr (std::is_void_v<Result>) {
    each(run);
  } else {
    std::optional<Result> first;
    each([&] {
      Result result = run();
      if (!first) first = result;
      EXPECT_TRUE(same_bits(*first, result)) << "depends on the order of threads or streams";
    });
    return *first;
  }
}

}  // namespace turnbench::test
