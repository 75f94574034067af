// The time of each phase of forward passes.

#include "inference/engine/profile.h"

#include <gtest/gtest.h>

#include <numeric>
#include <thread>

#include "tests/inference/conversation.h"
#include "tests/inference/test_policies.h"

namespace turnbench::test {
namespace {

using namespace std::chrono_literals;

double sum(const PhaseSeconds& phases) {
  return std::accumulate(phases.begin(), phases.end(), 0.0);
}

double of(const PhaseSeconds& phases, Phase phase) {
  return phases[static_cast<std::size_t>(phase)];
}

TEST(Profile, APhaseWithinAnotherInterruptsIt) {
  Profile profile(2);
  Memory& memory = *host_memory();
  const auto start = Clock::now();
  {
    const Profile::Zone outer(&profile, memory, Phase::kSelect, 1);
    std::this_thread::sleep_for(20ms);
    {
      const Profile::Zone inner(&profile, memory, Phase::kFetch, 0);
      std::this_thread::sleep_for(30ms);
    }
    std::this_thread::sleep_for(20ms);
  }
  const double all = seconds_since(start);
  std::this_thread::sleep_for(5ms);  // outside of all phases
  { const Profile::Zone empty(&profile, memory, Phase::kFfn, 0); }
  EXPECT_GE(of(profile.layers()[1], Phase::kSelect), 0.04);
  EXPECT_GE(of(profile.layers()[0], Phase::kFetch), 0.03);
  EXPECT_LT(of(profile.layers()[0], Phase::kFfn), all);
  EXPECT_LE(of(profile.total(), Phase::kSelect) + of(profile.total(), Phase::kFetch), all);
  EXPECT_NEAR(sum(profile.total()), sum(profile.layers()[0]) + sum(profile.layers()[1]), 1e-9);
}

TEST(Profile, WithoutAProfileAZoneDoesNothing) {
  const Profile::Zone zone(nullptr, *host_memory(), Phase::kQkv, 0);
}

/// Reads all tokens, after a wait in layer 1.
struct SlowInLayerOne : SelectionPolicy {
  std::unique_ptr<SelectionPolicy> clone() const override {
    return std::make_unique<SlowInLayerOne>(*this);
  }
  DeviceNeeds demand(const PromptSize& size, const LayerView*) const override {
    return {.step_tokens = size.prompt_tokens};
  }
  Selection select(const LayerView& view) override {
    if (view.layer == 1) std::this_thread::sleep_for(50ms);
    return {};
  }
};

TEST(Profile, OfAForwardPassAddsUpAndChangesNoBit) {
  Machine machine("llama3");
  const std::vector<int> prompt = synthetic_tokens(60, 1);
  const auto answer = [&](Profile* profile) {
    Conversation c(machine.engine, selecting(std::make_unique<SlowInLayerOne>()));
    machine.engine.measure_phases(profile);
    std::vector<Logits> out = {c.turn(prompt)};
    for (int token : synthetic_tokens(2, 2)) out.push_back(c.answer(token));
    machine.engine.measure_phases(nullptr);
    return out;
  };
  const std::vector<Logits> plain = answer(nullptr);
  Profile profile(machine.engine.shape().layers);
  const auto start = Clock::now();
  const std::vector<Logits> profiled = answer(&profile);
  EXPECT_LE(sum(profile.total()), seconds_since(start));
  EXPECT_EQ(profiled, plain);
  for (const PhaseSeconds& layer : profile.layers()) {
    for (const Phase phase : {Phase::kQkv, Phase::kSelect, Phase::kAttend, Phase::kFfn})
      EXPECT_GT(of(layer, phase), 0);
  }
  EXPECT_GE(of(profile.layers()[1], Phase::kSelect), 2 * 0.05) << "two steps";
  EXPECT_GT(of(profile.layers().back(), Phase::kLogits), 0);
  EXPECT_EQ(of(profile.layers().front(), Phase::kLogits), 0);
  const double before = sum(profile.total());
  answer(nullptr);
  EXPECT_EQ(sum(profile.total()), before) << "no longer measured";
}

TEST(Profile, TransfersOfALayerOnTheHostAreFetches) {
  Machine machine("llama3");
  Policies policies = selecting(std::make_unique<ReadSome>());
  policies.placement = {.host = true, .cache_tokens = 16, .cache_block = 8};
  Conversation c(machine.engine, std::move(policies));
  Profile profile(machine.engine.shape().layers);
  machine.engine.measure_phases(&profile);
  c.turn(synthetic_tokens(150, 1));
  c.answer(5);
  for (const PhaseSeconds& layer : profile.layers()) EXPECT_GT(of(layer, Phase::kFetch), 0);
}

}  // namespace
}  // namespace turnbench::test
