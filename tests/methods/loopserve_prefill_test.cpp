#include "inference/engine/engine.h"
#include "methods/parts/line_selection.h"
#include "prefill_reference.h"
#include "tests/backends/backend.h"

namespace turnbench {
namespace {

using namespace test;

TEST(LoopServePrefill, AlphaOneIsDense) {
  Layer layer(1, 2, 16, 80, 80, 1);
  EXPECT_TRUE(plan("loopserve-prefill:alpha=1", layer).empty());
}

// With at most `samples` rows every row is sampled: the recovered share is exact.
TEST(LoopServePrefill, RecoversAlphaOfTheAttention) {
  for (const char* mask : {"line", "block64"}) {
    Layer layer(2, 3, 32, 150, 60, 7);
    for (double alpha : {0.5, 0.9, 0.99}) {
      const auto patterns =
          plan(fmt::format("loopserve-prefill:alpha={},mask={}", alpha, mask), layer);
      ASSERT_EQ(patterns.size(), 6u);
      const PatternPass pass{90, 60};
      for (int h = 0; h < 6; ++h) {
        double covered = 0;
        for (int i = 90; i < 150; ++i) {
          for (int j = 0; j <= i; ++j) {
            if (pattern_contains(patterns[h], pass, i, j)) covered += layer.probability(h, i, j);
          }
          EXPECT_TRUE(pattern_contains(patterns[h], pass, i, i));
        }
        EXPECT_GE(covered, alpha * 60 * (1 - 1e-4));
        if (std::string(mask) == "line") {
          EXPECT_LT(covered, 60);
        }
      }
    }
  }
}

// One sample per dialogue and turn, for all layers and heads; another turn draws another one.
TEST(LoopServePrefill, SamplesDependOnDialogueAndTurnAlone) {
  Layer layer(1, 1, 16, 400, 400, 3);
  layer.dialogue.seed = 5;
  const auto a = plan("loopserve-prefill:samples=16", layer, 0),
             b = plan("loopserve-prefill:samples=16", layer, 3);
  EXPECT_EQ(a[0].columns, b[0].columns);
  EXPECT_EQ(a[0].offsets, b[0].offsets);
  layer.dialogue.turn = 1;
  const auto c = plan("loopserve-prefill:samples=16", layer, 0);
  EXPECT_TRUE(a[0].columns != c[0].columns || a[0].offsets != c[0].offsets);
}

TEST(LoopServePrefill, GroupsCanShareTheirLines) {
  Layer layer(2, 3, 16, 120, 120, 3);
  const auto own = plan("loopserve-prefill:alpha=0.8", layer),
             shared = plan("loopserve-prefill:alpha=0.8,gqa=group", layer);
  EXPECT_EQ(shared[0].columns, shared[2].columns);
  EXPECT_EQ(shared[3].offsets, shared[5].offsets);
  EXPECT_TRUE(own[0].columns != own[1].columns || own[0].offsets != own[1].offsets);
}

/// LoopServe's selection of lines on double-precision probabilities of the given rows of the given
/// heads: residual gains are summed again at every step.
LineSelection reference_lines(Layer& layer, int first_head, int heads, double alpha) {
  const int first = layer.n - layer.rows;
  const auto cell = [&](int i, int j) {
    double sum = 0;
    for (int h = first_head; h < first_head + heads; ++h) sum += layer.probability(h, i, j);
    return sum;
  };
  std::set<int> slash, vertical;
  const auto gain = [&](bool is_slash, int line, bool residual) {
    std::pair<double, int> out{0, 0};
    for (int i = first; i < layer.n; ++i) {
      const int j = is_slash ? i - line : line;
      if (j < 0 || j > i) continue;
      if (residual && (vertical.contains(j) || slash.contains(i - j))) continue;
      out.first += cell(i, j);
      ++out.second;
    }
    return out;
  };
  std::vector<std::pair<double, int>> order[2];  // vertical, slash
  for (int is_slash : {0, 1}) {
    for (int line = 0; line < layer.n; ++line)
      order[is_slash].emplace_back(-gain(is_slash == 1, line, false).first, line);
    std::stable_sort(order[is_slash].begin(), order[is_slash].end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
  }
  double covered = gain(true, 0, true).first;
  slash.insert(0);
  while (covered < alpha * heads * layer.rows * (1 - 1e-6)) {
    std::erase_if(order[1], [](const auto& line) { return line.second == 0; });
    const auto [gs, cs] = gain(true, order[1][0].second, true);
    const auto [gv, cv] = gain(false, order[0][0].second, true);
    const int pick = gs / std::max(1, cs) >= gv / std::max(1, cv) ? 1 : 0;
    covered += pick == 1 ? gs : gv;
    (pick == 1 ? slash : vertical).insert(order[pick][0].second);
    order[pick].erase(order[pick].begin());
  }
  return {{slash.begin(), slash.end()}, {vertical.begin(), vertical.end()}, covered, 0};
}

// At most `samples` new rows: all of them are sampled.
TEST(LoopServePrefill, EqualsItsMask) {
  std::uint64_t seed = 900;
  for (const auto& [n, rows] : {std::pair{1, 1}, {63, 63}, {64, 64}, {65, 20}, {200, 40}}) {
    for (int group : {1, 4}) {
      for (const bool shared : {false, true}) {
        Layer layer(group == 1 ? 2 : 1, group, 64, n, rows, seed += 200);
        const int heads = shared ? group : 1;
        std::vector<LineSelection> lines;
        for (int h = 0; h < layer.shape.heads; ++h)
          lines.push_back(reference_lines(layer, h / heads * heads, heads, 0.9));
        expect_equal(layer,
                     plan(fmt::format("loopserve-prefill:alpha=0.9,mask=line,gqa={}",
                                      shared ? "group" : "query_head"),
                          layer),
                     [&](int h, int i, int j) {
                       const LineSelection& l = lines[h];
                       return std::binary_search(l.columns.begin(), l.columns.end(), j) ||
                              std::binary_search(l.offsets.begin(), l.offsets.end(), i - j);
                     });
      }
    }
  }
}

TEST(LoopServePrefill, BoundSelectsDifferentLines) {
  Layer layer(1, 2, 32, 300, 60, 17);
  const auto exact = plan("loopserve-prefill:alpha=0.8", layer),
             bound = plan("loopserve-prefill:alpha=0.8,overlap=bound", layer);
  for (std::size_t h = 0; h < 2; ++h) {
    EXPECT_TRUE(bound[h].columns != exact[h].columns || bound[h].offsets != exact[h].offsets);
    EXPECT_EQ(bound[h].offsets[0], 0);
  }
}

TEST(LoopServePrefill, ContinuesAfterEarlierTurnsAndAnswers) {
  const Policies p = Method::parse("loopserve").make(),
                 kept = Method::parse("loopserve:recompute_answer=false").make();
  EXPECT_TRUE(p.prefill->reuses_cached_prompt());
  EXPECT_TRUE(p.prefill->recomputes_answer());
  EXPECT_FALSE(kept.prefill->recomputes_answer());
}

/// Records the plans of another policy, turn by turn.
class Recorder : public PrefillPolicy {
 public:
  using Plans = std::map<std::pair<std::int32_t, int>, std::vector<HeadPattern>>;
  Recorder(std::unique_ptr<PrefillPolicy> of, std::shared_ptr<Plans> plans)
      : of_(std::move(of)), plans_(std::move(plans)) {}
  std::unique_ptr<PrefillPolicy> clone() const override {
    return std::make_unique<Recorder>(of_ ? of_->clone() : nullptr, plans_);
  }
  std::vector<HeadPattern> plan(const LayerView& view) override {
    auto& plan = (*plans_)[{view.first_position, view.layer}];
    if (of_) plan = of_->plan(view);
    return plan;
  }

 private:
  std::unique_ptr<PrefillPolicy> of_;  ///< none: repeats the recorded plans
  std::shared_ptr<Plans> plans_;
};

// Reuse over turns: prefilling a whole dialogue again, with the lines of each turn applied to the
// rows of that turn, gives the same result as continuing from the cache of the earlier turns.
TEST(LoopServePrefill, EarlierTurnsKeepTheirLines) {
  const auto backend = test::make_backend(2);
  const Model model(Checkpoint::open("tiny"), *backend, DType::kF32, Math::kF32);
  Engine engine(model, *backend, {});
  std::vector<int> tokens;
  for (int i = 0; i < 420; ++i) tokens.push_back((i * 37 + i / 5) % model.config().vocab);
  const auto plans = std::make_shared<Recorder::Plans>();
  const auto turn = [&](Sequence& s, int begin, int end, int number) {
    DialogueView dialogue;
    dialogue.turn = number;
    const Pass pass{.sequence = &s,
                    .tokens = std::span(tokens).subspan(static_cast<std::size_t>(begin),
                                                        static_cast<std::size_t>(end - begin)),
                    .dialogue = &dialogue,
                    .prompt_end = true};
    return engine.prefill({&pass, 1})[0];
  };
  Policies loopserve = Method::parse("loopserve-prefill:alpha=0.8,samples=16").make();
  loopserve.prefill = std::make_unique<Recorder>(std::move(loopserve.prefill), plans);
  Sequence first = engine.make_sequence(std::move(loopserve));
  turn(first, 0, 150, 0);
  for (int i = 150; i < 160; ++i) {  // an answer, whose cache the next turn drops
    const Pass step{.sequence = &first,
                    .tokens = std::span(tokens).subspan(static_cast<std::size_t>(i), 1),
                    .kind = Pass::Kind::kDecode};
    engine.forward({&step, 1});
  }
  Sequence second = first.fork();
  second.truncate(150);
  const auto went_on = turn(second, 150, 300, 1);
  Sequence third = second.fork();
  const auto last = turn(third, 300, 420, 2);
  EXPECT_LT(third.counters.prefill_pairs, 0.95 * third.counters.prefill_pairs_dense);

  Policies again;
  again.prefill = std::make_unique<Recorder>(nullptr, plans);
  Sequence anew = engine.make_sequence(std::move(again));
  turn(anew, 0, 150, 0);
  EXPECT_EQ(turn(anew, 150, 300, 1), went_on);
  EXPECT_EQ(turn(anew, 300, 420, 2), last);
}

}  // namespace
}  // namespace turnbench
