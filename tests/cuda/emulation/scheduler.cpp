#include "scheduler.h"

#include <algorithm>
#include <bit>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <new>
#include <random>
#include <vector>

#include "fiber.h"

uint3 threadIdx, blockIdx;
dim3 blockDim, gridDim;

namespace emulation {

/// The lanes of one mask of a warp on their way to a collective.  Two exchanges take turns: a lane
/// comes to the next collective but one only when all have left this one.
struct Meeting {
  Mask mask = 0, waiting = 0;
  bool whole = false;
  Place where;
  int turn = 0;
  Exchange exchanges[2];
};

namespace {

constexpr int kLanes = 32, kMaxThreads = 1024;

struct Copy {
  void* to;
  const void* from;
  int group;
};

struct Warp {
  Mask exists = 0, exited = 0;
  Mask in_meeting = 0;  ///< by lane
  Mask runnable = 0;    ///< by the lane's place in the order
  int order[kLanes] = {}, place_of[kLanes] = {};
  std::vector<std::unique_ptr<Meeting>> meetings;
  int used_meetings = 0;
};

struct Thread {
  explicit Thread(std::size_t stagger) : fiber(stagger) {}
  Fiber fiber;
  uint3 index = {};
  int lane = 0, warp = 0;
  int groups = 0;
  std::vector<Copy> copies;
};

struct Deleter {
  void operator()(std::byte* data) const {
    operator delete[](data, std::align_val_t{kSharedAlignment});
  }
  static constexpr std::size_t kSharedAlignment = 128;
};

struct Card {
  std::mutex mutex;  ///< one grid at a time
  Order order = Order::kForward;
  std::mt19937_64 random;

  const Body* body = nullptr;
  std::unique_ptr<std::byte[], Deleter> shared;
  std::size_t shared_size = 0;
  int threads = 0, warps = 0;
  int exited = 0, at_barrier = 0;
  Place where;  ///< of the barrier
  int warp_order[kLanes] = {}, warp_place[kLanes] = {};
  std::vector<std::unique_ptr<Thread>> pool;
  Warp warp_pool[kLanes];
  Fiber* left = nullptr;  ///< the fiber that was switched from
};

Card& card() {
  static Card one;
  return one;
}

Card& c = card();
Thread* running = nullptr;
Fiber* host = nullptr;

Thread& thread_of(int warp, int lane) {
  return *c.pool[static_cast<std::size_t>(warp * kLanes + lane)];
}

void fill_order(int* order, int* place_of, int count) {
  for (int i = 0; i < count; ++i) order[i] = c.order == Order::kBackward ? count - 1 - i : i;
  if (c.order == Order::kShuffled) std::shuffle(order, order + count, c.random);
  for (int i = 0; i < count; ++i) place_of[order[i]] = i;
}

void switch_to(Thread& next, bool done) {
  Thread& from = *running;
  running = &next;
  threadIdx = next.index;
  c.left = &from.fiber;
  from.fiber.switch_to(next.fiber, done);
}

/// The first lane that can run, of `warp` from place `from` on, or else of another warp.
Thread* next_thread(int warp, int from) {
  Warp& w = c.warp_pool[warp];
  if (w.runnable != 0) {
    const Mask ahead = from >= kLanes ? 0 : w.runnable & (kFullMask << from);
    return &thread_of(warp, w.order[std::countr_zero(ahead != 0 ? ahead : w.runnable)]);
  }
  if (w.in_meeting != 0) {
    for (const auto& m : w.meetings) {
      if (m->waiting != 0) {
        fail("a collective of a warp is not reached by all lanes of its mask", m->where);
      }
    }
  }
  for (int i = 1; i < c.warps; ++i) {
    const int other = c.warp_order[(c.warp_place[warp] + i) % c.warps];
    Warp& o = c.warp_pool[other];
    if (o.runnable != 0) return &thread_of(other, o.order[std::countr_zero(o.runnable)]);
  }
  return nullptr;
}

void leave(bool done) {
  Thread* next = next_thread(running->warp, c.warp_pool[running->warp].place_of[running->lane] + 1);
  if (next == nullptr) fail("a barrier is not reached by all threads of the block", c.where);
  switch_to(*next, done);
}

/// Lets all that wait go on, in order, from the first.
void release(Meeting& m, Warp& w) {
  for (Mask left = m.waiting; left != 0; left &= left - 1) {
    w.runnable |= Mask{1} << w.place_of[std::countr_zero(left)];
  }
  w.in_meeting &= ~m.waiting;
  m.waiting = 0;
  m.turn ^= 1;
}

[[noreturn]] void exit_thread() {
  Warp& w = c.warp_pool[running->warp];
  const Mask bit = Mask{1} << running->lane;
  w.exited |= bit;
  w.runnable &= ~(Mask{1} << w.place_of[running->lane]);
  ++c.exited;
  for (int i = 0; i < w.used_meetings; ++i) {
    Meeting& m = *w.meetings[static_cast<std::size_t>(i)];
    if (m.waiting == 0 || (m.mask & bit) == 0) continue;
    if (m.whole) fail("a thread exits although its warp waits for it", m.where);
    if (m.waiting == (m.mask & w.exists & ~w.exited)) release(m, w);
  }
  if (c.exited == c.threads) {
    Thread& from = *running;
    running = nullptr;
    from.fiber.switch_to(*host, true);
  } else {
    leave(true);
  }
  std::abort();
}

void thread_main() {
  running->fiber.entered(*c.left);
  (*c.body)();
  exit_thread();
}

void run_block() {
  c.exited = c.at_barrier = 0;
  if (c.shared_size > 0) std::memset(c.shared.get(), 0xFF, c.shared_size);
  fill_order(c.warp_order, c.warp_place, c.warps);
  for (int i = 0; i < c.warps; ++i) {
    Warp& w = c.warp_pool[i];
    const int lanes = std::min(kLanes, c.threads - i * kLanes);
    w.exists = lanes == kLanes ? kFullMask : (Mask{1} << lanes) - 1;
    w.exited = w.in_meeting = 0;
    w.runnable = w.exists;
    w.used_meetings = 0;
    fill_order(w.order, w.place_of, lanes);
  }
  for (int i = 0; i < c.threads; ++i) {
    Thread& t = *c.pool[static_cast<std::size_t>(i)];
    const auto n = static_cast<unsigned>(i);
    t.index = {n % blockDim.x, n / blockDim.x % blockDim.y, n / (blockDim.x * blockDim.y)};
    t.groups = 0;
    t.copies.clear();
    t.fiber.start(thread_main);
  }
  Fiber here;
  host = c.left = &here;
  const int first = c.warp_order[0];
  running = &thread_of(first, c.warp_pool[first].order[0]);
  threadIdx = running->index;
  here.switch_to(running->fiber, false);
}

}  // namespace

void set_order(Order order, std::uint64_t seed) {
  const std::lock_guard lock(c.mutex);
  c.order = order;
  c.random.seed(seed);
}

void fail(const char* what, Place where) {
  std::fprintf(stderr,
               "CUDA emulation: %s:%u: %s; block (%u, %u, %u), thread (%u, %u, %u); of %d threads "
               "%d wait at a barrier and %d have exited\n",
               where.file_name(), static_cast<unsigned>(where.line()), what, blockIdx.x, blockIdx.y,
               blockIdx.z, threadIdx.x, threadIdx.y, threadIdx.z, c.threads, c.at_barrier,
               c.exited);
  std::abort();
}

void run_grid(dim3 grid, dim3 block, std::size_t shared_size, const Body& body) {
  const std::lock_guard lock(c.mutex);
  c.body = &body;
  gridDim = grid;
  blockDim = block;
  c.threads = static_cast<int>(block.x * block.y * block.z);
  c.warps = (c.threads + kLanes - 1) / kLanes;
  c.shared_size = shared_size;
  c.shared.reset(new (std::align_val_t{Deleter::kSharedAlignment}) std::byte[shared_size]);
  while (c.pool.size() < static_cast<std::size_t>(c.threads)) {
    const std::size_t i = c.pool.size();
    c.pool.push_back(std::make_unique<Thread>(i % 61 * 192));
    c.pool.back()->lane = static_cast<int>(i) % kLanes;
    c.pool.back()->warp = static_cast<int>(i) / kLanes;
  }
  const std::size_t blocks = std::size_t{grid.x} * grid.y * grid.z;
  std::vector<std::uint32_t> order;
  if (c.order == Order::kShuffled) {
    order.resize(blocks);
    for (std::size_t i = 0; i < blocks; ++i) order[i] = static_cast<std::uint32_t>(i);
    std::shuffle(order.begin(), order.end(), c.random);
  }
  for (std::size_t i = 0; i < blocks; ++i) {
    const std::size_t n = c.order == Order::kForward    ? i
                          : c.order == Order::kBackward ? blocks - 1 - i
                                                        : order[i];
    blockIdx = {static_cast<unsigned>(n % grid.x), static_cast<unsigned>(n / grid.x % grid.y),
                static_cast<unsigned>(n / grid.x / grid.y)};
    run_block();
  }
  c.shared.reset();
}

int lane() {
  return running->lane;
}

Arrival arrive(Mask mask, bool whole, const Place& where) {
  Warp& w = c.warp_pool[running->warp];
  const Mask bit = Mask{1} << running->lane;
  if ((mask & bit) == 0) fail("a lane is not in its own mask", where);
  if (whole && (w.exists & ~w.exited) != kFullMask) {
    fail("an instruction of the whole warp, lanes of which do not exist or have exited", where);
  }
  Meeting* m = nullptr;
  for (int i = 0; i < w.used_meetings && m == nullptr; ++i) {
    if (w.meetings[static_cast<std::size_t>(i)]->mask == mask) {
      m = w.meetings[static_cast<std::size_t>(i)].get();
    }
  }
  if (m == nullptr) {
    if (w.meetings.size() == static_cast<std::size_t>(w.used_meetings)) {
      w.meetings.push_back(std::make_unique<Meeting>());
    }
    m = w.meetings[static_cast<std::size_t>(w.used_meetings++)].get();
    m->mask = mask;
    m->waiting = 0;
  }
  Exchange& e = m->exchanges[m->turn];
  if (m->waiting == 0) {
    m->where = where;
    m->whole = whole;
    e.present = e.votes = 0;
  } else if (m->where.line() != where.line() || m->where.column() != where.column()) {
    std::fprintf(stderr, "CUDA emulation: %s:%u: other lanes wait here\n", m->where.file_name(),
                 static_cast<unsigned>(m->where.line()));
    fail("lanes of one mask meet in different collectives", where);
  }
  e.present |= bit;
  m->waiting |= bit;
  return {m, &e, m->waiting == (mask & w.exists & ~w.exited)};
}

void complete(const Arrival& arrival) {
  Warp& w = c.warp_pool[running->warp];
  const Mask place = Mask{1} << w.place_of[running->lane];
  if (arrival.last) {
    release(*arrival.meeting, w);
    Thread* first = next_thread(running->warp, 0);
    if (first != running) switch_to(*first, false);
  } else {
    w.runnable &= ~place;
    w.in_meeting |= Mask{1} << running->lane;
    leave(false);
  }
}

void barrier(const Place& where) {
  if (c.at_barrier == 0) {
    c.where = where;
  } else if (c.where.line() != where.line() || c.where.column() != where.column()) {
    std::fprintf(stderr, "CUDA emulation: %s:%u: other threads wait here\n", c.where.file_name(),
                 static_cast<unsigned>(c.where.line()));
    fail("threads of a block wait at different barriers", where);
  }
  Warp& w = c.warp_pool[running->warp];
  w.runnable &= ~(Mask{1} << w.place_of[running->lane]);
  if (++c.at_barrier < c.threads) {
    leave(false);
    return;
  }
  c.at_barrier = 0;
  for (int i = 0; i < c.warps; ++i) c.warp_pool[i].runnable = c.warp_pool[i].exists;
  Thread* first = next_thread(c.warp_order[0], 0);
  if (first != running) switch_to(*first, false);
}

std::byte* shared_bytes() {
  return c.shared.get();
}

bool is_shared(const void* data, std::size_t bytes) {
  const auto begin = reinterpret_cast<std::uintptr_t>(c.shared.get());
  const auto at = reinterpret_cast<std::uintptr_t>(data);
  return at >= begin && at - begin + bytes <= c.shared_size;
}

namespace {

void copy_now(void* to, const void* from) {
  if (from == nullptr) {
    std::memset(to, 0, 16);
  } else {
    std::memcpy(to, from, 16);
  }
}

}  // namespace

void start_copy(void* to, const void* from) {
  if (c.order == Order::kBackward || (c.order == Order::kShuffled && (c.random() & 1) != 0)) {
    copy_now(to, from);
  } else {
    running->copies.push_back({to, from, running->groups});
  }
}

void end_group() {
  ++running->groups;
}

void wait_for_groups(int pending) {
  auto& copies = running->copies;
  auto it = copies.begin();
  for (; it != copies.end() && it->group < running->groups - pending; ++it) {
    copy_now(it->to, it->from);
  }
  copies.erase(copies.begin(), it);
}

}  // namespace emulation
