// Methods compose: any prefill policy with any eviction or selection policy, as a list in a
// manifest or with a plus sign.

#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>

#include "common/json.h"
#include "tests/inference/conversation.h"
#include "tests/methods/settings.h"

namespace turnbench {
namespace {

using namespace test;

enum class Size { kSmall, kOff };

/// A method with settings that have an effect on 200 tokens, or switched off.
std::string spec(const MethodInfo& info, Size size) {
  Values values = small_values(info);
  for (const ParameterInfo& p : info.parameters) {
    const Setting* off = size == Size::kOff ? find(kOff, p) : nullptr;
    if (off) values[std::string(p.name)] = off->value;
  }
  return spec_of(info, values);
}

class Composition : public testing::Test {
 protected:
  Composition() {
    for (const MethodInfo& info : all_methods()) {
      const Policies p = Method::parse(std::string(info.name)).make();
      const bool caches = p.eviction || p.selection;
      if (p.has_sparse_prefill() && !caches) prefills_.push_back(&info);
      if (!p.has_sparse_prefill() && caches) caches_.push_back(&info);
    }
  }

  struct Run {
    std::vector<Logits> logits;
    double kept;
  };
  Run run(const std::string& text) {
    Conversation c(machine_.engine, Method::parse(text).make());
    Run out{{c.turn(prompt_)}, c.sequence.mean_tokens()};
    for (int token : answer_) out.logits.push_back(c.answer(token));
    return out;
  }

  static float distance(const Run& a, const Run& b) {
    float worst = 0;
    for (std::size_t i = 0; i < a.logits.size(); ++i) {
      const float d = test::distance(a.logits[i], b.logits[i]);
      if (!(d <= worst)) worst = d;
    }
    return worst;
  }

  std::vector<const MethodInfo*> prefills_, caches_;
  Machine machine_{"llama3"};
  const std::vector<int> prompt_ = synthetic_tokens(200, 1), answer_ = synthetic_tokens(6, 2);
};

TEST_F(Composition, EveryPairWithFullBudgetsEqualsFullAttention) {
  const Run full = run("full");
  ASSERT_GE(prefills_.size() * caches_.size(), 78u);
  for (const MethodInfo* a : prefills_) {
    for (const MethodInfo* b : caches_) {
      const std::string pair = spec(*a, Size::kOff) + "+" + spec(*b, Size::kOff);
      EXPECT_LE(distance(run(pair), full), 1e-5) << pair;
    }
  }
}

// In a pair each half has the same effect as alone: the prefill with a cache that keeps everything,
// and the cache size with a sparse prefill.
TEST_F(Composition, EveryPairKeepsBothHalves) {
  std::map<std::string, double> alone;
  for (const MethodInfo* b : caches_)
    alone[std::string(b->name)] = run(spec(*b, Size::kSmall)).kept;
  for (const MethodInfo* a : prefills_) {
    const Run sparse = run(spec(*a, Size::kSmall));
    for (const MethodInfo* b : caches_) {
      const std::string prefill = spec(*a, Size::kSmall) + "+";
      EXPECT_LE(distance(run(prefill + spec(*b, Size::kOff)), sparse), 1e-5)
          << prefill << spec(*b, Size::kOff);
      const Run both = run(prefill + spec(*b, Size::kSmall));
      for (const Logits& logits : both.logits) EXPECT_TRUE(all_finite(logits));
      EXPECT_EQ(both.kept, alone[std::string(b->name)]) << prefill << b->name;
      EXPECT_EQ(distance(both, run(spec(*b, Size::kSmall) + "+" + spec(*a, Size::kSmall))), 0)
          << "the order of the parts does not matter";
    }
  }
}

TEST_F(Composition, ListInAManifestEqualsThePlusForm) {
  const Json list = parse_json(R"([{"name": "minference", "vertical": 30, "slash": 100},
                                   {"name": "adakv", "scorer": "h2o", "budget": 24, "window": 4},
                                   {"name": "oracle", "budget": "1/5"}])",
                               "m");
  const Method method = Method::parse(JsonView(list, "m"));
  EXPECT_EQ(method.canonical(),
            Method::parse("minference:vertical=30,slash=100+adakv:scorer=h2o,budget=24,window=4+"
                          "oracle:budget=0.2")
                .canonical());
  EXPECT_EQ(run(method.canonical()).kept, 24);
}

}  // namespace
}  // namespace turnbench
