// The engine itself loses no score: an eviction and a selection that drop only paragraphs that no
// question refers to have the answers of full attention, for every history and placement.

#include <gtest/gtest.h>

#include <algorithm>
#include <stdexcept>

#include "harness/run/unit.h"
#include "metrics/metric.h"
#include "metrics/postprocess.h"
#include "tests/harness/run/small_world.h"

namespace turnbench::test {
namespace {

/// Paragraphs by turn.
using ParagraphTexts = std::vector<std::vector<std::string>>;

/// The beginning of the sentence that a question of tiny-fact refers to: "the song of agnes is".
std::string fact_of(const Turn& turn) {
  const std::string asked = turn.question.substr(turn.question.find("the "));
  return asked.substr(0, asked.find('?')) + " is";
}

/// The paragraphs without a fact that any turn asks for; or, if `relevant`, those with such a fact.
ParagraphTexts paragraphs(const Dialogue& dialogue, bool relevant) {
  ParagraphTexts out;
  for (const Turn& turn : dialogue.turns) {
    std::vector<std::string>& of_turn = out.emplace_back();
    for (const Paragraph& paragraph : turn.contexts) {
      const bool is_asked =
          std::any_of(dialogue.turns.begin(), dialogue.turns.end(), [&](const Turn& asking) {
            return paragraph.text.find(fact_of(asking)) != std::string::npos;
          });
      if (is_asked == relevant) of_turn.push_back(paragraph.text);
    }
  }
  return out;
}

/// Whether each position up to the end of a prompt is kept: those outside of the given paragraphs.
std::vector<bool> kept_positions(const LayerView& view, const ParagraphTexts& dropped) {
  const std::span<const int> tokens = view.dialogue.tokens;
  std::string text;
  std::vector<std::size_t> begins;
  for (const int token : tokens) {
    begins.push_back(text.size());
    text += view.dialogue.token_text(token);
  }
  begins.push_back(text.size());
  std::vector<bool> kept(tokens.size(), true);
  for (int turn = 0; turn <= view.dialogue.turn; ++turn) {
    for (const std::string& paragraph : dropped.at(static_cast<std::size_t>(turn))) {
      const std::size_t begin = text.find(paragraph);
      if (begin == std::string::npos) throw std::runtime_error("no such paragraph: " + paragraph);
      const std::size_t end = begin + paragraph.size();
      for (std::size_t i = 0; i < tokens.size(); ++i)
        if (begins[i] >= begin && begins[i + 1] <= end) kept[i] = false;
    }
  }
  return kept;
}

/// The slots of a set whose positions are kept, including all positions after the end of `kept`.
std::vector<std::int32_t> kept_slots(const KvHeadCache& set, const std::vector<bool>& kept) {
  std::vector<std::int32_t> out;
  for (std::int32_t slot = 0; slot < set.size(); ++slot) {
    const auto position = static_cast<std::size_t>(set.position(slot));
    if (position >= kept.size() || kept[position]) out.push_back(slot);
  }
  return out;
}

class EvictsParagraphs : public EvictionPolicy {
 public:
  explicit EvictsParagraphs(const ParagraphTexts& dropped) : dropped_(dropped) {}
  std::unique_ptr<EvictionPolicy> clone() const override {
    return std::make_unique<EvictsParagraphs>(*this);
  }
  KeepSets after_prefill(const LayerView& view) override {
    const std::vector<bool> kept = kept_positions(view, dropped_);
    KeepSets out;
    for (const KvHeadCache& set : view.sets) out.slots.push_back(kept_slots(set, kept));
    return out;
  }

 private:
  const ParagraphTexts& dropped_;
};

class SkipsParagraphs : public SelectionPolicy {
 public:
  explicit SkipsParagraphs(const ParagraphTexts& dropped) : dropped_(dropped) {}
  std::unique_ptr<SelectionPolicy> clone() const override {
    return std::make_unique<SkipsParagraphs>(*this);
  }
  DeviceNeeds demand(const PromptSize& size, const LayerView*) const override {
    return {.step_tokens = size.tokens};
  }
  void after_prefill(const LayerView& view) override { kept_ = kept_positions(view, dropped_); }
  Selection select(const LayerView& view) override {
    Selection out;
    for (const KvHeadCache& set : view.sets) out.slots.push_back(kept_slots(set, kept_));
    return out;
  }

 private:
  const ParagraphTexts& dropped_;
  std::vector<bool> kept_;
};

enum class Way { kFull, kEviction, kSelection };

/// A separate method for each dialogue, with the names of the paragraphs.
MethodInfo method_info(Way way, const ParagraphTexts& dropped, bool host) {
  MethodInfo out{.name = way == Way::kFull ? "nothing" : "paragraphs",
                 .summary = "",
                 .paper = "",
                 .budget_unit = "",
                 .deviations = "",
                 .parameters = {},
                 .make = [way, &dropped](const Parameters&) {
                   Policies policies;
                   if (way == Way::kEviction)
                     policies.eviction = std::make_unique<EvictsParagraphs>(dropped);
                   if (way == Way::kSelection)
                     policies.selection = std::make_unique<SkipsParagraphs>(dropped);
                   return policies;
                 }};
  if (host) out.placement = {{"placement", "host"}};
  return out;
}

/// The scores of a dialogue's turns (0 to 1), and the largest share of the prompt that its steps
/// read.
struct Outcome {
  std::vector<double> scores;
  double read_share = 0;
};

class Cliff : public testing::TestWithParam<std::tuple<History, bool>> {
 protected:
  static constexpr int kTurns = 3;

  static std::vector<Dialogue> dialogues() {
    std::vector<Dialogue> out = make_tiny_dialogues(
        TinyTask::kFact, {.turns = kTurns, .length = 900, .count = 6, .seed = 5});
    for (std::size_t i = 0; i < out.size(); ++i) {
      for (Turn& turn : out[i].turns) {
        turn.position = i % 3 == 0   ? Position::kBegin
                        : i % 3 == 1 ? Position::kMiddle
                                     : Position::kEnd;
      }
    }
    return out;
  }

  Outcome run(const Dialogue& dialogue, Way way, bool relevant = false) const {
    const auto [history, host] = GetParam();
    const ParagraphTexts dropped = paragraphs(dialogue, relevant);
    const MethodInfo info = method_info(way, dropped, host);
    const Method method = Method::of(info);
    const UnitResult result =
        world_.run({{&dialogue, {{"cell", &method, history, Answers::kGold}}}},
                   {.max_prompt_tokens = 4000, .max_new_tokens = 20});
    Outcome out;
    for (const Record& r : result.records) {
      if (r.status == Record::Status::kNoValue) continue;  // history=dense: earlier turns
      EXPECT_EQ(r.status, Record::Status::kOk) << r.error;
      const Turn& turn = dialogue.turns[r.turn];
      const std::string answer = find_postprocess("last_value", "").apply(r.answer);
      out.scores.push_back(
          score_of(find_metric("qa_f1", ""), {answer, turn.references, turn.classes, nullptr})
              .value_or(-1));
      for (const auto& [name, value] : r.counters) {
        if (name == "attended_tokens")
          out.read_share = std::max(out.read_share, value / r.prompt_tokens);
      }
    }
    return out;
  }

 private:
  SmallWorld world_;
};

double mean(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return sum / static_cast<double>(values.size());
}

TEST_P(Cliff, EvictingIrrelevantParagraphsKeepsTheScore) {
  std::vector<double> full, evicted, selected, broken;
  for (const Dialogue& dialogue : dialogues()) {
    const auto add = [](std::vector<double>& to, const Outcome& from) {
      to.insert(to.end(), from.scores.begin(), from.scores.end());
    };
    const Outcome all = run(dialogue, Way::kFull), kept = run(dialogue, Way::kEviction),
                  read = run(dialogue, Way::kSelection),
                  wrong = run(dialogue, Way::kSelection, /*relevant=*/true);
    EXPECT_GE(all.read_share, 1);
    // Three of about twenty paragraphs remain; with a cache that is compressed once, the paragraphs
    // of later turns also remain.
    EXPECT_LT(kept.read_share, std::get<0>(GetParam()) == History::kCompressOnce ? 0.9 : 0.6);
    EXPECT_LT(read.read_share, 0.6);
    add(full, all);
    add(evicted, kept);
    add(selected, read);
    add(broken, wrong);
  }
  ASSERT_EQ(evicted.size(), full.size());
  ASSERT_EQ(selected.size(), full.size());
  EXPECT_GT(mean(full), 0.9);
  EXPECT_NEAR(mean(evicted), mean(full), 0.02);
  EXPECT_NEAR(mean(selected), mean(full), 0.02);
  EXPECT_LT(mean(broken), 0.4);  // the test detects a loss
}

INSTANTIATE_TEST_SUITE_P(All, Cliff,
                         testing::Combine(testing::Values(History::kReprefill,
                                                          History::kCompressOnce,
                                                          History::kRecompress, History::kDense),
                                          testing::Bool()),
                         [](const testing::TestParamInfo<Cliff::ParamType>& info) {
                           std::string name(name_of(std::get<0>(info.param)));
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name + (std::get<1>(info.param) ? "_host" : "_device");
                         });

}  // namespace
}  // namespace turnbench::test
