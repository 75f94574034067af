#include "cli/status_of_directory.h"

#include <fmt/format.h>

#include <ctime>
#include <nlohmann/json.hpp>

#include "cli/input_output.h"
#include "common/error.h"
#include "common/text.h"
#include "runners/slurm_progress.h"

namespace turnbench {
namespace {

constexpr std::size_t kListed = 40;  // shards that are not done

OrderedJson to_json(const SlurmSweep& sweep, const SlurmProgress& progress) {
  using State = SlurmShard::State;
  OrderedJson out = {{"directory", sweep.directory.string()},
                     {"shards", sweep.shards},
                     {"done", progress.in_state(State::kDone).size()},
                     {"failed", progress.in_state(State::kFailed).size()},
                     {"running", progress.in_state(State::kRunning).size()},
                     {"missing", progress.in_state(State::kMissing).size()},
                     {"units", progress.units},
                     {"units_done", progress.done},
                     {"units_failed", progress.failed},
                     {"units_missing", progress.missing()},
                     {"seconds_left", nullptr},
                     {"each", OrderedJson::array()}};
  if (progress.seconds_left) out["seconds_left"] = *progress.seconds_left;
  for (const SlurmShard& s : progress.shards) {
    OrderedJson shard = {{"shard", s.shard}, {"state", name_of(s.state)}, {"units", nullptr},
                         {"done", s.done},   {"failed", s.failed},        {"job", s.job},
                         {"host", s.host},   {"exit_code", nullptr}};
    if (s.has_store) shard["units"] = s.units;
    if (s.exit_code) shard["exit_code"] = *s.exit_code;
    out["each"].push_back(std::move(shard));
  }
  return out;
}

/// "2 h 05 min".
std::string describe_duration(double seconds) {
  const auto minutes = static_cast<std::int64_t>(seconds / 60);
  if (minutes == 0) return fmt::format("{:.0f} s", seconds);
  if (minutes < 60) return fmt::format("{} min", minutes);
  return fmt::format("{} h {:02} min", minutes / 60, minutes % 60);
}

std::string describe(const SlurmShard& s, const SlurmSweep& sweep) {
  std::string out = fmt::format("shard {}/{}: ", s.shard, sweep.shards);
  if (s.state == SlurmShard::State::kRunning) {
    out += fmt::format("running on {} (job {})", s.host, s.job);
  } else {
    out += s.state == SlurmShard::State::kFailed ? "finished" : "missing";
  }
  if (s.has_store)
    out += fmt::format(", {} of {} units done, {} failed", s.done, s.units, s.failed);
  if (!s.damage.empty()) out += fmt::format(" ({})", s.damage);
  if (s.state == SlurmShard::State::kMissing && s.exit_code)
    out += fmt::format(", last exit code {}", *s.exit_code);
  return out;
}

void print(const SlurmSweep& sweep, const SlurmProgress& progress) {
  using State = SlurmShard::State;
  const auto count = [&](State state) { return progress.in_state(state).size(); };
  fmt::print("{}: {} shards: {} done, {} with failed units, {} running, {} missing\n",
             printable(sweep.directory.string()), sweep.shards, count(State::kDone),
             count(State::kFailed), count(State::kRunning), count(State::kMissing));
  fmt::print("  {} units: {} done, {} failed, {} missing\n", progress.units, progress.done,
             progress.failed, progress.missing());
  if (progress.seconds_left && progress.missing() > 0)
    fmt::print("  about {} left\n", describe_duration(*progress.seconds_left));
  std::size_t listed = 0, left_out = 0;
  for (const SlurmShard& s : progress.shards) {
    if (s.state == State::kDone) continue;
    if (++listed > kListed) {
      ++left_out;
      continue;
    }
    fmt::print("  {}\n", printable(describe(s, sweep)));
  }
  if (left_out > 0) fmt::print("  and {} more shards (--json lists all)\n", left_out);
}

/// False if Slurm has no job of the sweep; true where it cannot be asked.
bool may_run(const SlurmSweep& sweep) {
  try {
    return !queued_jobs(sweep).empty();
  } catch (const Error&) {
    return true;
  }
}

}  // namespace

int status_of_directory(const std::string& directory, const CommonOptions& common) {
  const SlurmSweep sweep = read_sweep(directory);
  const SlurmProgress progress = slurm_progress(sweep, std::time(nullptr), may_run(sweep));
  if (common.json) {
    fmt::print("{}\n", dump(to_json(sweep, progress)));
  } else {
    print(sweep, progress);
  }
  return progress.missing() == 0 && progress.failed == 0 ? 0 : 1;
}

}  // namespace turnbench
