#include "harness/run/sharing.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "harness/run/fidelity.h"

namespace turnbench {

TurnStart start_of(const UnitCell& cell, std::size_t turn, std::size_t turns, bool isolated) {
  if (cell.history == History::kDense && turn + 1 < turns) return TurnStart::kSkip;
  if (turn > 0 && cell.history == History::kDense) return TurnStart::kDenseHistory;
  if (turn > 0 && keeps_cache(cell.history)) return TurnStart::kContinue;
  const bool in_blocks = cell.method->policies().compress_block > 0;
  return isolated || in_blocks ? TurnStart::kRestart : TurnStart::kFork;
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

TurnCell turn_cell(const UnitCell& cell, TurnStart start, std::size_t prompt, std::size_t index,
                   const TurnSharing& previous) {
  TurnCell out{cell.method, start, prompt, cell.history != History::kCompressOnce, 0};
  if (start == TurnStart::kContinue)
    out.state = 2 * previous.decoder_of[index] + (cell.answers == Answers::kGold ? 1 : 0);
  return out;
}

namespace {

/// Finds the cell that decodes for each cell.
class Decoders {
 public:
  explicit Decoders(std::span<const TurnCell> cells) : cells_(cells) {}

  std::size_t decoder_of(std::size_t index) {
    const auto& [method, start, prompt, evicts, state] = cells_[index];
    const EvictionPolicy* eviction = method->policies().eviction.get();
    const bool continues = start == TurnStart::kContinue && eviction == nullptr;
    if (start != TurnStart::kFork && !continues) return index;
    const bool evicted = eviction != nullptr && eviction->evicts_in_answers() && evicts;
    return first_.try_emplace({method->canonical(), start, prompt, evicted, state}, index)
        .first->second;
  }

 private:
  std::span<const TurnCell> cells_;
  std::map<std::tuple<std::string, TurnStart, std::size_t, bool, std::size_t>, std::size_t> first_;
};

}  // namespace

TurnSharing share_turn(std::span<const TurnCell> cells, bool fidelity) {
  TurnSharing out;
  Decoders decoders(cells);
  std::map<std::size_t, std::size_t> own;  // cells with a prefill of their own, to its index
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
    const Method* method = cells[i].method;
    const TurnStart start = cells[i].start;
    const std::size_t decoder = out.decoder_of.emplace_back(decoders.decoder_of(i));
    const Policies& policies = method->policies();
    out.window = std::max(out.window, policies.window());
    out.pre_rope_keys |= policies.pre_rope_keys();
    if (start == TurnStart::kSkip) continue;
    if (start == TurnStart::kDenseHistory) out.dense_histories.emplace(policies.pre_rope_keys(), i);
    if (start != TurnStart::kFork && decoder == i) {
      own.emplace(i, out.prefills.size());
      out.prefills.emplace_back().first = i;
    }
    const std::string end = policies.evicts_before_question ? kToQuestion : "";
    TurnPrefill& prefill = start == TurnStart::kFork ? prefix_of(i, method->prefill_key() + end)
                                                     : out.prefills[own.at(decoder)];
    prefill.start = start;
    prefill.to_question = policies.evicts_before_question;
    prefill.is_sparse = policies.has_sparse_prefill();
    prefill.reuses_cached_prompt = policies.reuses_cached_prompt();
    prefill.cells.push_back(i);
    if (fidelity) prefix_of(i, kDensePrefill).is_full = true;
  }
  for (const auto& [prefix, index] : prefixes) {
    const auto& [key, prompt] = prefix;
    const auto whole = prefixes.find({kDensePrefill, prompt});
    if (key == kDensePrefill + kToQuestion && whole != prefixes.end())
      out.prefills[index].whole = whole->second;
  }
  return out;
}

}  // namespace turnbench
