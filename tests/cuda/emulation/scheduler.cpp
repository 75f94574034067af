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
#include "thread_order.h"

uint3 threadIdx, blockIdx;
dim3 blockDim, gridDim;

namespace emulation {

/// The lanes of one mask of a warp that wait for a collective.  Two exchanges alternate: a lane
/// reaches the collective after the next one only when all lanes have left the current one.
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
  bool arrived;
};

struct Thread;

struct Warp {
  int number = 0;
  Mask exists = 0, exited = 0;
  Mask in_meeting = 0;  ///< by lane
  Mask runnable = 0;    ///< by place in the order
  Thread* order[kLanes] = {};
  std::vector<std::unique_ptr<Meeting>> meetings;
  std::size_t used_meetings = 0;
};

struct Thread {
  explicit Thread(int number) : fiber(number) {}
  Fiber fiber;
  Warp* warp = nullptr;
  int lane = 0, place = 0;  ///< place: in the order of the warp's lanes
  uint3 index = {};
  int groups = 0;
  std::vector<Copy> copies;
};

struct Deleter {
  void operator()(std::byte* data) const {
    operator delete[](data, std::align_val_t{kSharedAlignment});
  }
  static constexpr std::size_t kSharedAlignment = 128;
};

/// The resources of a block.  For the thread sanitizer, a block's threads continue as those of the
/// next block of the same multiprocessor; blocks of different multiprocessors are unordered.
struct Multiprocessor {
  std::unique_ptr<std::byte[], Deleter> shared;
  Warp warp_pool[kLanes];
  std::vector<std::unique_ptr<Thread>> thread_pool;
  // Addresses with which the thread sanitizer is informed of order.  Two of each kind alternate, so
  // that none is used for the next barrier or block while threads still leave the last one.
  char barriers[2] = {}, exits[2] = {};
  int barrier = 0, block = 0;  ///< index of the current address
};
#ifdef EMULATION_THREAD_SANITIZER
constexpr int kMultiprocessors = 2;
#else
constexpr int kMultiprocessors = 1;
#endif

struct Card {
  std::mutex mutex;  ///< one grid at a time
  Order order = Order::kForward;
  std::mt19937_64 random;

  const Body* body = nullptr;
  std::size_t shared_size = 0;
  int threads = 0, warps = 0;
  int exited = 0, at_barrier = 0;
  Place where;  ///< of the barrier
  int warp_order[kLanes] = {}, warp_place[kLanes] = {};
  Multiprocessor multiprocessors[kMultiprocessors];
  char launch = 0;  ///< the address with which the thread sanitizer orders launches
};

Card c;
Multiprocessor* sm = nullptr;  ///< the multiprocessor of the running block
Thread* running = nullptr;
Fiber* host = nullptr;

Mask bit(int i) {
  return Mask{1} << i;
}

/// order[i]: the i-th of `count` in the current order.
void fill_order(int* order, int count) {
  for (int i = 0; i < count; ++i) order[i] = c.order == Order::kBackward ? count - 1 - i : i;
  if (c.order == Order::kShuffled) std::shuffle(order, order + count, c.random);
}

bool early() {
  if (c.order != Order::kShuffled) return c.order == Order::kBackward;
  const Unseen unseen;
  return (c.random() & 1) != 0;
}

void switch_to(Thread& next) {
  Thread& from = *running;
  running = &next;
  threadIdx = next.index;
  from.fiber.switch_to(next.fiber);
}

/// The first runnable lane from `place` on, otherwise from the start; there is one.
Thread& next_in_warp(const Warp& w, int place) {
  const Mask ahead = w.runnable >> place << place;
  return *w.order[std::countr_zero(ahead != 0 ? ahead : w.runnable)];
}

/// The first runnable lane in a warp after `w`, which has none.
Thread& next_in_block(const Warp& w) {
  for (std::size_t i = 0; w.in_meeting != 0 && i < w.used_meetings; ++i) {
    if (w.meetings[i]->waiting == 0) continue;
    fail("a collective of a warp is not reached by all lanes of its mask", w.meetings[i]->where);
  }
  for (int i = 1; i < c.warps; ++i) {
    const Warp& other = sm->warp_pool[c.warp_order[(c.warp_place[w.number] + i) % c.warps]];
    if (other.runnable != 0) return next_in_warp(other, 0);
  }
  fail("a barrier is not reached by all threads of the block", c.where);
}

/// Switches to another thread; the running thread cannot continue.
void leave() {
  const Warp& w = *running->warp;
  switch_to(w.runnable != 0 ? next_in_warp(w, running->place) : next_in_block(w));
}

/// Makes all waiting threads runnable.
void release(Meeting& m, Warp& w) {
  if (m.waiting == w.exists) {
    w.runnable = m.waiting;
  } else {
    for (int place = 0; place < kLanes && bit(place) <= w.exists; ++place) {
      if ((m.waiting & bit(w.order[place]->lane)) != 0) w.runnable |= bit(place);
    }
  }
  w.in_meeting &= ~m.waiting;
  m.waiting = 0;
  m.turn ^= 1;
}

[[noreturn]] void exit_thread() {
  happens_before(&sm->exits[sm->block]);
  Warp& w = *running->warp;
  w.exited |= bit(running->lane);
  w.runnable &= ~bit(running->place);
  for (std::size_t i = 0; i < w.used_meetings; ++i) {
    Meeting& m = *w.meetings[i];
    if (m.waiting == 0 || (m.mask & bit(running->lane)) == 0) continue;
    if (m.whole) fail("a thread exits although its warp waits for it", m.where);
    if (m.waiting == (m.mask & w.exists & ~w.exited)) release(m, w);
  }
  if (++c.exited < c.threads) {
    leave();
  } else {
    running->fiber.switch_to(*host);
  }
  std::abort();  // no switch goes to a thread that has exited
}

void thread_main() {
  happens_after(&c.launch);
  happens_after(&sm->exits[sm->block ^ 1]);
  (*c.body)();
  exit_thread();
}

void run_block() {
  c.exited = c.at_barrier = 0;
  if (c.shared_size > 0) {
    const Unseen unseen;
    std::memset(sm->shared.get(), 0xFF, c.shared_size);
  }
  fill_order(c.warp_order, c.warps);
  for (int i = 0; i < c.warps; ++i) {
    c.warp_place[c.warp_order[i]] = i;
    Warp& w = sm->warp_pool[i];
    w.number = i;
    const int lanes = std::min(kLanes, c.threads - i * kLanes);
    w.exists = w.runnable = kFullMask >> (kLanes - lanes);
    w.exited = w.in_meeting = 0;
    w.used_meetings = 0;
    int order[kLanes];
    fill_order(order, lanes);
    for (int place = 0; place < lanes; ++place) {
      w.order[place] = sm->thread_pool[i * kLanes + order[place]].get();
      w.order[place]->warp = &w;
      w.order[place]->lane = order[place];
      w.order[place]->place = place;
    }
  }
  for (int i = 0; i < c.threads; ++i) {
    Thread& t = *sm->thread_pool[i];
    const auto n = static_cast<unsigned>(i);
    t.index = {n % blockDim.x, n / blockDim.x % blockDim.y, n / (blockDim.x * blockDim.y)};
    t.groups = 0;
    t.copies.clear();
    t.fiber.start(thread_main);
  }
  Fiber here;
  host = &here;
  running = sm->warp_pool[c.warp_order[0]].order[0];
  threadIdx = running->index;
  here.enter(running->fiber);
}

}  // namespace

void set_order(Order order, std::uint64_t seed) {
  const std::lock_guard lock(c.mutex);
  c.order = order;
  c.random.seed(seed);
}

bool is_early() {
  const std::lock_guard lock(c.mutex);
  return early();
}

void fail(const char* what, const Place& where) {
  std::fprintf(stderr,
               "CUDA emulation: %s:%d: %s; block (%u, %u, %u), thread (%u, %u, %u); of %d threads "
               "%d wait at a barrier and %d have exited\n",
               where.file, where.line, what, blockIdx.x, blockIdx.y, blockIdx.z, threadIdx.x,
               threadIdx.y, threadIdx.z, c.threads, c.at_barrier, c.exited);
  std::abort();
}

namespace {

/// Assigns the threads of a block, whose fibers start at number `first`, and its shared memory to a
/// multiprocessor.
void prepare(Multiprocessor& each, int first) {
  each.shared.reset(new (std::align_val_t{Deleter::kSharedAlignment}) std::byte[c.shared_size]);
  auto& threads = each.thread_pool;
  while (threads.size() < static_cast<std::size_t>(c.threads)) {
    threads.push_back(std::make_unique<Thread>(first + static_cast<int>(threads.size())));
  }
}

}  // namespace

void run_grid(dim3 grid, dim3 block, std::size_t shared_size, const Body& body) {
  const std::lock_guard lock(c.mutex);
  c.body = &body;
  gridDim = grid;
  blockDim = block;
  c.threads = static_cast<int>(block.x * block.y * block.z);
  c.warps = (c.threads + kLanes - 1) / kLanes;
  c.shared_size = shared_size;
  const std::size_t blocks = std::size_t{grid.x} * grid.y * grid.z;
  prepare(c.multiprocessors[0], 0);
  for (int i = 1; blocks > 1 && i < kMultiprocessors; ++i)
    prepare(c.multiprocessors[i], i * kMaxThreads);
  happens_before(&c.launch);
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
    // In such a sequence, some blocks at every distance are on different multiprocessors.
    sm = &c.multiprocessors[std::popcount(i) % kMultiprocessors];
    sm->block ^= 1;
    run_block();
  }
  for (Multiprocessor& each : c.multiprocessors) {
    for (const char& exits : each.exits) happens_after(&exits);
    each.shared.reset();
  }
}

int lane() {
  return running->lane;
}

namespace {

Meeting& meeting_of(Warp& w, Mask mask) {
  for (std::size_t i = 0; i < w.used_meetings; ++i) {
    if (w.meetings[i]->mask == mask) return *w.meetings[i];
  }
  const Unseen unseen;
  if (w.meetings.size() == w.used_meetings) w.meetings.push_back(std::make_unique<Meeting>());
  Meeting& m = *w.meetings[w.used_meetings++];
  m.mask = mask;
  m.waiting = 0;
  return m;
}

[[noreturn]] void fail_apart(const char* what, const Place& here, const Place& others) {
  std::fprintf(stderr, "CUDA emulation: %s:%d: others wait here\n", others.file, others.line);
  fail(what, here);
}

}  // namespace

Arrival arrive(Mask mask, bool whole, const Place& where) {
  Warp& w = *running->warp;
  const Mask mine = bit(running->lane);
  if ((mask & mine) == 0) fail("a lane is not in its own mask", where);
  if (whole && (w.exists & ~w.exited) != kFullMask) {
    fail("an instruction of the whole warp, lanes of which do not exist or have exited", where);
  }
  Meeting& m = meeting_of(w, mask);
  Exchange& e = m.exchanges[m.turn];
  if (m.waiting == 0) {
    m.where = where;
    m.whole = whole;
    e.present = e.votes = 0;
  } else if (m.where.line != where.line) {
    fail_apart("lanes of one mask meet in different collectives", where, m.where);
  }
  e.present |= mine;
  m.waiting |= mine;
  return {&m, &e, m.waiting == (mask & w.exists & ~w.exited)};
}

void complete(const Arrival& arrival) {
  Warp& w = *running->warp;
  if (!arrival.last) {
    w.runnable &= ~bit(running->place);
    w.in_meeting |= bit(running->lane);
    leave();
    return;
  }
  // All continue in order, from the first.
  release(*arrival.meeting, w);
  Thread& first = next_in_warp(w, 0);
  if (&first != running) switch_to(first);
}

namespace {

void wait_for_all(const Place& where) {
  if (c.at_barrier == 0) {
    c.where = where;
  } else if (c.where.line != where.line) {
    fail_apart("threads of a block wait at different barriers", where, c.where);
  }
  running->warp->runnable &= ~bit(running->place);
  if (++c.at_barrier < c.threads) {
    leave();
    return;
  }
  c.at_barrier = 0;
  sm->barrier ^= 1;
  for (int i = 0; i < c.warps; ++i) sm->warp_pool[i].runnable = sm->warp_pool[i].exists;
  Thread& first = next_in_warp(sm->warp_pool[c.warp_order[0]], 0);
  if (&first != running) switch_to(first);
}

}  // namespace

void barrier(const Place& where) {
  const char* const turn = &sm->barriers[sm->barrier];
  happens_before(turn);
  wait_for_all(where);
  happens_after(turn);
}

std::byte* shared_bytes() {
  return sm->shared.get();
}

bool is_shared(const void* data, std::size_t bytes) {
  const auto begin = reinterpret_cast<std::uintptr_t>(sm->shared.get());
  const auto at = reinterpret_cast<std::uintptr_t>(data);
  return at >= begin && at - begin + bytes <= c.shared_size;
}

void start_copy(void* to, const void* from) {
  const bool arrives = early();
  if (arrives) {
    copy_16(to, from);
  } else {
    see_copy(to, from);
  }
  const Unseen unseen;
  running->copies.push_back({to, from, running->groups, arrives});
}

void end_group() {
  ++running->groups;
}

void wait_for_groups(int pending) {
  auto& copies = running->copies;
  auto it = copies.begin();
  for (; it != copies.end() && it->group < running->groups - pending; ++it) {
    if (it->arrived) {
      see_copy(it->to, it->from);
    } else {
      copy_16(it->to, it->from);
    }
  }
  copies.erase(copies.begin(), it);
}

}  // namespace emulation
