#include "inference/kv/residency.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>

#include "tests/message_of.h"

namespace turnbench {
namespace {

using Ints = std::vector<std::int32_t>;
using Lists = std::vector<Ints>;
using Rule = Residency::Rule;

/// The rows of a layer on the host and on the device, as one number for each token.
class Rows {
 public:
  explicit Rows(const Residency::Options& options)
      : residency(Residency::make(options)), options_(options) {
    device_.assign(static_cast<std::size_t>(options.sets),
                   Ints(static_cast<std::size_t>(residency->device_slots()), -1));
  }
  Rows(const Rows& other)
      : residency(other.residency->clone()),
        options_(other.options_),
        device_(other.device_),
        versions_(other.versions_) {}

  /// The row of a token; another one after `rewrite`.
  std::int32_t host(int set, std::int32_t token) const {
    return (versions_.at(static_cast<std::size_t>(token)) * 2000 + token) * 2 + set;
  }
  void rewrite(std::int32_t from) {
    for (auto t = static_cast<std::size_t>(from); t < versions_.size(); ++t) ++versions_[t];
  }

  std::int64_t copy(const std::vector<SlotCopy>& copies) {
    std::int64_t tokens = 0;
    for (const SlotCopy& c : copies) {
      for (std::int32_t i = 0; i < c.count; ++i) {
        device_.at(static_cast<std::size_t>(c.set)).at(static_cast<std::size_t>(c.device + i)) =
            host(c.set, c.host + i);
      }
      tokens += c.count;
    }
    return tokens;
  }

  /// Pins in all sets.  Returns the number of copied tokens.
  std::int64_t pin(const std::vector<SlotRange>& ranges) {
    std::int64_t copied = 0;
    for (int s = 0; s < options_.sets; ++s) copied += copy(residency->pin(s, ranges));
    return copied;
  }

  /// Runs a step and its copies; then every selected token must be in the slot that the step
  /// returned.
  Residency::Step step(const Lists& lists, const Ints& tokens) {
    Residency::Step out = residency->step(lists, tokens);
    loaded = copy(out.loads);
    EXPECT_EQ(out.slots.size(), lists.size());
    for (std::size_t i = 0; i < lists.size(); ++i) {
      const std::size_t set = i / static_cast<std::size_t>(options_.lists_per_set);
      EXPECT_EQ(out.slots[i].size(), lists[i].size());
      for (std::size_t t = 0; t < lists[i].size(); ++t) {
        EXPECT_EQ(device_.at(set).at(static_cast<std::size_t>(out.slots[i][t])),
                  host(static_cast<int>(set), lists[i][t]))
            << "list " << i << ", token " << lists[i][t];
      }
    }
    filled = copy(out.fills);
    return out;
  }
  /// The same for one list.
  Residency::Step step(const Ints& list) { return step(Lists{list}, Ints{1000}); }

  std::unique_ptr<Residency> residency;
  std::int64_t loaded = 0, filled = 0;  ///< tokens, by the last step

 private:
  Residency::Options options_;
  std::vector<Ints> device_;    // [sets][device slots]
  Ints versions_ = Ints(2000);  // of each host slot
};

/// One set, one list, blocks of one token.
Residency::Options one_token_blocks(Rule rule, std::int32_t capacity) {
  return {.rule = rule, .block = 1, .cache_tokens = capacity, .step_tokens = 8};
}

/// The expected result of a step.
struct Expected {
  std::int64_t hits = 0, misses = 0, loaded = 0, filled = 0, evictions = 0;
};

/// Tokens that a step selects from each set.
using Selected = std::vector<std::set<std::int32_t>>;

/// Reference of insertion after the step, with a simple list: blocks and the rows of each set that
/// were copied, the most recently inserted block last.
class InsertionModel {
 public:
  explicit InsertionModel(const Residency::Options& o) : o_(o) {}

  Expected step(const Selected& selected, const Ints& tokens) {
    Expected out;
    std::map<int, int> counts;
    for (std::size_t s = 0; s < selected.size(); ++s) {
      for (const std::int32_t t : selected[s]) {
        const int b = (t - o_.first) / o_.block;
        ++counts[b];
        const auto at = find(b);
        ++(at != cache_.end() && t - o_.first - b * o_.block < at->rows[s] ? out.hits : out.misses);
      }
    }
    out.loaded = out.misses;
    std::vector<std::pair<int, int>> order;  // -count, block: the first are inserted, in reverse
    for (const auto& [b, n] : counts) order.emplace_back(-n, b);
    std::sort(order.begin(), order.end());
    if (std::ssize(order) > o_.insert_blocks)
      order.resize(static_cast<std::size_t>(o_.insert_blocks));
    if (o_.cache_tokens < o_.block) order.clear();
    for (auto it = order.rbegin(); it != order.rend(); ++it) {
      Block block{it->second, 0, Ints(selected.size(), 0)};
      if (const auto at = find(block.id); at != cache_.end()) {
        block = *at;
        cache_.erase(at);
      } else if (std::ssize(cache_) == o_.cache_tokens / o_.block) {
        const auto goes = o_.rule == Rule::kLru
                              ? cache_.begin()
                              : std::min_element(cache_.begin(), cache_.end(),
                                                 [](auto& a, auto& b) { return a.uses < b.uses; });
        // A block counts as evicted if it had been cached before the step.
        out.evictions += goes->in_step ? 0 : 1;
        cache_.erase(goes);
      }
      ++block.uses;
      block.in_step = true;
      cache_.push_back(block);
    }
    for (Block& b : cache_) {
      for (std::size_t s = 0; b.in_step && s < tokens.size(); ++s) {
        const int rows = std::clamp(tokens[s] - o_.first - b.id * o_.block, 0, o_.block);
        if (rows > b.rows[s]) out.filled += rows - std::exchange(b.rows[s], rows);
      }
      b.in_step = false;
    }
    return out;
  }

 private:
  struct Block {
    int id = 0, uses = 0;
    Ints rows;
    bool in_step = false;
  };
  std::vector<Block>::iterator find(int id) {
    return std::find_if(cache_.begin(), cache_.end(), [&](const Block& b) { return b.id == id; });
  }
  Residency::Options o_;
  std::vector<Block> cache_;
};

/// Reference of loading before the step; the blocks do not grow.  `previous`: only this step's
/// blocks remain.
class DemandModel {
 public:
  DemandModel(const Residency::Options& o, bool previous) : o_(o), previous_(previous) {}

  Expected step(const Selected& selected, const Ints& tokens) {
    Expected out;
    ++now_;
    std::set<int> blocks;
    for (const auto& set : selected) {
      for (const std::int32_t t : set) {
        const int b = (t - o_.first) / o_.block;
        blocks.insert(b);
        ++(last_.contains(b) ? out.hits : out.misses);
      }
    }
    const auto leave = [&](int block) {
      last_.erase(block);
      ++out.evictions;
    };
    int room = o_.cache_tokens / o_.block - static_cast<int>(last_.size());
    for (const int b : blocks) room -= last_.contains(b) ? 0 : 1;
    for (; room < 0; ++room) {
      std::pair<int, int> least{now_, 0};  // last step, block
      for (const auto& [b, step] : last_) {
        if (!blocks.contains(b)) least = std::min(least, {step, b});
      }
      leave(least.second);
    }
    if (previous_) {
      const auto old = last_;
      for (const auto& [b, step] : old) {
        if (!blocks.contains(b)) leave(b);
      }
    }
    for (const int b : blocks) {
      for (std::size_t s = 0; !last_.contains(b) && s < tokens.size(); ++s)
        out.loaded += std::clamp(tokens[s] - o_.first - b * o_.block, 0, o_.block);
      last_[b] = now_;
    }
    return out;
  }

 private:
  Residency::Options o_;
  bool previous_;
  int now_ = 0;
  std::map<int, int> last_;  // block -> step that last selected it
};

/// Random lists that prefer some tokens, with the union of each set's lists.
struct Draw {
  Lists lists;
  Selected selected;
};
Draw draw(std::mt19937& random, const Residency::Options& o, const Ints& tokens, int most) {
  Draw out;
  out.selected.resize(static_cast<std::size_t>(o.sets));
  const std::uint32_t block = random() % 5, shared = random() % 3;
  for (int i = 0; i < o.sets * o.lists_per_set; ++i) {
    const auto set = static_cast<std::size_t>(i / o.lists_per_set);
    std::set<std::int32_t> list;
    const auto range = static_cast<std::uint32_t>(tokens[set] - o.first);
    for (int t = 0; t < most; ++t) {
      const std::uint32_t at = random() % 4 == 0 ? random() : random() % (7 + 4 * block);
      list.insert(o.first + static_cast<std::int32_t>((at + shared) % range));
    }
    out.lists.emplace_back(list.begin(), list.end());
    out.selected[set].insert(list.begin(), list.end());
  }
  return out;
}

void expect_equal(const Expected& want, const Residency::Step& got, const Rows& rows, int step) {
  EXPECT_EQ(got.hits, want.hits) << step;
  EXPECT_EQ(got.misses, want.misses) << step;
  EXPECT_EQ(rows.loaded, want.loaded) << step;
  EXPECT_EQ(rows.filled, want.filled) << step;
  EXPECT_EQ(got.evictions, want.evictions) << step;
}

// Sets of unequal and growing length, partial blocks, more insertions than room: hits, copies and
// evictions equal those of the model, and every selected token is in the slot that the step
// returned.
TEST(Residency, InsertionEqualsItsModel) {
  for (const Rule rule : {Rule::kLru, Rule::kLfu}) {
    for (const std::int32_t capacity : {0, 1, 3, 8}) {
      for (const int insert : {1, 3, 32}) {
        const Residency::Options options{.rule = rule,
                                         .sets = 2,
                                         .lists_per_set = 2,
                                         .block = 4,
                                         .first = 3,
                                         .cache_tokens = capacity * 4 + 3,
                                         .step_tokens = 24,
                                         .insert_blocks = insert};
        Rows rows(options);
        EXPECT_EQ(rows.residency->device_slots(), capacity * 4 + 24);
        InsertionModel model(options);
        std::mt19937 random(7);
        Ints tokens = {41, 30};
        for (int step = 0; step < 150; ++step) {
          const Draw d = draw(random, options, tokens, 12);
          const Expected want = model.step(d.selected, tokens);
          expect_equal(want, rows.step(d.lists, tokens), rows, step);
          for (std::int32_t& n : tokens) n += random() % 3 == 0;
        }
      }
    }
  }
}

TEST(Residency, DemandAndPreviousEqualTheirModel) {
  for (const Rule rule : {Rule::kDemandLru, Rule::kPrevious}) {
    for (const int block : {1, 4}) {
      const bool previous = rule == Rule::kPrevious;
      // The model for kPrevious has one set, because each set has separate blocks.
      const Residency::Options options{.rule = rule,
                                       .sets = previous ? 1 : 2,
                                       .lists_per_set = 2,
                                       .block = block,
                                       .first = 2,
                                       .cache_tokens = 24 * block};
      Rows rows(options);
      DemandModel model(options, previous);
      std::mt19937 random(3);
      const Ints tokens(static_cast<std::size_t>(options.sets), 117);
      for (int step = 0; step < 200; ++step) {
        const Draw d = draw(random, options, tokens, 6);
        const Expected want = model.step(d.selected, tokens);
        expect_equal(want, rows.step(d.lists, tokens), rows, step);
      }
    }
  }
}

// The worked trace of InfLLM's cache of two blocks.
TEST(Residency, DemandLruByHand) {
  Rows rows(one_token_blocks(Rule::kDemandLru, 2));
  EXPECT_EQ(rows.step({0, 1}).misses, 2);
  EXPECT_EQ(rows.step({1, 2}).misses, 1);
  const auto last = rows.step({0, 1});
  EXPECT_EQ(last.misses, 1);
  EXPECT_EQ(last.loads, (std::vector<SlotCopy>{{0, 0, 0, 1}}));  // in the slot of token 2
  EXPECT_EQ(last.evictions, 1);
}

// Among blocks that were last selected in the same step, the lower one is evicted.
TEST(Residency, DemandTiesEvictTheLowerBlock) {
  Rows rows(one_token_blocks(Rule::kDemandLru, 3));
  rows.step({4, 5, 6});
  rows.step({6, 9});  // evicts 4
  EXPECT_EQ(rows.step({5, 6, 9}).hits, 3);
}

/// Of blocks 0, 1, ..., those on the device after a trace of steps that select one block each.
std::vector<bool> resident_after(Rule rule, const Ints& trace, int blocks) {
  std::vector<bool> out;
  for (int b = 0; b < blocks; ++b) {
    Rows rows(one_token_blocks(rule, 2));
    for (const std::int32_t token : trace) rows.step(Ints{token});
    out.push_back(rows.step(Ints{b}).hits == 1);
  }
  return out;
}

// The worked traces of PQCache's cache: capacity 2, insertions A, B, A, C; and A, A, B, C.
TEST(Residency, InsertionByHand) {
  const std::vector<bool> a_and_c = {true, false, true}, b_and_c = {false, true, true};
  EXPECT_EQ(resident_after(Rule::kLfu, {0, 1, 0, 2}, 3), a_and_c);
  EXPECT_EQ(resident_after(Rule::kLru, {0, 1, 0, 2}, 3), a_and_c);
  EXPECT_EQ(resident_after(Rule::kLfu, {0, 0, 1, 2}, 3), a_and_c);
  EXPECT_EQ(resident_after(Rule::kLru, {0, 0, 1, 2}, 3), b_and_c);
}

// Within a step, the blocks with the most selected tokens are inserted last, so that they remain;
// ties go to the lower block.
TEST(Residency, TheMostSelectedBlocksStay) {
  for (const Rule rule : {Rule::kLru, Rule::kLfu}) {
    const Residency::Options options{
        .rule = rule, .block = 4, .cache_tokens = 8, .step_tokens = 16};
    Rows rows(options);
    const auto first = rows.step({0, 4, 5, 8, 9, 10, 12});  // blocks 0 to 3: 1, 2, 3 and 1 tokens
    EXPECT_EQ(first.misses, 7);
    EXPECT_EQ(rows.filled, 8);
    EXPECT_EQ(first.evictions, 0);  // none was cached before
    EXPECT_EQ(rows.step({6, 7, 11}).hits, 3);
    Rows ties(options);
    ties.step({0, 4, 8});
    EXPECT_EQ(ties.step({1, 5, 9}).hits, 2);
    EXPECT_EQ(ties.step({2, 6}).hits, 2);
  }
}

// A token in several lists of a set counts once. A block that one set's list reads is no hit for
// another set in the same step; from the next step on it is available for all sets.
TEST(Residency, CountsTokensOnceAndBlocksFromTheNextStep) {
  Rows rows({.rule = Rule::kLfu,
             .sets = 2,
             .lists_per_set = 2,
             .block = 4,
             .cache_tokens = 4,
             .step_tokens = 4});
  const auto first = rows.step({{0, 1}, {1, 2}, {3}, {}}, {8, 8});
  EXPECT_EQ(first.hits, 0);
  EXPECT_EQ(first.misses, 4);
  EXPECT_EQ(first.loads, (std::vector<SlotCopy>{{0, 0, 4, 3}, {1, 3, 4, 1}}));
  EXPECT_EQ(first.fills, (std::vector<SlotCopy>{{0, 0, 0, 4}, {1, 0, 0, 4}}));
  const auto second = rows.step({{3}, {3}, {0, 3}, {0, 7}}, {8, 8});
  EXPECT_EQ(second.hits, 3);
  EXPECT_EQ(second.misses, 1);
  EXPECT_EQ(second.slots, (Lists{{3}, {3}, {0, 3}, {0, 4}}));
}

// A partial block serves only the rows that were copied; when it has grown, the others are copied.
TEST(Residency, PartialBlocksGrow) {
  Rows rows({.rule = Rule::kLru, .block = 8, .cache_tokens = 8, .step_tokens = 4});
  rows.step({{0, 2}}, {3});
  EXPECT_EQ(rows.filled, 3);
  const auto grown = rows.step({{1, 2, 3}}, {5});
  EXPECT_EQ(grown.hits, 2);
  EXPECT_EQ(grown.misses, 1);
  EXPECT_EQ(rows.filled, 2);
  EXPECT_EQ(rows.step({{1, 3, 4}}, {5}).hits, 3);
  EXPECT_EQ(rows.filled, 0);
  for (const Rule rule : {Rule::kDemandLru, Rule::kPrevious}) {
    Rows loads({.rule = rule, .block = 8, .cache_tokens = 8});
    EXPECT_EQ(loads.step({{0}}, {3}).misses, 1);
    EXPECT_EQ(loads.loaded, 3);
    EXPECT_EQ(loads.step({{1, 2}}, {5}).hits, 2);
    EXPECT_EQ(loads.loaded, 0);
    const auto more = loads.step({{1, 3, 4}}, {5});
    EXPECT_EQ(more.hits, 1);
    EXPECT_EQ(more.misses, 2);
    EXPECT_EQ(loads.loaded, 2);
  }
}

// The elastic loading of SpeContext.
TEST(Residency, PreviousByHand) {
  Rows rows(one_token_blocks(Rule::kPrevious, 4));
  EXPECT_EQ(rows.step({0, 1, 2, 3}).misses, 4);
  const auto now = rows.step({0, 2, 4, 5});
  EXPECT_EQ(now.hits, 2);
  EXPECT_EQ(now.misses, 2);
  EXPECT_EQ(now.evictions, 2);
  EXPECT_EQ(now.loads, (std::vector<SlotCopy>{{0, 4, 1, 1}, {0, 5, 3, 1}}));
  EXPECT_EQ(now.slots, (Lists{{0, 2, 1, 3}}));
  EXPECT_EQ(rows.step({1, 3, 4, 5}).hits, 2);  // 1 and 3 were replaced in the previous step
}

// The current token is pinned while it is computed. In the next step it belongs to the previous
// step's tokens: if it is selected again, it is not loaded. Steps of 4 tokens including the current
// one need 5 slots, because the next token has a slot before the step is selected.
TEST(Residency, PreviousKeepsTheLastToken) {
  Residency::Options options = one_token_blocks(Rule::kPrevious, 4);
  options.pinned_tokens = 1;
  Rows rows(options);
  rows.pin({{20, 21}});
  EXPECT_EQ(rows.step({{3, 5, 20}}, {20}).misses, 2);
  rows.pin({{21, 22}});
  const auto next = rows.step({{3, 5, 20, 21}}, {21});
  EXPECT_EQ(next.hits, 3);
  EXPECT_EQ(next.misses, 0);
  for (std::int32_t t = 22; t < 60; ++t) {  // slots are reused continually
    rows.pin({{t, t + 1}});
    const auto step = rows.step({{3, t - 2, t - 1, t}}, {t});
    EXPECT_EQ(step.hits, 3) << t;
    EXPECT_EQ(step.misses, 0) << t;
  }
  EXPECT_EQ(rows.step({{3, 57}}, {59}).hits, 2);
  rows.pin({{3, 4}});  // is also cached
  rows.pin({});
  const auto last = rows.step({{3, 57}}, {60});
  EXPECT_EQ(last.hits, 2);
  EXPECT_EQ(last.evictions, 1);  // token 59, which was pinned
  EXPECT_EQ(rows.residency->device_slots(), 5);
}

// Each query head has separate slots: shared tokens are loaded and counted for each head.
TEST(Residency, PreviousPerList) {
  Rows rows({.rule = Rule::kPrevious,
             .sets = 2,
             .lists_per_set = 2,
             .block = 1,
             .cache_tokens = 2,
             .pinned_tokens = 1,
             .per_list = true});
  EXPECT_EQ(rows.residency->device_slots(), 5);
  EXPECT_EQ(rows.pin({{0, 1}}), 2);
  const auto first = rows.step({{0, 3, 4}, {0, 3, 5}, {3, 4}, {4}}, {9, 9});
  EXPECT_EQ(first.misses, 7);
  EXPECT_EQ(first.slots, (Lists{{0, 1, 2}, {0, 3, 4}, {1, 2}, {3}}));
  const auto second = rows.step({{3, 4}, {4, 5}, {4}, {5}}, {9, 9});
  EXPECT_EQ(second.hits, 4);
  EXPECT_EQ(second.misses, 2);
}

// Sinks and a local window: always on the device, in separate slots, neither hit nor miss.
TEST(Residency, PinnedTokensAreNeitherHitNorMiss) {
  for (const Rule rule : {Rule::kLru, Rule::kLfu, Rule::kDemandLru, Rule::kPrevious}) {
    for (const bool chunks : {false, true}) {
      Rows rows({.rule = rule,
                 .sets = 2,
                 .block = chunks ? 4 : 1,
                 .first = 2,
                 .cache_tokens = 12,
                 .pinned_tokens = 7,
                 .step_tokens = 3});
      EXPECT_EQ(rows.pin({{0, 2}, {30, 35}}), 14);
      for (std::int32_t n = 35; n < 60; ++n) {
        EXPECT_EQ(rows.pin({{0, 2}, {n - 4, n + 1}}), 2);  // the new token of each set
        const Ints list = {0, 1, 5, n - 4, n - 1, n};
        const auto step = rows.step({list, list}, {n - 4, n - 4});
        EXPECT_EQ(step.hits + step.misses, 2);
        EXPECT_EQ(step.hits, n == 35 ? 0 : 2);
      }
    }
  }
}

// A token that leaves the window is read from the host like any other.
TEST(Residency, TokensThatAreNoLongerPinnedAreMisses) {
  Residency::Options options = one_token_blocks(Rule::kLru, 4);
  options.pinned_tokens = 2;
  Rows rows(options);
  rows.pin({{8, 10}});
  EXPECT_EQ(rows.step({{8, 9}}, {8}).misses, 0);
  rows.pin({{9, 11}});
  EXPECT_EQ(rows.step({{8, 9, 10}}, {9}).misses, 1);
}

TEST(Residency, TruncatesAndClears) {
  for (const Rule rule : {Rule::kLru, Rule::kDemandLru, Rule::kPrevious}) {
    Rows rows(
        {.rule = rule, .block = 4, .cache_tokens = 12, .pinned_tokens = 2, .step_tokens = 12});
    rows.pin({{12, 14}});
    rows.step({{0, 4, 5, 6, 8, 12, 13}}, {12});
    rows.residency->truncate(Ints{6});
    rows.rewrite(6);  // another turn's tokens
    rows.pin({{12, 14}});
    const Ints list = {1, 4, 5, 6, 7, 9, 12, 13};
    const auto step = rows.step({list}, {12});
    EXPECT_EQ(step.hits, 3);
    EXPECT_EQ(step.misses, 3);
    EXPECT_EQ(rows.step({list}, {12}).misses, 0);
    rows.residency->truncate(Ints{0});
    rows.rewrite(0);
    EXPECT_EQ(rows.step({{0, 5, 9}}, {14}).hits, 0);
    EXPECT_EQ(rows.pin({{0, 2}}), 2);
  }
}

// Every rule with growing sets, a moving window of pins and turns that are truncated: `step` of
// Rows checks the slots of the tokens, and no copy exceeds the device slots.
TEST(Residency, EveryTokenIsWhereTheStepReportsIt) {
  for (const Rule rule : {Rule::kLru, Rule::kLfu, Rule::kDemandLru, Rule::kPrevious}) {
    for (const int block : {1, 5}) {
      for (const bool per_list : {false, true}) {
        if (per_list && rule != Rule::kPrevious) continue;
        const Residency::Options options{.rule = rule,
                                         .sets = 2,
                                         .lists_per_set = 3,
                                         .block = block,
                                         .first = 2,
                                         .cache_tokens = 36 * block,
                                         .pinned_tokens = 8,
                                         .step_tokens = 18,
                                         .insert_blocks = 6,
                                         .per_list = per_list};
        Rows rows(options);
        std::mt19937 random(11);
        std::int32_t n = 40;
        for (int step = 0; step < 300; ++step) {
          if (random() % 40 == 0) {
            n -= static_cast<std::int32_t>(random() % static_cast<std::uint32_t>(n - 20));
            rows.residency->truncate(Ints{n, n});
            rows.rewrite(n);
          }
          const std::int32_t window = static_cast<std::int32_t>(random() % 6);
          rows.pin({{0, 2}, {n - window, n}});
          Draw d = draw(random, options, {n, n}, 6);
          std::int64_t unpinned = 0;
          for (std::size_t i = 0; i < d.lists.size(); ++i) {
            for (const std::int32_t t : d.lists[i]) unpinned += per_list && t < n - window;
            d.lists[i].insert(d.lists[i].begin(), {0, 1});
          }
          for (const auto& set : d.selected) {
            for (const std::int32_t t : set) unpinned += !per_list && t < n - window;
          }
          const auto got = rows.step(d.lists, {n - window, n - window});
          EXPECT_EQ(got.hits + got.misses, unpinned);
          for (const auto& slots : got.slots) {
            const std::set<std::int32_t> different(slots.begin(), slots.end());
            EXPECT_EQ(different.size(), slots.size());
            EXPECT_LT(*different.rbegin(), rows.residency->device_slots());
          }
          n += static_cast<std::int32_t>(random() % 3);
        }
      }
    }
  }
}

TEST(Residency, ClonesAreIndependent) {
  for (const Rule rule : {Rule::kLru, Rule::kLfu, Rule::kDemandLru, Rule::kPrevious}) {
    Rows rows(one_token_blocks(rule, 3));
    rows.step({1, 2, 3});
    Rows copy = rows;
    rows.step({4, 5, 6});
    EXPECT_EQ(copy.step({1, 2, 3}).hits, 3);
    EXPECT_EQ(rows.step({4, 5, 6}).hits, 3);
  }
}

// A request that does not fit is refused without any change.
TEST(Residency, RejectsRequestsBeyondCapacity) {
  const auto message = [](Rows& rows, const Lists& lists, const Ints& tokens) {
    return test::message_of([&] { (void)rows.residency->step(lists, tokens); },
                            ErrorKind::kRuntime);
  };
  Rows inserted({.rule = Rule::kLru, .block = 4, .cache_tokens = 8, .step_tokens = 3});
  inserted.step({0, 1, 2});
  EXPECT_EQ(message(inserted, {{0, 10, 11, 12, 13}}, {99}),
            "a step reads 4 tokens of KV set 0 that are not on the device, whose step buffer has 3 "
            "slots");
  EXPECT_EQ(inserted.step({1, 2, 3}).hits, 3);

  Rows demanded({.rule = Rule::kDemandLru, .block = 4, .cache_tokens = 11});
  demanded.step({0, 4});
  EXPECT_EQ(message(demanded, {{8, 12, 16}}, {99}),
            "a step reads 3 blocks of 4 tokens, the device has room for 2");
  EXPECT_EQ(demanded.step({1, 5}).hits, 2);

  Rows previous(
      {.rule = Rule::kPrevious, .sets = 2, .block = 1, .cache_tokens = 2, .pinned_tokens = 1});
  previous.step({{1, 2}, {3, 4}}, {9, 9});
  EXPECT_EQ(message(previous, {{5, 6}, {5, 6, 7}}, {9, 9}),
            "a step reads 3 blocks of 1 tokens of KV set 1, the device has room for 2");
  EXPECT_EQ(previous.step({{1, 2}, {3, 4}}, {9, 9}).hits, 4);
  const auto pin = [&](const std::vector<SlotRange>& ranges) {
    return test::message_of([&] { (void)previous.residency->pin(1, ranges); }, ErrorKind::kRuntime);
  };
  EXPECT_EQ(pin({{0, 2}}), "2 pinned tokens of KV set 1, the device has 1 slots for them");

  EXPECT_EQ(
      message(previous, {{1, 9}, {}}, {9, 9}),
      "found slot 9 of KV set 0, expected pinned slots or those from 0 to 8, which are on the "
      "host");
  EXPECT_EQ(message(previous, {{2, 2}, {}}, {9, 9}),
            "found slot 2 after 2 of KV set 0, expected ascending slots");
  EXPECT_EQ(message(previous, {{2}}, {9, 9}),
            "found 1 lists and sizes of 2 KV sets, expected 2 and 2");
}

TEST(Residency, RejectsInvalidOptions) {
  const auto message = [](const Residency::Options& options) {
    return test::message_of([&] { (void)Residency::make(options); });
  };
  EXPECT_NE(message({.block = 0}).find("blocks of 0 tokens"), std::string::npos);
  EXPECT_NE(message({.cache_tokens = -1}).find("-1 cached"), std::string::npos);
  EXPECT_NE(message({.cache_tokens = 1 << 30, .pinned_tokens = 1 << 30}).find("device slots"),
            std::string::npos);
  EXPECT_NE(message({.rule = Rule::kLru, .per_list = true}).find("for each list"),
            std::string::npos);
}

}  // namespace
}  // namespace turnbench
