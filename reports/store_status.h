#pragma once

#include <string>

#include "common/json.h"
#include "harness/store/shard_progress.h"
#include "harness/store/store.h"

namespace turnbench {

/// The state of one experiment: dialogues done, failed and pending in all its cells, failures,
/// shards, and stale results.
OrderedJson experiment_status(const Store& store, const std::string& experiment);

/// True if nothing is left to run or failed.  If the store runs some of the shards of a sweep, only
/// their units count.
bool is_done(const OrderedJson& status);

/// "quickstart: 96 dialogues done, 0 failed, 12 pending", as text for a terminal.
std::string status_line(const OrderedJson& status);

/// {"shard", "shards", "units", "done", "failed", "missing"}.
OrderedJson to_json(const ShardProgress& progress);

}  // namespace turnbench
