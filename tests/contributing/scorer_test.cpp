// The scorer of CONTRIBUTING.md under the methods with a parameter "scorer".

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/message_of.h"
#include "tests/methods/conformance.h"
#include "tests/methods/prescribed.h"

namespace turnbench {
namespace {

using namespace test;

constexpr int kPrompt = 200, kBehind = 8;

/// Negative squared norms of the keys before the window, summed over KV heads.
std::vector<double> norms(const Layer& layer, std::size_t first_set, std::size_t sets) {
  std::vector<double> out(kPrompt - kBehind, 0);
  const auto head_dim = static_cast<std::size_t>(layer.shape.head_dim);
  for (std::size_t s = first_set; s < first_set + sets; ++s) {
    for (std::size_t i = 0; i < out.size() * head_dim; ++i)
      out[i / head_dim] -= static_cast<double>(layer.keys[s][i]) * layer.keys[s][i];
  }
  return out;
}

TEST(KeyNorm, KeepsTheSmallestKeys) {
  Layer layer(2, 2, 32, kPrompt, kPrompt, 1);
  const auto sets = kept("key-norm:budget=50", layer);
  for (std::size_t s = 0; s < 2; ++s) {
    const auto scores = norms(layer, s, 1);
    const Ints want = and_tail(best(scores, 50 - kBehind), kPrompt - kBehind, kPrompt);
    EXPECT_TRUE(equal_by_score(sets[s], want, scores, kPrompt));
  }
}

TEST(KeyNorm, ScoresForOtherMethods) {
  Layer layer(2, 2, 32, kPrompt, kPrompt, 1);
  const std::string tail = ":budget=50,window=8,scorer=key-norm";
  const auto alone = kept("key-norm:budget=50", layer);
  EXPECT_EQ(kept("adakv" + tail + ",floor_alpha=1", layer), alone);
  EXPECT_EQ(kept("pyramidkv" + tail + ",beta=1", layer), alone);

  // Chunks of one token: the best of both KV heads together.
  const auto scores = norms(layer, 0, 2);
  const Ints want = and_tail(best(scores, 50 - kBehind), kPrompt - kBehind, kPrompt);
  EXPECT_TRUE(equal_by_score(kept("chunkkv" + tail + ",chunk=1", layer)[0], want, scores, kPrompt));

  // Without a floor, AdaKV keeps the joint best tokens of both sets.
  std::vector<double> joint = norms(layer, 0, 1);
  const auto second = norms(layer, 1, 1);
  joint.insert(joint.end(), second.begin(), second.end());
  Ints chosen;
  const auto sets = kept("adakv" + tail + ",floor_alpha=0", layer);
  for (std::size_t s = 0; s < 2; ++s) {
    for (const int slot : sets[s]) {
      if (slot < kPrompt - kBehind)
        chosen.push_back(static_cast<int>(s) * (kPrompt - kBehind) + slot);
    }
  }
  EXPECT_TRUE(same_by_score(chosen, best(joint, 2 * (50 - kBehind)), joint));
}

TEST(KeyNorm, PassesAllChecksUnderOtherMethods) {
  ConformanceChecks checks;
  for (const char* spec :
       {"adakv:budget=24,window=4,scorer=key-norm", "pyramidkv:budget=24,window=4,scorer=key-norm",
        "chunkkv:budget=24,window=4,scorer=key-norm"}) {
    for (const auto& [name, check] : ConformanceChecks::all())
      EXPECT_EQ(checks.finding(check, Candidate(Method::parse(spec))), "") << name << " " << spec;
  }
}

TEST(KeyNorm, IsNamedAmongTheScorers) {
  for (const char* method : {"adakv", "ada-pyramidkv", "pyramidkv", "chunkkv"}) {
    const std::string message =
        message_of([&] { Method::parse(fmt::format("{}:scorer=evenly", method)); });
    EXPECT_NE(message.find("found \"evenly\", expected one of: "), std::string::npos) << message;
    EXPECT_NE(message.find("key-norm"), std::string::npos) << message;
  }
}

}  // namespace
}  // namespace turnbench
