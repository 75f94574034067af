#include "reports/row_counters.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "common/mean.h"

namespace turnbench {

const std::vector<ReportedCounter>& reported_counters() {
  static const std::vector<ReportedCounter> counters = {
      {"kv_tokens", "kept", "tokens cached per KV head when the answer begins", 0},
      {"attended_tokens", "read", "tokens that a decode step attends to", 0},
      {"prefill_pairs_share", "pairs", "share of the causal pairs that prefill attention computes",
       2}};
  return counters;
}

std::map<std::string, CounterRange> row_counters(const Results& results,
                                                 const std::vector<const TableParts*>& row) {
  std::map<std::string, CounterRange> out;
  for (const ReportedCounter& counter : reported_counters()) {
    using Setting = std::pair<std::string, std::string>;  // method, history
    std::map<Setting, Mean> means;
    // Cells; in columns of single turns, counters are over all turns.
    std::set<std::string> counted;
    for (const TableParts* parts : row) {
      for (const TablePart& part : *parts) {
        if (!counted.insert(part.cell->key).second) continue;
        if (const auto value = results.counter(part.cell->key, counter.name))
          means[{part.cell->method_canonical, part.cell->history}].add(*value);
      }
    }
    for (const auto& [setting, mean] : means) {
      const auto [range, first] =
          out.try_emplace(counter.name, CounterRange{mean.value(), mean.value()});
      range->second.low = std::min(range->second.low, mean.value());
      range->second.high = std::max(range->second.high, mean.value());
    }
  }
  return out;
}

std::string counter_text(const ReportedCounter& counter, const CounterRange& range) {
  const std::string low = fmt::format("{:.{}f}", range.low, counter.digits),
                    high = fmt::format("{:.{}f}", range.high, counter.digits);
  return low == high ? low : low + "–" + high;
}

}  // namespace turnbench
