#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <mutex>
#include <string>

#include "harness/store/store.h"
#include "reports/store_version.h"

namespace turnbench {

/// Reports of a store that may be written at the same time.  Thread-safe.
class LiveReport {
 public:
  /// Reports are made again after this time at the earliest, and not before this multiple of the
  /// time that it took: a page that follows a run must not slow it down.
  static constexpr std::chrono::milliseconds kLeastInterval{2000};
  static constexpr int kIntervalPerTime = 9;

  /// @throws Error (input) if the file is not a store
  explicit LiveReport(const std::string& path);

  /// A text that changes with the store.
  std::string version();
  /// The page of all experiments.  It asks `status` for the version of the store, and offers to
  /// load the page of a newer one.
  std::string page();
  /// {"version", "experiments"}: the version, and the status of all experiments, which may be
  /// older.
  std::string status();
  /// The JSON report of an experiment; of the latest if `experiment` is empty.
  /// @throws Error (input) for unknown experiments
  std::string report(const std::string& experiment);

 private:
  struct Made {
    std::string text, version;
    std::chrono::steady_clock::time_point next;  ///< the earliest time to make it again
  };
  /// The report with this name, made at most once for each version and interval.
  std::string made(const std::string& name,
                   const std::function<std::string(const Store&, const std::string&)>& make);

  std::mutex mutex_;
  std::string path_;
  StoreVersion version_;
  std::map<std::string, Made> made_;
};

}  // namespace turnbench
