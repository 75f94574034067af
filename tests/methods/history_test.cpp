// Turns: the cached tokens, and the position of the next token.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "inference/engine/engine.h"
#include "methods/method.h"
#include "tests/backends/backend.h"
#include "tests/inference/conversation.h"
#include "tests/methods/settings.h"

namespace turnbench {
namespace {

class History : public testing::Test {
 protected:
  Sequence sequence(const std::string& spec) {
    return engine_.make_sequence(Method::parse(spec).make());
  }

  std::vector<float> prefill(Sequence& s, int count, bool evict = true) {
    const std::vector<int> tokens = next_tokens(s, count);
    const Pass pass{.sequence = &s, .tokens = tokens, .prompt_end = true, .evict = evict};
    return engine_.prefill({&pass, 1})[0];
  }

  std::vector<float> decode(Sequence& s) {
    const std::vector<int> tokens = next_tokens(s, 1);
    const Pass pass{.sequence = &s, .tokens = tokens, .kind = Pass::Kind::kDecode};
    return engine_.forward({&pass, 1})[0];
  }

  static std::vector<int> next_tokens(const Sequence& s, int count) {
    std::vector<int> out;
    for (int i = 0; i < count; ++i)
      out.push_back(3 + (static_cast<int>(s.tokens.size()) + i) * 37 % 101);
    return out;
  }

  static std::vector<int> positions(const KvHeadCache& set) {
    std::vector<int> out;
    for (int slot = 0; slot < set.size(); ++slot) out.push_back(set.position(slot));
    return out;
  }

  std::unique_ptr<Backend> backend_ = test::make_backend(2);
  Model model_{Checkpoint::open(TURNBENCH_SOURCE_DIR "/tests/data/models/llama3"), *backend_,
               DType::kF32, Math::kF32};
  Engine engine_{model_, *backend_, {}};
};

// SnapKV with B = 4, w = 1; turns of six and three tokens.
TEST_F(History, ThreeModes) {
  for (const bool evict : {false, true}) {
    Sequence s = sequence("snapkv:budget=4,window=1");
    prefill(s, 6);
    EXPECT_EQ(s.mean_tokens(), 4);
    prefill(s, 3, evict);
    EXPECT_EQ(s.mean_tokens(), evict ? 4 : 7);
    EXPECT_EQ(s.next_position, 9);
  }
  Sequence again = sequence("snapkv:budget=4,window=1");
  prefill(again, 9);
  EXPECT_EQ(again.mean_tokens(), 4);
  EXPECT_EQ(again.next_position, 9);
}

// Bytes are those of the sets that are actually kept, each with its size.
TEST_F(History, BytesAreThoseOfTheKeptSets) {
  const double token = 2.0 * 4 * engine_.shape().head_dim;  // key and value in float32
  std::map<std::string, double> bytes;
  for (const char* spec : {"full", "snapkv:budget=24,window=4", "adakv:budget=24,window=4",
                           "snapkv:budget=24,window=4,gran=query_head", "h2o:budget=24",
                           "snapkv:budget=24,window=4,layers=3/2/1"}) {
    Sequence s = sequence(spec);
    prefill(s, 60);
    double tokens = 0;
    for (int l = 0; l < 3; ++l) {
      for (const KvHeadCache& set : s.sets(l)) tokens += set.size();
    }
    bytes[spec] = static_cast<double>(s.logical_bytes());
    EXPECT_EQ(bytes[spec], tokens * token) << spec;
  }
  const double one_layer = 24 * token * engine_.shape().kv_heads;
  EXPECT_EQ(bytes["snapkv:budget=24,window=4"], 3 * one_layer);
  EXPECT_EQ(bytes["adakv:budget=24,window=4"], 3 * one_layer);
  EXPECT_EQ(bytes["snapkv:budget=24,window=4,layers=3/2/1"], 3 * one_layer);
  EXPECT_EQ(bytes["snapkv:budget=24,window=4,gran=query_head"],
            3 * one_layer * engine_.shape().group());
}

// Sets of different sizes return to the layer's budget, and none loses its window.
TEST_F(History, RaggedSetsAreRecompressed) {
  Sequence s = sequence("adakv:budget=24,window=4,floor_alpha=0");
  bool ragged = false;
  for (int turn = 0; turn < 4; ++turn) {
    prefill(s, turn == 0 ? 120 : 30);
    for (int l = 0; l < 3; ++l) {
      const auto& sets = s.sets(l);
      EXPECT_EQ(sets[0].size() + sets[1].size(), 48);
      ragged |= sets[0].size() != sets[1].size();
      for (const KvHeadCache& set : sets)
        EXPECT_EQ(set.position(set.size() - 4), s.next_position - 4);
    }
  }
  EXPECT_TRUE(ragged);
}

// Methods that evict while decoding keep within their budget at every step.
TEST_F(History, DynamicMethodsKeepTheirBudget) {
  std::vector<std::string> specs = {"h2o:budget=24,gran=query_head"};
  for (const MethodInfo& info : all_methods()) {
    const Policies policies = Method::parse(std::string(info.name)).make();
    if (!policies.evict_in_answers() || !test::has_budget(info)) continue;
    test::Values values = {{"budget", std::to_string(24 + test::counts_the_current(info))}};
    for (const ParameterInfo& p : info.parameters) {
      if (p.name == "t_max") values["t_max"] = "64";  // the answer has no limit here
      if (p.name == "interval") values["interval"] = "1";
    }
    specs.push_back(test::spec_of(info, values));
  }
  EXPECT_GE(specs.size(), 5u);
  for (const std::string& spec : specs) {
    Sequence s = sequence(spec);
    for (int turn = 0; turn < 2; ++turn) {
      prefill(s, 50);
      for (int step = 0; step < 10; ++step) {
        EXPECT_EQ(s.mean_tokens(), 24) << spec;
        decode(s);
        EXPECT_EQ(s.counters.mean_attended(), 25) << spec;
      }
      EXPECT_EQ(s.mean_tokens(), 24) << spec;
    }
    EXPECT_EQ(s.next_position, 120) << spec;
  }
}

// Shifted positions are the slots in the cache; with room for all tokens they are the original
// positions.
TEST_F(History, ShiftedPositions) {
  Sequence shifted = sequence("streamingllm:budget=24,pos=shift");
  prefill(shifted, 60);
  std::vector<int> places;
  for (int i = 0; i < 24; ++i) places.push_back(i);
  for (int l = 0; l < 3; ++l) EXPECT_EQ(positions(shifted.sets(l)[1]), places);
  EXPECT_EQ(shifted.next_position, 24);
  Sequence roomy = sequence("streamingllm:budget=100,pos=shift"),
           kept = sequence("streamingllm:budget=100");
  prefill(roomy, 60);
  prefill(kept, 60);
  for (int step = 0; step < 8; ++step) {
    const std::vector<float> a = decode(roomy), b = decode(kept);
    for (std::size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], 1e-4);
  }
}

// Queries of an answer are stored for an observer.  They are not in the window of the next prompt,
// which is shorter than the method's window if the turn is.
TEST(WindowOfATurn, DoesNotDependOnObserversOfTheAnswer) {
  test::Machine machine("llama3");
  const std::vector<int> prompt = test::synthetic_tokens(60, 1),
                         answer = test::synthetic_tokens(4, 2),
                         question = test::synthetic_tokens(5, 3);
  for (const char* spec : {"snapkv:budget=24,window=16", "sablock:budget=24,window=16"}) {
    const auto logits = [&](LayerObserver* observer) {
      test::Conversation c(machine.engine, Method::parse(spec).make());
      c.observer = observer;
      c.turn(prompt);
      for (const int token : answer) c.answer(token);
      c.turn(question);
      return c.answer(answer[0]);
    };
    LayerObserver observer;
    EXPECT_EQ(logits(&observer), logits(nullptr)) << spec;
  }
}

}  // namespace
}  // namespace turnbench
