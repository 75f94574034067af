#include "cli/run_display.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "common/error.h"
#include "harness/store/store.h"
#include "reports/live_table.h"

namespace turnbench {
namespace {

using SteadyClock = std::chrono::steady_clock;

constexpr auto kRedraw = std::chrono::milliseconds(100);
constexpr auto kLeastRefresh = std::chrono::seconds(1);
/// The table takes at most this part of the time of one processor.
constexpr int kTableShare = 400;
/// Lines of the terminal that the table leaves to the lines before.
constexpr std::size_t kFreeRows = 6;

struct TerminalSize {
  std::size_t rows = 24, columns = 80;
};

TerminalSize terminal_size() {
  winsize size{};
  if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_row == 0 || size.ws_col == 0)
    return {};
  return {size.ws_row, size.ws_col};
}

}  // namespace

RunDisplay::RunDisplay(Settings settings)
    : settings_(std::move(settings)), visible_(!settings_.quiet && isatty(STDERR_FILENO) != 0) {
  if (visible_ && settings_.with_table) thread_ = std::thread([this] { refresh(); });
}

RunDisplay::~RunDisplay() {
  if (!visible_) return;
  {
    const std::lock_guard lock(mutex_);
    ended_ = true;
    drop_after_message();
  }
  end_.notify_all();
  if (thread_.joinable()) thread_.join();
  if (drawn_ > 1) std::fputs(fmt::format("\033[{}A", drawn_ - 1).c_str(), stderr);
  std::fputs("\r\033[J", stderr);
}

/// Reads the store from time to time, at intervals that depend on how long it takes.
void RunDisplay::refresh() {
  auto wait = std::chrono::duration_cast<SteadyClock::duration>(kLeastRefresh);
  std::unique_lock lock(mutex_);
  while (!end_.wait_for(lock, wait, [this] { return ended_; })) {
    wait = kLeastRefresh;
    if (!has_new_results_ || settings_.is_stopping()) continue;
    has_new_results_ = false;
    lock.unlock();
    const TerminalSize size = terminal_size();
    const auto start = SteadyClock::now();
    std::vector<std::string> table;
    try {
      if (size.rows > kFreeRows) {
        table = live_table(Store::open_snapshot(settings_.store), settings_.experiment,
                           size.rows - kFreeRows, size.columns);
      }
    } catch (const Error&) {  // the run itself reports what is wrong with the store
    }
    wait = std::max(wait, kTableShare * (SteadyClock::now() - start));
    lock.lock();
    if (ended_) break;
    table_ = std::move(table);
    draw();
  }
}

void RunDisplay::show(const Progress& progress) {
  if (!visible_) return;
  const std::lock_guard lock(mutex_);
  progress_ = progress;
  has_new_results_ = true;
  const auto now = SteadyClock::now();
  if (now - last_ < kRedraw && progress.units_done < progress.units) return;
  last_ = now;
  draw();
}

/// After a signal, a message is below what was drawn, which then stays.
void RunDisplay::drop_after_message() {
  if (!settings_.is_stopping() || was_stopping_) return;
  was_stopping_ = true;
  table_.clear();
  drawn_ = 0;
}

void RunDisplay::draw() {
  drop_after_message();
  const std::size_t columns = terminal_size().columns;
  std::string out = drawn_ > 1 ? fmt::format("\033[{}A", drawn_ - 1) : "";
  out += "\r\033[J" + terminal_line(progress_text(progress_), columns);
  for (const std::string& line : table_) out += "\n" + terminal_line(line, columns);
  drawn_ = 1 + table_.size();
  std::fputs(out.c_str(), stderr);
  std::fflush(stderr);
}

}  // namespace turnbench
