#pragma once

// Policies with known decisions.

#include <algorithm>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "inference/policy/policy.h"

namespace turnbench::test {

using Ints = std::vector<std::int32_t>;

inline Ints best_slots(std::span<const float> scores, int k) {
  Ints order(scores.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = static_cast<std::int32_t>(i);
  std::stable_sort(order.begin(), order.end(),
                   [&](auto a, auto b) { return scores[a] > scores[b]; });
  order.resize(std::min(order.size(), static_cast<std::size_t>(k)));
  std::sort(order.begin(), order.end());
  return order;
}

/// Keeps the tokens with the largest window mass, `budget` and a few more in higher sets and
/// layers, so that sets have different sizes.
struct KeepByMass : EvictionPolicy {
  KeepByMass(int budget, int rows, bool per_query_head = false)
      : budget(budget), rows(rows), per_query_head(per_query_head) {}
  std::unique_ptr<EvictionPolicy> clone() const override {
    return std::make_unique<KeepByMass>(*this);
  }
  int window() const override { return rows; }
  bool keeps_unequal_sets() const override { return true; }
  KeepSets after_prefill(const LayerView& view) override {
    const HeadScores& mass = view.stats.window_mass(rows);
    KeepSets out;
    const int lists = per_query_head ? view.shape.heads : static_cast<int>(view.sets.size());
    for (int i = 0; i < lists; ++i) {
      const int n = view.sets[static_cast<std::size_t>(i) * view.sets.size() /
                              static_cast<std::size_t>(lists)]
                        .size();
      const auto row = mass.head(i * view.shape.heads / lists, n);
      out.slots.push_back(best_slots(row, budget + 3 * i + 5 * view.layer));
    }
    return out;
  }
  int budget, rows;
  bool per_query_head;
};

/// Keeps the tokens with the largest mass over all rows of the prompt.
struct KeepByColumns : EvictionPolicy {
  explicit KeepByColumns(int budget, const ColumnRule& rule = {}) : budget(budget), rule(rule) {}
  std::unique_ptr<EvictionPolicy> clone() const override {
    return std::make_unique<KeepByColumns>(*this);
  }
  std::vector<ColumnRule> columns() const override { return {rule}; }
  KeepSets after_prefill(const LayerView& view) override {
    const HeadScores& mass = view.stats.column_mass(rule).scores;
    KeepSets out;
    for (std::size_t i = 0; i < view.sets.size(); ++i) {
      const int head = static_cast<int>(i) * view.heads_per_set();
      out.slots.push_back(best_slots(mass.head(head, view.sets[i].size()), budget));
    }
    return out;
  }
  int budget;
  ColumnRule rule;
};

/// Keeps a fixed list of slots everywhere, as far as they exist; may assign new positions.
struct KeepList : EvictionPolicy {
  explicit KeepList(Ints slots, bool shift = false, int lists = 1)
      : slots(std::move(slots)), shift(shift), lists(lists) {}
  std::unique_ptr<EvictionPolicy> clone() const override {
    return std::make_unique<KeepList>(*this);
  }
  bool shifts_positions() const override { return shift; }
  KeepSets after_prefill(const LayerView& view) override {
    Ints present = slots;
    std::erase_if(present, [&](std::int32_t slot) { return slot >= view.sets[0].size(); });
    return {std::vector<Ints>(static_cast<std::size_t>(lists) * view.sets.size(), present)};
  }
  Ints slots;
  bool shift;
  int lists;
};

/// Reads every third cached token, the last of those cached after the prefill, and the current one.
struct ReadSome : SelectionPolicy {
  std::unique_ptr<SelectionPolicy> clone() const override {
    return std::make_unique<ReadSome>(*this);
  }
  void after_prefill(const LayerView& view) override {
    sizes.resize(static_cast<std::size_t>(view.shape.layers));
    sizes[view.layer].clear();
    for (const KvHeadCache& set : view.sets) sizes[view.layer].push_back(set.size());
  }
  Selection select(const LayerView& view) override {
    Selection out;
    for (std::size_t i = 0; i < view.sets.size(); ++i) {
      const int prompt = sizes[view.layer][i], n = view.sets[i].size();
      Ints& list = out.slots.emplace_back();
      for (int j = 0; j < n; ++j) {
        if (j % 3 == 0 || j == prompt - 1 || j == n - 1) list.push_back(j);
      }
    }
    return out;
  }
  std::vector<std::vector<int>> sizes;
};

/// Computes the columns with the attention of the last rows, and a band.
struct ComputeLines : PrefillPolicy {
  std::unique_ptr<PrefillPolicy> clone() const override {
    return std::make_unique<ComputeLines>(*this);
  }
  std::vector<HeadPattern> plan(const LayerView& view) override {
    std::vector<HeadPattern> out(static_cast<std::size_t>(view.shape.heads));
    view.stats.for_each_head([&](int head) {
      HeadPattern& p = out[head];
      p.kind = HeadPattern::Kind::kVerticalSlash;
      p.granularity = HeadPattern::Granularity::kLine;
      for (std::int32_t slot : best_slots(view.stats.line_mass(head, 8).vertical, 12))
        p.columns.push_back(view.sets[0].position(slot));
      for (int distance = 0; distance < 16; ++distance) p.offsets.push_back(distance);
    });
    return out;
  }
};

template <typename Policy, typename... Args>
Policies evicting(Args&&... args) {
  Policies out;
  out.eviction = std::make_unique<Policy>(std::forward<Args>(args)...);
  return out;
}

inline Policies selecting(std::unique_ptr<SelectionPolicy> selection) {
  Policies out;
  out.selection = std::move(selection);
  return out;
}

/// The policies for tests of sharing, created again at each call.
inline std::vector<Policies> cast() {
  std::vector<Policies> out;
  out.emplace_back();
  out.push_back(evicting<KeepByMass>(20, 8));
  out.push_back(evicting<KeepByMass>(40, 32));
  out.push_back(evicting<KeepByMass>(12, 1, true));
  out.push_back(evicting<KeepList>(Ints{0, 1, 50, 51, 52, 90, 149}, true));
  out.push_back(selecting(std::make_unique<ReadSome>()));
  Policies both = evicting<KeepByMass>(30, 4);
  both.selection = std::make_unique<ReadSome>();
  both.placement = {.host = true, .cache_tokens = 16, .cache_block = 8};
  out.push_back(std::move(both));
  return out;
}

}  // namespace turnbench::test
