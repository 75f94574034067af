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

/// What crosses the link between host and device, for the counts of bytes.
enum class LinkUse {
  kIndex,      ///< data by which tokens are selected
  kKvFetch,    ///< keys and values that the coming attention reads
  kCacheFill,  ///< keys and values for the device cache of later steps
  kPrefill,    ///< keys and values of earlier turns that a prefill reads
  kWriteback,  ///< keys and values of new tokens
};
constexpr std::size_t kLinkUses = 5;
enum class LinkDirection { kToDevice, kToHost };

/// What crossed a link so far.
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

/// Copies between host and device memory beside the computation.  The one place where their bytes
/// are counted.  Copies run in the order of `submit`.  Several threads may call at once.
class Link {
 public:
  /// A submission, in ascending order from 1.
  using Ticket = std::uint64_t;

  virtual ~Link() = default;
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;

  /// Starts copies, after all operations that the backend was given so far.  Memory must stay
  /// valid, sources unchanged and destinations untouched until `wait` has returned for the ticket.
  /// Copies of one submission must not overlap.  Their bytes are counted here, so that the counts
  /// do not depend on time; they are also added to `account` if it is not null.
  /// @throws Error (runtime) for a null address.
  Ticket submit(std::span<const Copy> copies, LinkDirection direction, LinkUse use,
                std::int64_t* account = nullptr);

  /// Returns when operations that the backend is given from now on see the copies of `ticket` and
  /// of all earlier ones.  Ticket 0: at once.
  /// @throws Error (runtime) for a ticket that was never given, and the error of the first copies
  /// that failed, if they are among these.  Once copies have failed, later ones do not run.
  virtual void wait(Ticket ticket) = 0;
  /// Returns when all copies so far are complete for the host.  @throws as `wait`.
  virtual void synchronize() = 0;

  /// Bytes of all submissions so far; times of the copies that have ended.
  LinkTraffic traffic() const;

 protected:
  Link() = default;
  /// Starts copies.  Called in the order of tickets, by one thread at a time.
  virtual void start(Ticket ticket, std::vector<Copy> copies) = 0;
  /// Counts the time of copies that have ended.
  void add_seconds(double measured, double throttled);

 private:
  std::mutex order_;  // held from giving a ticket until its copies are started
  mutable std::mutex traffic_mutex_;
  Ticket given_ = 0;
  LinkTraffic traffic_;
};

/// A Link whose copies run between the operations of a backend, in their order.
class OrderedLink : public Link {
 public:
  explicit OrderedLink(std::shared_ptr<Memory> memory) : memory_(std::move(memory)) {}
  void wait(Ticket) override {}
  void synchronize() override { memory_->synchronize(); }

 private:
  void start(Ticket, std::vector<Copy> copies) override { memory_->copy(copies); }

  std::shared_ptr<Memory> memory_;
};

/// A Link for a backend in host memory: one thread that copies.
class HostLink : public Link {
 public:
  struct Options {
    /// Bandwidth of the link in 1e9 bytes/s, 0: that of the memory.  Copies that were faster end
    /// later, when that link would have ended them.  It carries one submission after the other,
    /// each from when it is submitted or the previous one has ended.
    double gbps = 0;
  };

  /// The copies are those of `memory`.
  /// @throws Error (input) for a bandwidth below 0.001 that is not 0.
  explicit HostLink(Options options, std::shared_ptr<Memory> memory = host_memory());
  HostLink() : HostLink(Options{}) {}
  /// Runs the copies that were submitted, without the time of a slower link.  Their errors are
  /// lost.
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
  /// Copies, and waits as long as a slower link would take.
  void run(const Job& job);

  Options options_;
  std::shared_ptr<Memory> memory_;
  Clock::time_point free_at_{};  // of the copy thread: when a slower link has ended its last job
  std::mutex mutex_;
  std::condition_variable wake_, done_;
  std::deque<Job> jobs_;
  Ticket submitted_ = 0, ended_ = 0;
  Ticket failed_ = 0;  // the first whose copies failed; 0: none
  std::exception_ptr error_;
  bool stop_ = false;
  std::thread thread_;
};

/// The link of a backend with `memory`; gbps: as HostLink::Options.
/// @throws Error (input) if the backend's link cannot be slowed down.
std::shared_ptr<Link> make_link(const std::shared_ptr<Memory>& memory, double gbps);

}  // namespace turnbench
