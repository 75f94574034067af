// InfLLM, compared with a reference in double precision without a cache, and with full attention.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <nlohmann/json.hpp>
#include <numeric>
#include <utility>

#include "common/file.h"
#include "common/json.h"
#include "common/random.h"
#include "inference/model/rope.h"
#include "methods/method.h"
#include "tests/inference/conversation.h"
#include "tests/methods/plain_decoder.h"

namespace turnbench {
namespace {

using namespace test;
using Ints = std::vector<int>;

struct PlainSettings {
  int sinks, block, local, topk, representatives, rows;
  bool by_head;

  std::string spec() const {
    return fmt::format("infllm:init={},block={},local={},topk={},repr={},exc={},perhead={}", sinks,
                       block, local, topk, representatives, rows, by_head);
  }
};

/// The indices of the k highest scores in ascending order; ties go to the first.  closest: the
/// smallest difference between a selected and a rejected score.
Ints greatest(const Row& scores, int k, double& closest) {
  Ints order(scores.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return scores[a] > scores[b]; });
  const auto count = static_cast<std::size_t>(k);
  if (count < order.size()) {
    if (count > 0) closest = std::min(closest, scores[order[count - 1]] - scores[order[count]]);
    order.resize(count);
  }
  std::sort(order.begin(), order.end());
  return order;
}

/// The attention settings of a layer, without its contents.
struct PlainLayer {
  int heads, sets, dim;
  std::function<Row(const Row&, int)> rotated;  ///< to a position
};

/// Reference of a layer: every token with its key before RoPE, and its location.
class PlainInfLlm {
 public:
  PlainInfLlm(PlainLayer layer, const PlainSettings& s) : layer_(std::move(layer)), s_(s) {}

  std::vector<Row> attend(const PlainRows& rows) {
    std::vector<Row> out;
    attend_in_blocks(rows, 0, rows.queries.size(), out);
    return out;
  }

  /// The rows of a prompt: the last one is computed separately, as in GreedySearch.
  std::vector<Row> attend_prompt(const PlainRows& rows) {
    std::vector<Row> out;
    const std::size_t last = rows.queries.size() - 1;
    attend_in_blocks(rows, 0, last, out);
    attend_in_blocks(rows, last, last + 1, out);
    return out;
  }

  double closest = INFINITY;  ///< see `greatest`
  std::size_t blocks() const { return representatives_.size(); }
  std::vector<std::vector<Ints>> chosen;  ///< [blocks of rows][query heads]

 private:
  static double dot(const Row& a, const Row& b) {
    return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
  }
  Row head_of(const Row& x, int head) const {
    const auto at = x.begin() + std::ptrdiff_t{head} * layer_.dim;
    return {at, at + layer_.dim};
  }
  int heads() const { return layer_.heads; }
  int set_of(int head) const { return head * layer_.sets / layer_.heads; }
  int first_loose() const { return sinks_ + static_cast<int>(representatives_.size()) * s_.block; }

  void attend_in_blocks(const PlainRows& rows, std::size_t from, std::size_t end,
                        std::vector<Row>& out) {
    for (std::size_t at = from; at < end; at += static_cast<std::size_t>(s_.rows))
      attend_block(rows, at, std::min(end, at + static_cast<std::size_t>(s_.rows)), out);
  }

  void attend_block(const PlainRows& rows, std::size_t from, std::size_t end,
                    std::vector<Row>& out) {
    const int first = rows.first + static_cast<int>(from), count = static_cast<int>(end - from);
    for (std::size_t r = from; r < end; ++r) {
      keys_.push_back(rows.keys[r]);
      values_.push_back(rows.values[r]);
      masses_.emplace_back(static_cast<std::size_t>(heads()), 0.0);
    }
    std::vector<std::vector<Row>> far(static_cast<std::size_t>(heads()));  // [head][row]
    std::vector<Row> means;
    for (int h = 0; h < heads(); ++h) {
      Row mean(static_cast<std::size_t>(layer_.dim), 0.0);
      for (std::size_t r = from; r < end; ++r) {
        far[h].push_back(layer_.rotated(head_of(rows.queries[r], h), s_.local - 1));
        for (std::size_t d = 0; d < mean.size(); ++d) mean[d] += far[h].back()[d] / count;
      }
      means.push_back(mean);
    }
    const std::vector<Ints>& of_heads = chosen.emplace_back(choose(means));
    for (int r = 0; r < count; ++r) {
      const int position = first + r;
      Row mixed;
      for (int h = 0; h < heads(); ++h) {
        const Row near =
            layer_.rotated(head_of(rows.queries[from + static_cast<std::size_t>(r)], h), position);
        const Row value = attend_row(near, far[h][r], position, h, of_heads[h]);
        mixed.insert(mixed.end(), value.begin(), value.end());
      }
      out.push_back(mixed);
    }
    leave();
  }

  std::vector<Ints> choose(const std::vector<Row>& means) {
    std::vector<Row> scores(static_cast<std::size_t>(heads()));
    for (std::size_t h = 0; h < scores.size(); ++h) {
      for (const std::vector<Row>& block : representatives_)
        scores[h].push_back(dot(means[h], block[h]));
    }
    std::vector<Ints> out;
    if (!s_.by_head) {
      Row sums(representatives_.size(), 0.0);
      for (const Row& of_head : scores) {
        for (std::size_t b = 0; b < sums.size(); ++b) sums[b] += of_head[b];
      }
      out.assign(scores.size(), greatest(sums, s_.topk, closest));
      return out;
    }
    for (const Row& of_head : scores) out.push_back(greatest(of_head, s_.topk, closest));
    return out;
  }

  Row attend_row(const Row& near, const Row& far, int position, int head, const Ints& chosen) {
    const double scale = 1 / std::sqrt(static_cast<double>(layer_.dim));
    std::vector<std::pair<int, double>> seen;  // token, logit
    for (int j = 0; j <= position; ++j) {
      const Row key = head_of(keys_[j], set_of(head));
      if (position - j < s_.local) {
        seen.emplace_back(j, scale * dot(near, layer_.rotated(key, j)));
        continue;
      }
      const bool is_read = j < sinks_ || j >= first_loose() ||
                           std::count(chosen.begin(), chosen.end(), (j - sinks_) / s_.block) > 0;
      if (is_read) seen.emplace_back(j, scale * dot(far, key));
    }
    double top = -INFINITY, sum = 0;
    for (const auto& [j, logit] : seen) top = std::max(top, logit);
    for (auto& [j, logit] : seen) sum += logit = std::exp(logit - top);
    Row out(static_cast<std::size_t>(layer_.dim), 0.0);
    for (const auto& [j, weight] : seen) {
      const auto token = static_cast<std::size_t>(j);
      const Row value = head_of(values_[token], set_of(head));
      for (std::size_t d = 0; d < out.size(); ++d) out[d] += weight / sum * value[d];
      if (position - j < s_.local) masses_[token][head] += weight / sum;
    }
    return out;
  }

  /// Tokens that leave the window become sinks, then blocks.
  void leave() {
    const int tokens = static_cast<int>(keys_.size());
    while (sinks_ < s_.sinks && representatives_.empty() && tokens - sinks_ > s_.local) ++sinks_;
    while (tokens - first_loose() - s_.block >= s_.local) {
      std::vector<Row> block;
      for (int h = 0; h < heads(); ++h) {
        Row masses;
        for (int i = 0; i < s_.block; ++i) masses.push_back(masses_[first_loose() + i][h]);
        Row mean(static_cast<std::size_t>(layer_.dim), 0.0);
        const Ints best = greatest(masses, s_.representatives, closest);
        for (int i : best) {
          const Row key = head_of(keys_[first_loose() + i], set_of(h));
          for (std::size_t d = 0; d < mean.size(); ++d)
            mean[d] += key[d] / static_cast<double>(best.size());
        }
        block.push_back(mean);
      }
      representatives_.push_back(block);
    }
  }

  PlainLayer layer_;
  PlainSettings s_;
  std::vector<Row> keys_, values_, masses_;  // [tokens]
  int sinks_ = 0;
  std::vector<std::vector<Row>> representatives_;  // [blocks][heads]
};

// Two turns and their answers: window, sinks, selected and other blocks, tokens between the window
// and the blocks, and blocks that are completed within an answer.
TEST(InfLlm, EqualsAPlainReference) {
  Machine machine("llama3");
  PlainDecoder decoder((kModels / "llama3").string());
  decoder.config.layers = machine.model.config().layers;
  const int first = is_emulated() ? 40 : 90;
  std::vector<PlainSettings> all = {{3, 8, 16, 2, 2, 8, false}};
  if (!is_emulated()) {
    all = {{3, 8, 16, 2, 2, 8, false}, {3, 8, 16, 2, 8, 16, true},  {0, 4, 10, 3, 1, 7, false},
           {5, 6, 7, 1, 3, 1, false},  {2, 5, 30, 1, 2, 30, false}, {8, 16, 4, 100, 4, 4, false},
           {4, 3, 12, 4, 2, 5, true},  {0, 1, 2, 8, 1, 2, false}};
  }
  for (const PlainSettings& s : all) {
    SCOPED_TRACE(s.spec());
    std::vector<PlainInfLlm> layers(
        static_cast<std::size_t>(decoder.config.layers),
        PlainInfLlm({decoder.config.heads, decoder.config.kv_heads, decoder.config.head_dim,
                     [&](const Row& x, int p) { return decoder.rotated(x, p); }},
                    s));
    decoder.attention = [&](const PlainRows& rows) {
      return layers[rows.layer].attend_prompt(rows);
    };
    std::vector<PlainSets> unused(layers.size(), PlainSets(2));
    int tokens = 0;
    const auto want = [&](std::span<const int> said) {
      const Row logits =
          decoder.forward(unused, said, tokens, [](int, PlainSets&, const Attention&) {});
      tokens += static_cast<int>(said.size());
      return Logits(logits.begin(), logits.end());
    };
    Conversation c(machine.engine, Method::parse(s.spec()).make());
    const auto closest = [&] {
      double out = INFINITY;
      for (const PlainInfLlm& layer : layers) out = std::min(out, layer.closest);
      return out;
    };
    for (int turn = 0; turn < 2; ++turn) {
      const std::vector<int> prompt =
          synthetic_tokens(turn == 0 ? first : 21, static_cast<std::uint64_t>(turn));
      const Logits wanted = want(prompt);
      ASSERT_LE(test::distance(c.turn(prompt), wanted), 2e-5)
          << "turn " << turn << ", closest scores " << closest();
      int step = 0;
      for (const int token : synthetic_tokens(is_emulated() ? 10 : 20, 7)) {
        const std::array said = {token};
        const Logits next = want(said);
        ASSERT_LE(test::distance(c.answer(token), next), 2e-5)
            << "turn " << turn << ", step " << step << ", closest scores " << closest();
        ++step;
      }
    }
    EXPECT_GT(layers[0].blocks(), 1u);
  }
}

// The reference here has the results of InfLLM's code.
TEST(InfLlm, PlainReferenceEqualsTheOfficialCode) {
  const std::string path = TURNBENCH_SOURCE_DIR "/tests/data/methods/infllm.json";
  const Json golden = parse_json(read_file(path), path);
  for (const Json& c : golden["cases"]) {
    SCOPED_TRACE("seed " + c["seed"].dump());
    const int heads = c["heads"], sets = c["sets"], dim = c["dim"];
    RopeConfig rope;
    rope.theta = 10'000;
    const std::vector<float> frequencies = rope_frequencies(rope, dim);
    const auto rotated = [&](const Row& x, int position) {
      Row out = x;
      for (std::size_t i = 0; i < frequencies.size(); ++i) {
        const std::size_t j = i + frequencies.size();
        const double angle = double{static_cast<float>(position) * frequencies[i]};
        out[i] = x[i] * std::cos(angle) - x[j] * std::sin(angle);
        out[j] = x[j] * std::cos(angle) + x[i] * std::sin(angle);
      }
      return out;
    };
    PlainInfLlm plain({heads, sets, dim, rotated}, {c["init"], c["block"], c["local"], c["topk"],
                                                    c["repr"], c["exc"], c["perhead"]});
    Random random = Random::from({c["seed"].get<std::uint64_t>()});
    const auto draw = [&](int rows, int width, int scale) {
      std::vector<Row> out(static_cast<std::size_t>(rows));
      for (Row& row : out) {
        for (int i = 0; i < width; ++i)
          row.push_back(
              (static_cast<int>(random.below(2 * static_cast<std::uint64_t>(scale) + 1)) - scale) /
              256.0);
      }
      return out;
    };
    std::vector<double> sums;
    PlainRows rows;
    for (const int count : c["appends"]) {
      rows.queries = draw(count, heads * dim, 600);
      rows.keys = draw(count, sets * dim, 600);
      rows.values = draw(count, sets * dim, 256);
      for (const Row& row : plain.attend(rows)) {
        for (int h = 0; h < heads; ++h) {
          double& sum = sums.emplace_back(0);
          for (int d = 0; d < dim; ++d) sum += (d + 1) * row[h * dim + d];
        }
      }
      rows.first += count;
    }
    EXPECT_GT(plain.closest, 1e-4) << "no choice hangs on rounding";
    EXPECT_EQ(plain.blocks(), c["blocks"].get<std::size_t>());
    std::vector<std::vector<Ints>> chosen = plain.chosen;
    if (!c["perhead"].get<bool>()) {
      for (std::vector<Ints>& lists : chosen) lists.resize(1);
    }
    EXPECT_EQ(chosen, c["chosen"].get<std::vector<std::vector<Ints>>>());
    const auto want = c["sums"].get<std::vector<double>>();
    ASSERT_EQ(sums.size(), want.size());
    for (std::size_t i = 0; i < sums.size(); ++i) ASSERT_NEAR(sums[i], want[i], 1e-4) << i;
  }
}

// The official decoding passes the last token of a prompt separately, like those of an answer.
TEST(InfLlm, LastPromptTokenSelectsLikeAStep) {
  Machine machine("llama3");
  const std::string spec = "infllm:init=3,block=8,local=20,topk=2,repr=2,exc=16";
  // Whole blocks of 16 rows and one token, so that both prompts have the same blocks before x.
  const std::vector<int> ids = synthetic_tokens(8 * 16 + 1, 5);
  for (const int x : synthetic_tokens(is_emulated() ? 1 : 12, 6)) {
    Conversation step(machine.engine, Method::parse(spec).make());
    step.turn(ids);
    const Logits want = step.answer(x);
    std::vector<int> longer = ids;
    longer.push_back(x);
    Conversation prompt(machine.engine, Method::parse(spec).make());
    EXPECT_LE(test::distance(prompt.turn(longer), want), 2e-5) << x;
  }
}

// A cache that is kept between turns keeps the sizes of its first prompt.  The official code sets
// them from all tokens of this prompt except the last one.
TEST(InfLlm, RatiosOfAKeptCacheReferToTheFirstPrompt) {
  Machine machine("llama3");
  const int n = 107;  // (106 - 7) / 5 = 19.8: a window of 9, and 10.8 tokens are 2 blocks of 8
  Conversation share(machine.engine, Method::parse("infllm:budget=1/5,init=7,block=8").make()),
      given(machine.engine, Method::parse("infllm:init=7,block=8,local=9,topk=2").make());
  for (const int tokens : {n, 200}) {
    const std::vector<int> prompt = synthetic_tokens(tokens, static_cast<std::uint64_t>(tokens));
    EXPECT_EQ(share.turn(prompt), given.turn(prompt)) << tokens;
    for (const int token : synthetic_tokens(3, 7))
      EXPECT_EQ(share.answer(token), given.answer(token));
    EXPECT_EQ(share.sequence.counters.attended_tokens, given.sequence.counters.attended_tokens);
  }
}

/// Two turns and their answers.
std::vector<Logits> two_turns(Conversation& c, int prompt, int steps) {
  std::vector<Logits> out = {c.turn(synthetic_tokens(prompt, 1))};
  for (const int token : synthetic_tokens(steps, 2)) out.push_back(c.answer(token));
  out.push_back(c.turn(synthetic_tokens(33, 3)));
  for (const int token : synthetic_tokens(steps, 4)) out.push_back(c.answer(token));
  return out;
}

// A step finds the tokens that it reads, wherever they come from; missing tokens are transferred in
// whole blocks.
TEST(InfLlm, WorkingSetsFetchBlocks) {
  Machine machine("llama3");
  const int steps = is_emulated() ? 3 : 30;
  for (const bool by_head : {false, true}) {
    const std::string spec =
        fmt::format("infllm:init=3,block=8,local=20,topk=3,repr=2,exc=10,perhead={}", by_head);
    Conversation device(machine.engine, Method::parse(spec + ",placement=device").make());
    const std::vector<Logits> want = two_turns(device, 150, steps);
    EXPECT_EQ(device.sequence.counters.ledger.total().bytes(), 0);
    for (const char* cache : {"0", "48", "4096"}) {
      if (is_emulated() && cache != std::string_view("48")) continue;
      Conversation host(machine.engine, Method::parse(spec + ",cache_tokens=" + cache).make());
      EXPECT_TRUE(two_turns(host, 150, steps) == want) << cache;
      EXPECT_EQ(host.sequence.counters.attended_tokens, device.sequence.counters.attended_tokens);
      const Residency::Options& options = host.sequence.at(0).kv.working_set()->options();
      EXPECT_EQ(options.rule, Residency::Rule::kDemandLru);
      EXPECT_EQ(options.block, 8);
      EXPECT_EQ(options.first, 3);
      EXPECT_EQ(options.lists_per_set, by_head ? 4 : 1);
      const LedgerEntry total = host.sequence.counters.ledger.total();
      EXPECT_GT(total.hits, 0);
      EXPECT_GT(total.misses, 0);
      EXPECT_EQ(total.index_bytes, 0);
      EXPECT_EQ(total.misses % 8, 0);
      if (by_head) continue;  // a block is transferred for all sets, even if one set reads it
      const PageLayout& layout = host.sequence.sets(0)[0].layout();
      const std::size_t position = machine.backend->memory()->is_host() ? 0 : 4;
      EXPECT_EQ(
          total.kv_fetch_bytes,
          total.misses * static_cast<std::int64_t>(2 * layout.row_bytes(KvRow::kKey) + position))
          << "a key before RoPE and a value";
    }
  }
}

// 10,000 tokens and a budget of a fifth, without 32 sinks: a window of 996, 8 blocks of 70, 13
// tokens between.
TEST(InfLlm, ReadsItsBudget) {
  Machine machine("qwen2");
  const auto read = [&](const std::string& spec, int n) {
    Conversation c(machine.engine, Method::parse(spec).make());
    const std::vector<int> tokens = synthetic_tokens(n, 1);
    machine.engine.fill_random_kv(c.sequence, tokens, {}, 1);
    c.answer(5);
    return c.sequence.counters.mean_attended();
  };
  EXPECT_EQ(read("infllm:budget=0.2,init=32,repr=1", 10'000), 996 + 32 + 8 * 128 + 13);
  // 126 tokens: a window of 62, a block of two, 43 tokens between.
  EXPECT_EQ(read("infllm:budget=0.35,init=32,repr=1", 392), 62 + 32 + 128 + 43);
  // 1,024 tokens: a window of 512, 4 blocks of 26.
  EXPECT_EQ(read("infllm:init=128", 4000), 512 + 128 + 4 * 128 + (4000 - 128 - 26 * 128 + 1 - 512));
  EXPECT_EQ(read("infllm:local=4096,topk=16", 6000),
            4096 + 128 + 13 * 128 + (6000 - 128 - 13 * 128 + 1 - 4096));
}

// All tokens are within the window, or there is no block to select.
TEST(InfLlm, ShortDialoguesAreFullAttention) {
  Machine machine("llama3");
  const int steps = is_emulated() ? 2 : 10, all = 60 + 2 * steps + 33;
  Conversation full(machine.engine, {}),
      window(machine.engine, Method::parse(fmt::format("infllm:local={},exc=16", all)).make());
  const std::vector<Logits> want = two_turns(full, 60, steps), got = two_turns(window, 60, steps);
  for (std::size_t i = 0; i < want.size(); ++i) EXPECT_LE(test::distance(got[i], want[i]), 1e-5);
  EXPECT_EQ(window.sequence.counters.attended_tokens, full.sequence.counters.attended_tokens);
  EXPECT_EQ(window.sequence.counters.prefill_pairs, full.sequence.counters.prefill_pairs);
}

// The window has half of the budget, but no more tokens than there are.
TEST(InfLlm, MemoryIsBoundedByThePrompt) {
  const Policies p = Method::parse("infllm:budget=1000000000").make();
  const DeviceNeeds needs =
      p.selection->demand({.shape = {.layers = 1, .heads = 4, .kv_heads = 2, .head_dim = 16},
                           .sets = 2,
                           .tokens = 200,
                           .prompt_tokens = 200},
                          nullptr);
  EXPECT_LT(needs.pinned_tokens, 2000);
  EXPECT_LT(needs.step_tokens, 2000);
  EXPECT_LT(needs.index_bytes, 1 << 20);
}

}  // namespace
}  // namespace turnbench
