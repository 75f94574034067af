#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "runners/progress.h"

namespace turnbench {

/// The progress of a run on a terminal, redrawn in place: the progress line, and below it the means
/// so far, read from the store by a thread of its own.  Prints nothing if stderr is not a terminal.
class RunDisplay {
 public:
  struct Settings {
    std::string store, experiment;
    bool quiet = false;
    bool with_table = true;  ///< not if times are measured, or if reading the store blocks writing
    std::function<bool()> is_stopping;  ///< true once a signal was received
  };
  explicit RunDisplay(Settings settings);
  ~RunDisplay();  ///< erases what it has drawn
  RunDisplay(const RunDisplay&) = delete;
  RunDisplay& operator=(const RunDisplay&) = delete;
  void show(const Progress& progress);

 private:
  void refresh();
  void draw();                ///< under the lock
  void drop_after_message();  ///< under the lock

  const Settings settings_;
  const bool visible_;
  std::mutex mutex_;
  std::condition_variable end_;
  bool ended_ = false, has_new_results_ = false, was_stopping_ = false;
  Progress progress_;
  std::vector<std::string> table_;
  std::size_t drawn_ = 0;  ///< lines on the screen
  std::chrono::steady_clock::time_point last_;
  std::thread thread_;
};

}  // namespace turnbench
