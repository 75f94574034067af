#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>

#include "vector_types.h"

/// A CUDA card on the host.  Blocks run one after the other; the threads of a block are fibers that
/// run one at a time, each until it waits at a barrier or in a collective of its warp.
namespace emulation {

/// In which order a block's warps and a warp's lanes run from one meeting point to the next, and
/// the blocks of a grid.  It also says when the bytes of asynchronous copies arrive: as late as a
/// wait allows (forward), at once (backward), or either at random (shuffled), and likewise when
/// streams run what they are asked.  The result of a right kernel does not depend on it, nor that
/// of a right use of streams.
enum class Order { kForward, kBackward, kShuffled };
/// For the launches from here on; `seed` is for the shuffled order.
void set_order(Order order, std::uint64_t seed = 1);

/// Whether what may happen now or later happens now; not for kernels to ask.
bool is_early();

/// A kernel with its arguments, as one thread runs it.
using Body = std::function<void()>;
void run_grid(dim3 grid, dim3 block, std::size_t shared_bytes, const Body& body);

/// A line of a kernel: the caller's, where it is a default argument.
struct Place {
  const char* file = "";
  int line = 0;
  static constexpr Place current(const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
    return {file, line};
  }
};

/// Tells what is wrong with the running kernel and aborts.
[[noreturn]] void fail(const char* what, const Place& where);

// ---- what device functions are made of ----

using Mask = std::uint32_t;
constexpr Mask kFullMask = 0xFFFFFFFF;

/// What the lanes that meet in a collective hand to each other.  The thread sanitizer must not see
/// accesses to it, which no collective but __syncwarp orders for it: only files that it does not
/// instrument have them.
struct alignas(64) Exchange {
  Mask present = 0;  ///< lanes that have come
  Mask votes = 0;
  std::uint64_t values[32];
  std::uint16_t a[16][16], b[16][8];  ///< factors of a product
  float product[16][8];
  std::uint32_t matrices[4][8][4];  ///< matrix, row, pair of columns
};

struct Meeting;
/// The running thread's part in a collective of the lanes in `mask`.
struct Arrival {
  Meeting* meeting;
  Exchange* exchange;
  bool last;
};

int lane();
/// Takes part in a collective.  Lanes that have exited count as absent, unless `whole`: then all 32
/// must come.
Arrival arrive(Mask mask, bool whole, const Place& where);
/// Returns when all have come.
void complete(const Arrival& arrival);

/// Lets the lanes in `mask` meet: each calls deposit(exchange), then the last one finish(exchange).
/// What is in the exchange may be read until this lane's next collective.
template <typename Deposit, typename Finish>
const Exchange& meet(Mask mask, bool whole, const Place& where, const Deposit& deposit,
                     const Finish& finish) {
  const Arrival arrival = arrive(mask, whole, where);
  deposit(*arrival.exchange);
  if (arrival.last) finish(*arrival.exchange);
  complete(arrival);
  return *arrival.exchange;
}

/// The `bits` of lane `source`; all bits set if it is absent.
std::uint64_t shuffle(Mask mask, std::uint64_t bits, int source, const Place& where);
/// The lanes whose predicate is true.
Mask vote(Mask mask, bool predicate, const Place& where);

/// A lane's elements of two factors, in pairs, and of their product.
struct Factors {
  std::uint32_t a[4], b[2];
};
struct Product {
  float d[4];
};
Product multiply_f16(const Factors& mine, const Place& where);
Product multiply_bf16(const Factors& mine, const Place& where);
/// Eight elements of 16 bits in pairs: the row of one of four matrices that a lane gives, and two
/// of each matrix that it gets.
struct Pairs {
  std::uint32_t words[4];
};
Pairs distribute(const Pairs& row, bool transposed, const Place& where);

/// Orders the memory accesses of the lanes in `mask`.  The other collectives do not.
void sync_lanes(Mask mask, const Place& where);
/// The barrier of the block; all of its threads must come, and to the same one.
void barrier(const Place& where);

std::byte* shared_bytes();
/// Whether `bytes` bytes at `data` are in the block's shared memory.
bool is_shared(const void* data, std::size_t bytes);

/// Copies of 16 bytes that arrive at the latest when their group is waited for; null: zeros.
void start_copy(void* to, const void* from);
void end_group();
void wait_for_groups(int pending);
/// Such a copy, as it arrives.
void copy_16(void* to, const void* from);

}  // namespace emulation
