#include "harness/experiment/shards.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "common/error.h"
#include "harness/experiment/plan_prefills.h"

namespace turnbench {
namespace {

constexpr double kCostUnit = 1e6;               // operations
constexpr std::int64_t kAnswerTokenWeight = 8;  // prompt tokens

std::int64_t rounded(double operations) {
  return static_cast<std::int64_t>(operations / kCostUnit);
}

/// Cost of rows [begin, end) with dense attention.  The two terms are rounded separately: a sum of
/// products depends on whether the compiler fuses them.
std::int64_t cost_of_rows(const ModelConfig& c, std::int64_t begin, std::int64_t end) {
  const auto attention = [&](std::int64_t tokens) {
    const auto n = static_cast<double>(tokens);
    return rounded(2.0 * c.layers * c.heads * c.head_dim * n * n);
  };
  return rounded(c.linear_flops_per_token() * static_cast<double>(end - begin)) + attention(end) -
         attention(begin);
}

std::int64_t cost_of_answer(const ModelConfig& c, std::int64_t prompt, std::int64_t tokens) {
  return kAnswerTokenWeight * cost_of_rows(c, prompt, prompt + tokens);
}

}  // namespace

std::int64_t relative_cost(const Plan& plan, const Unit& unit, PlannedLengths& planned) {
  const ModelConfig& config = plan.experiment.models[unit.model].checkpoint.config;
  const Manifest& manifest = plan.experiment.manifest;
  const PromptLengths& lengths = planned.of(unit.model, *unit.dialogue);
  std::int64_t out = 0;
  for (const PlannedPrefill& prefill :
       planned_prefills(unit, lengths, manifest.isolated, manifest.fidelity)) {
    out += cost_of_rows(config, prefill.begin, prefill.end);
    const PlannedPrefill::Scoring scoring = prefill.scoring();
    out += rounded(config.linear_flops_per_token() * static_cast<double>(scoring.rows)) +
           rounded(4.0 * config.layers * config.heads * config.head_dim * scoring.pairs);
  }
  for (const UnitCell& cell : unit.cells) {
    for (std::size_t t = 0; t < lengths.prompts.size(); ++t) {
      if (cell.history == History::kDense && t + 1 < lengths.prompts.size()) continue;
      out += (manifest.fidelity ? 2 : 1) *
             cost_of_answer(config, lengths.prompts[t], lengths.answers[t]);
    }
  }
  return std::max<std::int64_t>(out, 1);
}

std::int64_t relative_cost(const Plan& plan, const ProbeUnit& unit, PlannedLengths& planned) {
  const ModelConfig& config = plan.experiment.models[unit.model].checkpoint.config;
  std::int64_t out = 0;
  for (const Dialogue* dialogue : unit.dialogues) {
    const PromptLengths& lengths = planned.of(unit.model, *dialogue);
    const bool own = unit.answers == Answers::kOwn && dialogue->turns.size() > 1;
    const std::int64_t prefills = probe_prefills(unit.cells, own);
    for (std::size_t t = 0; t < lengths.prompts.size(); ++t) {
      out += prefills * cost_of_rows(config, 0, lengths.prompts[t]);
      if (own || required_input(unit.cells) == ProbeInfo::Input::kAnswer)
        out += prefills * cost_of_answer(config, lengths.prompts[t], lengths.answers[t]);
    }
  }
  return std::max<std::int64_t>(out, 1);
}

std::vector<int> assign_shards(std::span<const WeightedUnit> units, int count) {
  std::vector<std::size_t> order(units.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return std::pair(-units[a].cost, std::string_view(units[a].key)) <
           std::pair(-units[b].cost, std::string_view(units[b].key));
  });
  std::set<std::pair<std::int64_t, int>> totals;  // of each shard
  for (int shard = 1; shard <= count; ++shard) totals.emplace(0, shard);
  std::vector<int> out(units.size());
  for (const std::size_t unit : order) {
    auto [total, shard] = *totals.begin();
    totals.erase(totals.begin());
    totals.emplace(total + units[unit].cost, shard);
    out[unit] = shard;
  }
  return out;
}

StoredShard keep_shard(Plan& plan, const Shard& shard, PlannedLengths& lengths) {
  std::vector<WeightedUnit> weighted;
  const auto add = [&](const auto& unit) {
    WeightedUnit& added = weighted.emplace_back(WeightedUnit{unit.key, 1});
    try {
      added.cost = relative_cost(plan, unit, lengths);
    } catch (const Error&) {  // a prompt that cannot be made: the unit will fail
    }
  };
  for (const Unit& unit : plan.units) add(unit);
  for (const ProbeUnit& unit : plan.probe_units) add(unit);
  const std::vector<int> shards = assign_shards(weighted, shard.count);
  auto of_unit = shards.begin();
  const auto is_other = [&](const auto&) { return *of_unit++ != shard.index; };
  std::erase_if(plan.units, is_other);
  std::erase_if(plan.probe_units, is_other);
  StoredShard out{shard, 0, {}};
  const auto keys_of = [](const auto& cells) {
    std::vector<std::string> keys;
    for (const auto& cell : cells) keys.push_back(cell.key);
    return keys;
  };
  for (const Unit& unit : plan.units)
    out.units.push_back({unit.key, keys_of(unit.cells), {unit.dialogue->id}});
  for (const ProbeUnit& unit : plan.probe_units) {
    StoredShard::Unit& stored =
        out.units.emplace_back(StoredShard::Unit{unit.key, keys_of(unit.cells), {}});
    for (const Dialogue* dialogue : unit.dialogues) stored.dialogues.push_back(dialogue->id);
  }
  return out;
}

}  // namespace turnbench
