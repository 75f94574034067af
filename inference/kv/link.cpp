#include "inference/kv/link.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "common/error.h"

namespace turnbench {
namespace {

constexpr double kLeastBandwidth = 0.001;  // in 1e9 bytes/s: a page takes some tens of milliseconds

}  // namespace

Link::Ticket Link::submit(std::span<const Copy> copies, LinkDirection direction, LinkUse use,
                          std::int64_t* account) {
  std::vector<Copy> own;
  own.reserve(copies.size());
  std::int64_t bytes = 0;
  for (const Copy& c : copies) {
    if (c.bytes == 0) continue;
    if (c.to == nullptr || c.from == nullptr) {
      throw runtime_error("found a copy of {} bytes from or to a null address", c.bytes);
    }
    bytes += static_cast<std::int64_t>(c.bytes);
    own.push_back(c);
  }
  const std::lock_guard order(order_);
  start(given_ + 1, std::move(own));
  const std::lock_guard lock(traffic_mutex_);
  auto& counts =
      direction == LinkDirection::kToDevice ? traffic_.to_device_bytes : traffic_.to_host_bytes;
  counts[static_cast<std::size_t>(use)] += bytes;
  if (account != nullptr) *account += bytes;
  return ++given_;
}

LinkTraffic& LinkTraffic::operator+=(const LinkTraffic& other) {
  for (std::size_t use = 0; use < kLinkUses; ++use) {
    to_device_bytes[use] += other.to_device_bytes[use];
    to_host_bytes[use] += other.to_host_bytes[use];
  }
  measured_seconds += other.measured_seconds;
  throttled_seconds += other.throttled_seconds;
  return *this;
}

LinkTraffic Link::traffic() const {
  const std::lock_guard lock(traffic_mutex_);
  return traffic_;
}

void Link::add_seconds(double measured, double throttled) {
  const std::lock_guard lock(traffic_mutex_);
  traffic_.measured_seconds += measured;
  traffic_.throttled_seconds += throttled;
}

std::shared_ptr<Link> make_link(const std::shared_ptr<Memory>& memory, double gbps) {
  if (memory->is_host()) return std::make_shared<HostLink>(HostLink::Options{gbps}, memory);
  if (gbps != 0) throw input_error("found a link of {} GB/s, expected 0 on a card", gbps);
  return std::make_shared<OrderedLink>(memory);
}

HostLink::HostLink(Options options, std::shared_ptr<Memory> memory)
    : options_(options), memory_(std::move(memory)) {
  if (options_.gbps != 0 && !(std::isfinite(options_.gbps) && options_.gbps >= kLeastBandwidth)) {
    throw input_error("found a link of {} GB/s, expected 0 or at least {}", options_.gbps,
                      kLeastBandwidth);
  }
}

HostLink::~HostLink() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void HostLink::start(Ticket ticket, std::vector<Copy> copies) {
  {
    const std::lock_guard lock(mutex_);
    jobs_.push_back({std::move(copies), Clock::now()});
    submitted_ = ticket;
    if (!thread_.joinable()) thread_ = std::thread([this] { work(); });
  }
  wake_.notify_all();
}

void HostLink::wait(Ticket ticket) {
  std::unique_lock lock(mutex_);
  if (ticket > submitted_) {
    throw runtime_error("found ticket {} of a link, expected at most {}", ticket, submitted_);
  }
  done_.wait(lock, [&] { return ended_ >= ticket; });
  if (failed_ != 0 && failed_ <= ticket) std::rethrow_exception(error_);
}

void HostLink::synchronize() {
  Ticket last = 0;
  {
    const std::lock_guard lock(mutex_);
    last = submitted_;
  }
  wait(last);
}

void HostLink::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    wake_.wait(lock, [&] { return stop_ || !jobs_.empty(); });
    if (jobs_.empty()) return;
    const Job job = std::move(jobs_.front());
    jobs_.pop_front();
    const bool works = failed_ == 0;
    std::exception_ptr error;
    lock.unlock();
    try {
      if (works && !job.copies.empty()) run(job);
    } catch (...) {
      error = std::current_exception();
    }
    lock.lock();
    ++ended_;
    if (error != nullptr) {
      error_ = error;
      failed_ = ended_;
    }
    done_.notify_all();
  }
}

void HostLink::run(const Job& job) {
  const auto begin = Clock::now();
  memory_->copy(job.copies);
  memory_->synchronize();
  const auto end = Clock::now();
  const double measured = std::chrono::duration<double>(end - begin).count();
  double throttled = 0;
  if (options_.gbps > 0) {
    double bytes = 0;
    for (const Copy& c : job.copies) bytes += static_cast<double>(c.bytes);
    const auto takes = std::chrono::duration_cast<Clock::duration>(
        std::chrono::duration<double>(bytes / (options_.gbps * 1e9)));
    // Starts at the end of the previous job, not at the current time: the thread may have slept
    // longer than requested.
    free_at_ = std::max(std::max(free_at_, job.submitted) + takes, end);
    if (free_at_ > end) {
      std::unique_lock lock(mutex_);
      wake_.wait_until(lock, free_at_, [&] { return stop_; });
      throttled = seconds_since(end);
    }
  }
  add_seconds(measured, throttled);
}

}  // namespace turnbench
