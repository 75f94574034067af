#include "harness/experiment/table_values.h"

namespace turnbench {

const std::vector<TableValue>& table_values() {
  constexpr std::string_view kAll,
      kFidelity = "cells with \"fidelity\"", kAlone = "cells that run alone (\"isolated\")",
      kLong = "cells that run alone (\"isolated\") with answers of three tokens or more",
      kHost = "methods with placement=host",
      kUpper = "methods that select once for all upper layers",
      kHostLong = "methods with placement=host whose prompts are longer than what they read";
  static const std::vector<TableValue> values = {
      {"score", "x100", 100, "value of the metric"},
      {"kl", "nats a token", 1,
       "KL divergence of the next-token distribution from full attention's", kFidelity, true, 4},
      {"agreement", "x100", 100,
       "share of the tokens for which the greedy choice equals full attention's", kFidelity},
      {"delta_logprob", "nats a token", 1, "log-probability of the answer minus full attention's",
       kFidelity, false, 4, false, true},
      {"answer_nll", "nats a token", 1, "negative log-likelihood of the answer", kFidelity, true,
       4},
      {"ttft", "ms", 1e3, "time to the first token: the prefill of the turn", kAlone, true, 1,
       true},
      {"tt2t", "ms", 1e3, "time to the second token, including waits of the first step", kAlone,
       true, 1, true},
      {"step", "ms", 1e3, "median time between two tokens of an answer", kAlone, true, 2, true},
      {"step_p95", "ms", 1e3, "95th percentile of the time between two tokens of an answer", kAlone,
       true, 2, true},
      {"tpot", "ms", 1e3, "mean time of a token from the third on", kLong, true, 2, true},
      {"decode_rate", "tokens/s", 1, "throughput of decode steps", kAlone, false, 1, true},
      {"answer_rate", "tokens/s", 1, "throughput of the answer, including the prefill", kAlone,
       false, 2, true},
      {"peak_bytes", "MiB", 1.0 / (1 << 20), "peak of weights, keys and values, and workspace",
       kAlone, true, 1, true},
      {"decode_peak_bytes", "MiB", 1.0 / (1 << 20),
       "peak of weights, keys and values, and workspace while decoding", kAlone, true, 1, true},
      {"kv_bytes", "MiB", 1.0 / (1 << 20), "keys and values when the answer begins", kAll, true, 2,
       true, false, true},
      {"resident_kv_bytes", "MiB", 1.0 / (1 << 20),
       "keys and values on the device when the answer begins, including working sets", kAll, true,
       2, true, false, true},
      {"hit_rate", "share", 1, "share of the selected tokens that were on the device", kHostLong,
       false, 3, true, false, true},
      {"step_bytes", "MiB", 1.0 / (1 << 20), "transferred over the link in a decode step", kHost,
       true, 3, true, false, true},
      {"upper_tokens", "tokens", 1, "tokens that upper layers read when the answer begins", kUpper,
       true, 0, true, false, true}};
  return values;
}

const TableValue* find_table_value(std::string_view name) {
  for (const TableValue& value : table_values()) {
    if (value.name == name) return &value;
  }
  return nullptr;
}

bool shows_scores(std::string_view value) {
  const TableValue* known = find_table_value(value);
  return known == nullptr || !known->is_measured;
}

}  // namespace turnbench
