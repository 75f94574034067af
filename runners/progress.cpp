#include "runners/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cmath>
#include <cstdio>

namespace turnbench {
namespace {

constexpr auto kInterval = std::chrono::milliseconds(100);

}  // namespace

std::string duration(double seconds) {
  const long s = std::lround(seconds);
  if (s < 60) return fmt::format("{} s", s);
  if (s < 3600) return fmt::format("{}:{:02} min", s / 60, s % 60);
  return fmt::format("{}:{:02} h", s / 3600, s / 60 % 60);
}

std::string progress_text(const Progress& p) {
  std::string out = fmt::format("{} of {} units", p.units_done, p.units);
  if (p.units_done > 0) {
    const double left =
        p.seconds * (static_cast<double>(p.units) / static_cast<double>(p.units_done) - 1);
    out += fmt::format(", {} left", duration(left));
  }
  if (p.tokens > 0 && p.seconds > 0)
    out += fmt::format(", {:.0f} tokens/s", static_cast<double>(p.tokens) / p.seconds);
  if (p.failed > 0) out += fmt::format(", {} records failed", p.failed);
  return out;
}

ProgressLine::ProgressLine(bool quiet) : visible_(!quiet && isatty(STDERR_FILENO)) {}

ProgressLine::~ProgressLine() {
  if (visible_) std::fputs("\r\033[K", stderr);
}

void ProgressLine::show(const Progress& p) {
  const auto now = std::chrono::steady_clock::now();
  if (!visible_ || (now - last_ < kInterval && p.units_done < p.units)) return;
  last_ = now;
  std::fputs(("\r\033[K" + progress_text(p)).c_str(), stderr);
  std::fflush(stderr);
}

}  // namespace turnbench
