#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <map>
#include <mutex>
#include <optional>
#include <string>

#include "harness/store/provenance.h"
#include "harness/store/sqlite.h"

namespace turnbench {

/// The time for which a claim holds unless it is renewed.
constexpr std::chrono::seconds kLease{60};

/// This process: "HOST PID START", where START is the time since boot at which it started.
std::string this_process();

/// True if a process of this machine, named as by `this_process`, has ended.  False for a process
/// of another machine.
bool has_ended(const std::string& process);

/// Claims on the units of a store, by which the processes that run on it share its work.  A claim
/// has a lease: other processes may claim the unit when the lease has expired, or at once if the
/// owner was a process of this machine and has ended.  Thread-safe; has its own connection to the
/// store.
class Claims {
 public:
  /// Deletes claims that are void.  `owner`: as by `this_process`.
  explicit Claims(const std::filesystem::path& store, std::chrono::milliseconds lease = kLease,
                  std::string owner = this_process());
  /// Releases all claims.
  ~Claims();
  Claims(const Claims&) = delete;
  Claims& operator=(const Claims&) = delete;

  /// Claims a unit by its key.  Returns false if another process has it.
  bool claim(const std::string& unit);
  void release(const std::string& unit);
  /// Renews the leases, if a third of their time has passed since the last call.
  void renew();

  /// True if the store has all `turns` of a dialogue in a cell, computed by the sources of this
  /// program.  `method`: the cell's canonical method.
  bool has_results(const std::string& cell, const std::string& method, const std::string& dialogue,
                   std::size_t turns);

 private:
  std::int64_t expiry() const;
  const SourceHashes& sources_in(const std::string& environment);

  std::mutex mutex_;
  Database db_;
  /// Prepared once, because preparing a statement takes longer than its execution.
  struct Statements {
    explicit Statements(const Database& db);
    Statement other, claim, release, results;
  };
  std::optional<Statements> statements_;
  const std::chrono::milliseconds lease_;
  const std::string owner_;
  const SourceHashes now_ = source_state().hashes;
  std::chrono::steady_clock::time_point renewed_ = std::chrono::steady_clock::now();
  std::map<std::string, SourceHashes> known_sources_;  // by environment
};

}  // namespace turnbench
