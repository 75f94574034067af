// The probe output-error, compared with outputs in double precision: full attention's rows on the
// embedded model, and the outputs of a method's mask or its kept tokens for the same rows.

#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "harness/run/probe_unit.h"
#include "tests/harness/run/small_world.h"
#include "tests/methods/plain_methods.h"
#include "tests/methods/settings.h"

namespace turnbench {
namespace {

using namespace test;

constexpr Decoding kShortAnswers{.max_prompt_tokens = 4000, .max_new_tokens = 6};

Dialogue short_dialogue(int turns) {
  return make_tiny_dialogues(TinyTask::kList,
                             {.turns = turns, .length = 90, .count = 1, .seed = 3})[0];
}

std::string probe_spec(const std::string& phase, const std::string& method, int layer = -1) {
  return fmt::format("output-error:layer={},phase={},method={}", layer, phase, method);
}

/// Values by spec and turn.
std::map<std::pair<std::string, int>, double> output_errors(
    const SmallWorld& world, const Dialogue& dialogue, const std::vector<std::string>& specs,
    Answers answers = Answers::kGold, int threads = 1, Engine::Options options = {}) {
  std::deque<ProbeSpec> probes;
  ProbeUnit unit{{&dialogue}, {}, answers};
  for (const std::string& spec : specs)
    unit.cells.push_back({spec, &probes.emplace_back(ProbeSpec::parse(spec))});
  const auto backend = make_cpu_backend(threads);
  Engine engine(world.model, *backend, options);
  const UnitResult result = run_probes(engine, world.renderer, kShortAnswers, unit);
  EXPECT_EQ(engine.memory().kv_bytes(), 0u) << "nothing is left behind";
  std::map<std::pair<std::string, int>, double> out;
  for (const Record& r : result.records) EXPECT_EQ(r.error, "") << r.cell;
  for (const ScoreValue& s : result.scores) {
    EXPECT_EQ(s.metric, "output_error");
    out[{s.cell, s.turn}] = s.value;
  }
  EXPECT_EQ(out.size(), specs.size() * dialogue.turns.size());
  return out;
}

TEST(OutputError, IsZeroForFullAttention) {
  const SmallWorld world;
  const Dialogue dialogue = short_dialogue(2);
  std::vector<std::string> specs;
  for (const char* phase : {"prefill", "decode"}) {
    specs.push_back(probe_spec(phase, "full"));
    specs.push_back(probe_spec(phase, "snapkv:budget=24,window=4"));
    specs.push_back(probe_spec(phase, "minference+h2o:budget=100000"));
    specs.push_back(probe_spec(phase, "a-shape:n_init=2,n_local=16"));
  }
  for (const Answers answers : {Answers::kOwn, Answers::kGold}) {
    const auto got = output_errors(world, dialogue, specs, answers);
    for (int turn : {0, 1}) {
      EXPECT_EQ(got.at({probe_spec("prefill", "full"), turn}), 0);
      EXPECT_EQ(got.at({probe_spec("decode", "full"), turn}), 0);
      // Methods that evict have a dense prefill; methods with a sparse prefill decode densely.
      EXPECT_EQ(got.at({probe_spec("prefill", "snapkv:budget=24,window=4"), turn}), 0);
      EXPECT_EQ(got.at({probe_spec("decode", "a-shape:n_init=2,n_local=16"), turn}), 0);
      EXPECT_GT(got.at({probe_spec("decode", "snapkv:budget=24,window=4"), turn}), 0.01);
      EXPECT_GT(got.at({probe_spec("prefill", "a-shape:n_init=2,n_local=16"), turn}), 0.01);
      EXPECT_LT(got.at({probe_spec("decode", "minference+h2o:budget=100000"), turn}), 1e-5);
    }
  }
}

/// Every method runs on full attention's hidden states, alone and with others.
TEST(OutputError, DoesNotDependOnTheBatch) {
  const SmallWorld world;
  const Dialogue dialogue = short_dialogue(2);
  std::vector<std::string> errors;
  for (const MethodInfo& info : all_methods())
    errors.push_back(probe_spec("decode", spec_of(info, small_values(info))));
  errors.push_back(probe_spec("prefill", "minference", 1));
  errors.push_back(probe_spec("decode", "streamingllm:budget=24,pos=shift"));
  const auto together = output_errors(world, dialogue, errors, Answers::kOwn, 2);
  for (const auto& [key, value] : together) {
    EXPECT_TRUE(std::isfinite(value)) << key.first;
    EXPECT_GE(value, 0) << key.first;
  }
  EXPECT_EQ(output_errors(world, dialogue, errors, Answers::kOwn, 1, {.prefill_chunk = 16}),
            together);
  for (const std::string& spec : errors) {
    for (const auto& [key, value] : output_errors(world, dialogue, {spec}, Answers::kOwn))
      EXPECT_EQ(value, together.at(key)) << spec;
  }
}

/// Outputs of attention with the probabilities of the slots that `seen` allows, and with all.
struct PlainError {
  double error = 0, size = 0;

  void add(const PlainSets& sets, const Attention& attention, std::size_t row,
           const std::function<bool(std::size_t set, std::size_t slot)>& seen) {
    const std::size_t heads = attention.size();
    for (std::size_t h = 0; h < heads; ++h) {
      const std::size_t set = h * sets.size() / heads;
      const Row& p = attention[h][row];
      double left = 0;
      for (std::size_t j = 0; j < p.size(); ++j) left += seen(set, j) ? p[j] : 0;
      for (std::size_t d = 0; d < sets[set].values[0].size(); ++d) {
        double all = 0, some = 0;
        for (std::size_t j = 0; j < p.size(); ++j) {
          all += p[j] * sets[set].values[j][d];
          if (seen(set, j)) some += p[j] / left * sets[set].values[j][d];
        }
        error += (some - all) * (some - all);
        size += all * all;
      }
    }
  }
  double relative() const { return std::sqrt(error / size); }
};

TEST(OutputError, EqualsADoublePrecisionDecoder) {
  const SmallWorld world;
  const PlainDecoder decoder("tiny");
  const auto layers = static_cast<std::size_t>(decoder.config.layers);
  const Dialogue dialogue = short_dialogue(1);
  // The answer of full attention.
  const Method full = Method::parse("full");
  const UnitResult own = world.run({{&dialogue, {{"full", &full}}}}, kShortAnswers);
  const Record& record = own.records.at(0);
  std::vector<int> read = record.answer_tokens;  // the last token is read only before a stop token
  if (!record.stopped) read.pop_back();
  ASSERT_GT(read.size(), 1u);
  Prompt prompt;
  prompt.add_turn(world.renderer.render(dialogue, 0, 0));
  const int n = static_cast<int>(prompt.tokens.size());

  const PlainMethod snapkv = plain_snapkv({.budget = 24});
  std::vector<std::vector<std::vector<bool>>> kept(layers);  // layer, set, slot
  std::vector<double> prefill(layers), decode(layers);
  double closest = 1;
  std::vector<PlainSets> cache(layers,
                               PlainSets(static_cast<std::size_t>(decoder.config.kv_heads)));
  decoder.forward(
      cache, prompt.tokens, 0, [&](int layer, PlainSets& sets, const Attention& attention) {
        const auto l = static_cast<std::size_t>(layer);
        for (const Slots& slots : snapkv.keep(
                 {layer, decoder.config.layers, sets, attention, prompt.tokens, n, 0, closest})) {
          std::vector<bool>& set = kept[l].emplace_back(prompt.tokens.size() + read.size(), false);
          for (int slot : slots) set[slot] = true;
          std::fill(set.begin() + n, set.end(), true);
        }
        PlainError error;
        for (std::size_t row = 0; row < prompt.tokens.size(); ++row) {
          error.add(sets, attention, row, [&](std::size_t, std::size_t slot) {
            return slot <= row && (slot < 2 || row - slot < 16);
          });
        }
        prefill[l] = error.relative();
      });
  EXPECT_GT(closest, 1e-5) << "too close a choice for float32: take another dialogue";
  for (std::size_t i = 0; i < read.size(); ++i) {
    decoder.forward(cache, {&read[i], 1}, n + static_cast<int>(i),
                    [&](int layer, PlainSets& sets, const Attention& attention) {
                      const auto l = static_cast<std::size_t>(layer);
                      PlainError error;
                      error.add(sets, attention, 0, [&](std::size_t set, std::size_t slot) {
                        return kept[l][set][slot];
                      });
                      decode[l] += error.relative() / static_cast<double>(read.size());
                    });
  }

  std::vector<std::string> specs;
  const std::string shape = "a-shape:n_init=2,n_local=16",
                    window = "snapkv:budget=24,window=4,kernel=3";
  for (int layer = -1; layer < decoder.config.layers; ++layer) {
    specs.push_back(probe_spec("prefill", shape, layer));
    specs.push_back(probe_spec("decode", window, layer));
  }
  const auto got = output_errors(world, dialogue, specs);
  double prefill_mean = 0, decode_mean = 0;
  int compared = 0;
  for (std::size_t l = 0; l < layers; ++l) {
    const int layer = static_cast<int>(l);
    EXPECT_NEAR(got.at({probe_spec("decode", window, layer), 0}), decode[l], 1e-4) << l;
    prefill_mean += got.at({probe_spec("prefill", shape, layer), 0}) / static_cast<double>(layers);
    decode_mean += decode[l] / static_cast<double>(layers);
    if (!std::isfinite(prefill[l])) continue;  // rows with keys of probability 0 only
    EXPECT_NEAR(got.at({probe_spec("prefill", shape, layer), 0}), prefill[l], 1e-4) << l;
    ++compared;
  }
  EXPECT_GE(compared, 3);
  EXPECT_GT(decode_mean, 0.001);
  EXPECT_NEAR(got.at({probe_spec("prefill", shape), 0}), prefill_mean, 1e-12);
  EXPECT_NEAR(got.at({probe_spec("decode", window), 0}), decode_mean, 1e-4);
}

}  // namespace
}  // namespace turnbench
