#pragma once

// For methods whose layers read the same tokens: which tokens their steps read, and how many bytes
// are copied for this.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "methods/method.h"
#include "tests/inference/conversation.h"
#include "tests/methods/layer.h"

namespace turnbench::test {

using Ints = std::vector<std::int32_t>;
using Lists = std::vector<Ints>;

/// Logits of a prompt and of an answer that is fed after it.
inline std::vector<Logits> answers(Engine& engine, Policies policies, int prompt, int steps) {
  Conversation c(engine, std::move(policies));
  std::vector<Logits> out = {c.turn(synthetic_tokens(prompt, 1))};
  for (const int token : synthetic_tokens(steps, 2)) out.push_back(c.answer(token));
  return out;
}

inline std::vector<Logits> answers(Machine& machine, const std::string& spec, int prompt,
                                   int steps) {
  return answers(machine.engine, Method::parse(spec).make(), prompt, steps);
}

/// A method whose selections are recorded.
class Watched : public LayerObserver {
 public:
  Watched(Machine& machine, const std::string& spec)
      : talk(std::make_unique<Conversation>(machine.engine, Method::parse(spec).make())) {
    talk->observer = this;
  }

  void selection(const LayerView& view, const Selection& selection) override {
    if (view.layer == 0) read.emplace_back();
    read.back().push_back(selection.slots);
  }

  std::vector<Logits> run(int prompt, int steps) {
    std::vector<Logits> out = {talk->turn(synthetic_tokens(prompt, 1))};
    for (const int token : synthetic_tokens(steps, 2)) out.push_back(talk->answer(token));
    return out;
  }

  std::vector<std::vector<Lists>> read;  ///< [steps][layers][lists]
  std::unique_ptr<Conversation> talk;
};

/// Bytes that are copied to the working set of a layer in host memory for one token of one KV set:
/// a key, a value and, if the set is in device memory, the position.
inline std::int64_t fetched_row(const Sequence& sequence, int layer) {
  const WorkingSet& offloaded = *sequence.at(layer).kv.working_set();
  const KvPool& pool = *offloaded.sets().front().pool();
  return 2 * static_cast<std::int64_t>(pool.layout().row_bytes(KvRow::kKey)) +
         (pool.memory().is_host() ? 0 : static_cast<std::int64_t>(sizeof(std::int32_t)));
}

/// The layers from `first` on are in host memory.  Expects that each step loads exactly the tokens
/// that the previous step did not read.  The current token is not loaded: its row is written on the
/// device.
inline void expect_elastic_loads(const Watched& host, int first, std::int64_t budget) {
  const Sequence& sequence = host.talk->sequence;
  const Ledger& ledger = sequence.counters.ledger;
  const int steps = static_cast<int>(host.read.size());
  ASSERT_EQ(ledger.steps(), static_cast<std::size_t>(steps + 1));
  for (int l = first; l < sequence.shape().layers; ++l) {
    const auto at = static_cast<std::size_t>(l);
    ASSERT_NE(sequence.at(at).kv.working_set(), nullptr);
    const std::int64_t row = fetched_row(sequence, l);
    // The prompt's last token stays on the device when the other tokens move to the host.
    const std::int32_t answered = host.read[0][at][0].back();
    Lists last(sequence.sets(l).size(), Ints{answered - 1});
    const std::int64_t all = std::ssize(last) * (budget - 1);
    for (int s = 1; s <= steps; ++s) {
      const Lists& now = host.read[s - 1][at];
      std::int64_t missing = 0;
      for (std::size_t h = 0; h < now.size(); ++h) {
        Ints changed;
        std::set_difference(now[h].begin(), now[h].end() - 1, last[h].begin(), last[h].end(),
                            std::back_inserter(changed));
        missing += std::ssize(changed);
      }
      const LedgerEntry& e = ledger.at(static_cast<std::size_t>(s), l);
      EXPECT_EQ(e.misses, missing) << l << " " << s;
      EXPECT_EQ(e.kv_fetch_bytes, missing * row);
      EXPECT_EQ(e.hits + e.misses, all);
      EXPECT_EQ(e.index_bytes + e.cache_fill_bytes, 0);
      last = now;
    }
    EXPECT_GE(ledger.at(1, l).misses, all - std::ssize(last));
    EXPECT_GT(ledger.at(2, l).hits, 0);
  }
}

}  // namespace turnbench::test
