#pragma once

#include <array>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "common/clock.h"
#include "inference/model/memory.h"

namespace turnbench {

/// The purpose of a transfer over the link, by which bytes are counted.
enum class LinkUse {
  kIndex,      ///< index data for the selection
  kKvFetch,    ///< keys and values that the next attention reads
  kCacheFill,  ///< keys and values for the device cache of later steps
  kPrefill,    ///< keys and values of earlier turns that a prefill reads
  kWriteback,  ///< keys and values of new tokens
};
constexpr std::size_t kLinkUses = 5;
enum class LinkDirection { kToDevice, kToHost };

/// The transfers over a link so far.
struct LinkTraffic {
  std::array<std::int64_t, kLinkUses> to_device_bytes = {}, to_host_bytes = {};  ///< by LinkUse
  double measured_seconds = 0;   ///< time in which copies ran
  double throttled_seconds = 0;  ///< time added for a slower link (see HostLink::Options)

  LinkTraffic& operator+=(const LinkTraffic& other);
  std::int64_t to_device(LinkUse use) const {
    return to_device_bytes[static_cast<std::size_t>(use)];
  }
  std::int64_t to_host(LinkUse use) const { return to_host_bytes[static_cast<std::size_t>(use)]; }
};

/// Runs copies between host and device memory concurrently with the computation, and counts their
/// bytes; they are counted nowhere else.  Copies run in the order of `submit`.  Thread-safe.
class Link {
 public:
  /// Number of a submission, ascending from 1.
  using Ticket = std::uint64_t;

  virtual ~Link() = default;
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;

  /// Starts copies, ordered after all operations issued to the backend so far.  Memory must stay
  /// valid, sources unchanged and destinations untouched until `wait` has returned for the ticket.
  /// Copies of one submission must not overlap.  Their bytes are counted on submission, so the
  /// counts do not depend on timing; they are also added to `account` if it is not null.
  /// @throws Error (runtime) for a null address.
  Ticket submit(std::span<const Copy> copies, LinkDirection direction, LinkUse use,
                std::int64_t* account = nullptr);

  /// Returns when later operations of the backend are guaranteed to see the copies of `ticket` and
  /// of all earlier tickets.  Ticket 0: immediately.
  /// @throws Error (runtime) for an unknown ticket.  Rethrows the error of the first failed
  /// submission if it is among these.  After a failure, later copies do not run.
  virtual void wait(Ticket ticket) = 0;
  /// Returns when the host sees the results of all copies so far.  @throws as `wait`.
  virtual void synchronize() = 0;

  /// Bytes of all submissions so far, and times of the completed copies.
  LinkTraffic traffic() const;

 protected:
  Link() = default;
  /// Starts copies.  Called in ticket order, by one thread at a time.
  virtual void start(Ticket ticket, std::vector<Copy> copies) = 0;
  /// Adds the time of completed copies.
  void add_seconds(double measured, double throttled);

 private:
  std::mutex order_;  // locked from the creation of a ticket until its copies have started
  mutable std::mutex traffic_mutex_;
  Ticket given_ = 0;
  LinkTraffic traffic_;
};

/// A Link whose copies run in order with the operations of a backend.
class OrderedLink : public Link {
 public:
  explicit OrderedLink(std::shared_ptr<Memory> memory) : memory_(std::move(memory)) {}
  void wait(Ticket) override {}
  void synchronize() override { memory_->synchronize(); }

 private:
  void start(Ticket, std::vector<Copy> copies) override { memory_->copy(copies); }

  std::shared_ptr<Memory> memory_;
};

/// A Link for a backend in host memory, with one copy thread.
class HostLink : public Link {
 public:
  struct Options {
    /// Bandwidth of the simulated link in 1e9 bytes/s; 0: no simulation.  Faster copies are delayed
    /// until the simulated link would have completed them.  It transfers one submission at a time,
    /// starting when it is submitted or when the previous one has ended, whichever is later.
    double gbps = 0;
  };

  /// memory: performs the copies.
  /// @throws Error (input) for a bandwidth below 0.001 that is not 0.
  explicit HostLink(Options options, std::shared_ptr<Memory> memory = host_memory());
  HostLink() : HostLink(Options{}) {}
  /// Runs the remaining copies without delays.  Their errors are lost.
  ~HostLink() override;

  void wait(Ticket ticket) override;
  void synchronize() override;

 private:
  struct Job {
    std::vector<Copy> copies;
    Clock::time_point submitted;
  };

  void start(Ticket ticket, std::vector<Copy> copies) override;
  void work();
  /// Runs the copies, then waits as long as the simulated link would take.
  void run(const Job& job);

  Options options_;
  std::shared_ptr<Memory> memory_;
  Clock::time_point free_at_{};  // when the simulated link becomes idle; of the copy thread
  std::mutex mutex_;
  std::condition_variable wake_, done_;
  std::deque<Job> jobs_;
  Ticket submitted_ = 0, ended_ = 0;
  Ticket failed_ = 0;  // first submission whose copies failed; 0: none
  std::exception_ptr error_;
  bool stop_ = false;
  std::thread thread_;
};

/// The link of a backend with `memory`; gbps: as HostLink::Options.
/// @throws Error (input) if the backend's link cannot be slowed down.
std::shared_ptr<Link> make_link(const std::shared_ptr<Memory>& memory, double gbps);

}  // namespace turnbench
