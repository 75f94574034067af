#include "runners/slurm_progress.h"

#include <sys/stat.h>

#include <algorithm>
#include <map>

#include "common/error.h"
#include "common/file.h"
#include "common/text.h"
#include "harness/store/shard_progress.h"
#include "harness/store/store.h"

namespace turnbench {
namespace {

// Tasks write their states every 30 s; clocks may differ, and file systems cache times.
constexpr std::int64_t kAliveSeconds = 300;

/// Seconds since the epoch; 0 if the file does not exist.
std::int64_t modification_time(const std::filesystem::path& file) {
  struct stat info {};
  return stat(file.c_str(), &info) == 0 ? static_cast<std::int64_t>(info.st_mtime) : 0;
}

/// The "key=value" words that a task wrote.
using TaskState = std::map<std::string, std::string>;
TaskState read_state(const std::filesystem::path& file) {
  TaskState out;
  if (!path_exists(file)) return out;
  for (const std::string& word : split(trim(read_file(file)), " ")) {
    const std::size_t equals = word.find('=');
    if (equals != std::string::npos) out[word.substr(0, equals)] = word.substr(equals + 1);
  }
  return out;
}

std::optional<std::int64_t> number_in(const TaskState& state, const std::string& key) {
  const auto found = state.find(key);
  return found == state.end() ? std::nullopt : parse_number<std::int64_t>(found->second);
}

/// Time in which tasks have run units.
struct MeasuredWork {
  double seconds = 0;
  std::size_t units = 0;
};

/// Reads a shard's store.  Returns whether it has all results.
bool read_store(const SlurmSweep& sweep, SlurmShard& shard, MeasuredWork& ended) {
  const std::filesystem::path file = sweep.shard_store(shard.shard);
  if (!path_exists(file)) return false;
  const Store store = Store::open(file);
  const std::vector<std::string> known = store.experiments();
  bool complete = true;
  for (const auto& [experiment, units] : sweep.units) {
    bool found = false;
    if (std::find(known.begin(), known.end(), experiment) != known.end()) {
      for (const ShardProgress& p : shard_progress(store, experiment)) {
        if (p.shard.index != shard.shard || p.shard.count != sweep.shards) continue;
        found = true;
        shard.units += p.units;
        shard.done += p.done;
        shard.failed += p.failed;
      }
      const Store::RunTime time = store.run_time(experiment);
      ended.seconds += time.seconds;
      ended.units += time.units;
    }
    complete = complete && found;
  }
  shard.has_store = true;
  return complete && shard.missing() == 0;
}

/// The same for a store that may be damaged.
bool try_store(const SlurmSweep& sweep, SlurmShard& shard, MeasuredWork& ended) {
  try {
    return read_store(sweep, shard, ended);
  } catch (const Error& error) {
    const int number = shard.shard;
    shard = {};
    shard.shard = number;
    shard.damage = error.what();
    ended = {};
    return false;
  }
}

}  // namespace

std::string_view name_of(SlurmShard::State state) {
  switch (state) {
    case SlurmShard::State::kDone:
      return "done";
    case SlurmShard::State::kFailed:
      return "failed";
    case SlurmShard::State::kRunning:
      return "running";
    case SlurmShard::State::kMissing:
      return "missing";
  }
  return "missing";
}

std::vector<int> SlurmProgress::in_state(SlurmShard::State state) const {
  std::vector<int> out;
  for (const SlurmShard& shard : shards) {
    if (shard.state == state) out.push_back(shard.shard);
  }
  return out;
}

SlurmProgress slurm_progress(const SlurmSweep& sweep, std::int64_t now, bool tasks_run) {
  SlurmProgress out;
  for (const auto& [experiment, units] : sweep.units) out.units += units;
  MeasuredWork work;
  std::size_t largest_missing = 0;
  for (int i = 1; i <= sweep.shards; ++i) {
    SlurmShard shard;
    shard.shard = i;
    MeasuredWork ended;  // by earlier tasks of the shard
    const bool complete = try_store(sweep, shard, ended);
    const TaskState state = read_state(sweep.shard_state(i));
    const auto word = [&](const char* key) { return state.contains(key) ? state.at(key) : ""; };
    const std::int64_t seen = modification_time(sweep.shard_state(i));
    shard.exit_code = number_in(state, "code");
    if (tasks_run && word("state") == "running" && now - seen < kAliveSeconds) {
      shard.state = SlurmShard::State::kRunning;
      shard.job = word("job");
      shard.host = word("host");
      const std::int64_t since = number_in(state, "since").value_or(seen),
                         copied = modification_time(sweep.shard_store(i));
      const std::size_t stored = shard.done + shard.failed;
      if (copied > since && stored > ended.units) {
        work.seconds += static_cast<double>(copied - since);
        work.units += stored - ended.units;
      }
    } else if (complete) {
      shard.state = shard.failed > 0 ? SlurmShard::State::kFailed : SlurmShard::State::kDone;
    }
    work.seconds += ended.seconds;
    work.units += ended.units;
    out.done += shard.done;
    out.failed += shard.failed;
    largest_missing = std::max(largest_missing, shard.missing());
    out.shards.push_back(std::move(shard));
  }
  out.units = std::max(out.units, out.done + out.failed);
  if (out.missing() == 0) {
    out.seconds_left = 0;
  } else if (work.units > 0) {
    const std::size_t running = out.in_state(SlurmShard::State::kRunning).size(),
                      waiting = out.in_state(SlurmShard::State::kMissing).size();
    std::size_t parallel = running;
    if (parallel == 0) {
      parallel = std::max<std::size_t>(waiting, 1);
      if (sweep.max_parallel > 0)
        parallel = std::min(parallel, static_cast<std::size_t>(sweep.max_parallel));
    }
    const double per_unit = work.seconds / static_cast<double>(work.units);
    // No shard is divided.
    const double units =
        std::max(static_cast<double>(out.missing()) / static_cast<double>(parallel),
                 static_cast<double>(largest_missing));
    out.seconds_left = per_unit * units;
  }
  return out;
}

}  // namespace turnbench
