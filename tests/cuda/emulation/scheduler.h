#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>

#include "vector_types.h"

/// A CUDA GPU on the host.  Blocks run one after the other; the threads of a block are fibers that
/// run one at a time, each until it waits at a barrier or in a collective of its warp.
namespace emulation {

/// The order in which a block's warps and a warp's lanes run between two synchronization points,
/// and the order of the blocks of a grid.  It also determines when the bytes of asynchronous copies
/// arrive: as late as a wait allows (forward), at once (backward), or either at random (shuffled);
/// the same for the operations of streams.  Correct kernels, and programs that use streams
/// correctly, have the same result in every order.
enum class Order { kForward, kBackward, kShuffled };
/// For all later launches; `seed` is for the shuffled order.
void set_order(Order order, std::uint64_t seed = 1);

/// Whether an operation that may happen now or later happens now; not for kernels.
bool is_early();

/// A kernel with its arguments, as run by one thread.
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

/// Prints the error of the running kernel and aborts.
[[noreturn]] void fail(const char* what, const Place& where);

// ---- what device functions are made of ----

using Mask = std::uint32_t;
constexpr Mask kFullMask = 0xFFFFFFFF;

/// The data that the lanes of a collective exchange.  The thread sanitizer must not see accesses to
/// it, because only __syncwarp orders them for the sanitizer: only files that are not instrumented
/// access it.
struct alignas(64) Exchange {
  Mask present = 0;  ///< lanes that have arrived
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
/// lanes must arrive.
Arrival arrive(Mask mask, bool whole, const Place& where);
/// Returns when all lanes have arrived.
void complete(const Arrival& arrival);

/// Synchronizes the lanes in `mask`: each calls deposit(exchange), then the last one calls
/// finish(exchange). The exchange can be read until the next collective of this lane.
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
/// Eight 16-bit elements in pairs: the row of one of four matrices that a lane provides, and two
/// elements of each matrix that it receives.
struct Pairs {
  std::uint32_t words[4];
};
Pairs distribute(const Pairs& row, bool transposed, const Place& where);

/// Orders the memory accesses of the lanes in `mask`.  The other collectives do not.
void sync_lanes(Mask mask, const Place& where);
/// The barrier of the block; all its threads must reach it, and the same one.
void barrier(const Place& where);

std::byte* shared_bytes();
/// Whether `bytes` bytes at `data` are in the block's shared memory.
bool is_shared(const void* data, std::size_t bytes);

/// Copies of 16 bytes that arrive at the latest when their group is waited for; null: zeros.
void start_copy(void* to, const void* from);
void end_group();
void wait_for_groups(int pending);
/// Performs such a copy.
void copy_16(void* to, const void* from);

}  // namespace emulation
