#pragma once

// A layer for tests of selection policies, extended by one token per step.

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "methods/method.h"
#include "tests/inference/set_rows.h"
#include "tests/methods/layer.h"

namespace turnbench::test {

/// A layer of `prompt` tokens; the other tokens are appended step by step.
class Steps : public Layer {
 public:
  Steps(int kv_heads, int group, int head_dim, int prompt, int tokens, std::uint64_t seed)
      : Layer(kv_heads, group, head_dim, tokens, 1, seed) {
    for (KvHeadCache& set : sets) set.truncate(prompt);
    n = prompt_tokens = prompt;
  }

  /// The policy of a method after the prompt.
  std::unique_ptr<SelectionPolicy> policy(const std::string& spec, int layer = 3) {
    std::unique_ptr<SelectionPolicy> out = Method::parse(spec).make().selection;
    out->after_prefill(view(layer));
    return out;
  }

  /// Appends the next token.
  void step() {
    for (std::size_t s = 0; s < sets.size(); ++s)
      test::append_row(sets[s], key(s, n), value(s, n), nullptr, n);
    ++n;
    ++generated;
  }

  /// Removes the token of a slot from all sets.
  void evict(int slot) {
    for (KvHeadCache& set : sets) {
      std::vector<std::int32_t> kept = all_slots(set.size());
      kept.erase(kept.begin() + slot);
      set.keep(kept);
    }
  }

  const float* key(std::size_t set, int slot) const {
    return keys[set].data() + std::ptrdiff_t{slot} * shape.head_dim;
  }
  const float* value(std::size_t set, int slot) const {
    return values[set].data() + std::ptrdiff_t{slot} * shape.head_dim;
  }
  /// The query of the last token.
  const float* query(int head) const {
    return queries.data() + (std::ptrdiff_t{n - 1} * shape.heads + head) * shape.head_dim;
  }
};

}  // namespace turnbench::test
