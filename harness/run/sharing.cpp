#include "harness/run/sharing.h"

#include <algorithm>
#include <utility>

#include "harness/run/fidelity.h"

namespace turnbench {

TurnStart start_of(const UnitCell& cell, std::size_t turn, std::size_t turns, bool isolated) {
  if (cell.history == History::kDense && turn + 1 < turns) return TurnStart::kSkip;
  if (turn > 0 && cell.history == History::kDense) return TurnStart::kDenseHistory;
  if (turn > 0 && keeps_cache(cell.history)) return TurnStart::kContinue;
  return isolated ? TurnStart::kRestart : TurnStart::kFork;
}

bool is_reference(const UnitCell& cell) {
  return cell.history == History::kReprefill && is_exact(*cell.method);
}

std::vector<UnitCell> missing_references(std::span<const UnitCell> cells) {
  static const Method full = Method::parse("full");
  std::vector<UnitCell> out;
  for (const Answers answers : {Answers::kOwn, Answers::kGold}) {
    bool wanted = false, there = false;
    for (const UnitCell& cell : cells) {
      if (cell.answers != answers) continue;
      wanted = true;
      there |= is_reference(cell);
    }
    if (wanted && !there) out.push_back({"", &full, History::kReprefill, answers});
  }
  return out;
}

TurnSharing share_turn(std::span<const TurnCell> cells, bool fidelity) {
  TurnSharing out;
  std::map<std::pair<std::string, std::size_t>, std::size_t> prefixes;  // indices in out.prefills
  const auto prefix_of = [&](std::size_t cell, const std::string& key) -> TurnPrefill& {
    const auto [at, is_new] = prefixes.try_emplace({key, cells[cell].prompt}, out.prefills.size());
    if (is_new) {
      TurnPrefill& prefix = out.prefills.emplace_back();
      prefix.first = cell;
      prefix.key = key;
    }
    return out.prefills[at->second];
  };
  for (std::size_t i = 0; i < cells.size(); ++i) {
    const auto& [method, start, prompt] = cells[i];
    const Policies& policies = method->policies();
    out.window = std::max(out.window, policies.window());
    out.pre_rope_keys |= policies.pre_rope_keys();
    if (start == TurnStart::kSkip) continue;
    if (start == TurnStart::kDenseHistory) out.dense_histories.emplace(policies.pre_rope_keys(), i);
    TurnPrefill& prefill = start == TurnStart::kFork ? prefix_of(i, method->prefill_key())
                                                     : out.prefills.emplace_back();
    if (start != TurnStart::kFork) prefill.first = i;
    prefill.start = start;
    prefill.is_sparse = policies.has_sparse_prefill();
    prefill.reuses_cached_prompt = policies.reuses_cached_prompt();
    prefill.cells.push_back(i);
    if (fidelity) prefix_of(i, kDensePrefill).is_full = true;
  }
  return out;
}

}  // namespace turnbench
