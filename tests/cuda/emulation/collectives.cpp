#include "scheduler.h"
#include "thread_order.h"

namespace emulation {

std::uint64_t shuffle(Mask mask, std::uint64_t bits, int source, const Place& where) {
  const Exchange& e = meet(
      mask, false, where, [&](Exchange& mine) { mine.values[lane()] = bits; }, [](Exchange&) {});
  return (e.present >> source & 1) != 0 ? e.values[source] : ~std::uint64_t{0};
}

Mask vote(Mask mask, bool predicate, const Place& where) {
  return meet(
             mask, false, where,
             [&](Exchange& e) { e.votes |= static_cast<Mask>(predicate) << lane(); },
             [](Exchange&) {})
      .votes;
}

void sync_lanes(Mask mask, const Place& where) {
  const Arrival arrival = arrive(mask, false, where);
  happens_before(arrival.exchange);
  complete(arrival);
  happens_after(arrival.exchange);
}

}  // namespace emulation
