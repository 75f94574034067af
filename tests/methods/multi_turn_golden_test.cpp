// Whole dialogues with every eviction method and every history, compared with reference methods on
// a decoder in double precision: the cached tokens after each prompt and each answer token, and the
// resulting logits.

#include <gtest/gtest.h>

#include "methods/method.h"
#include "tests/inference/conversation.h"
#include "tests/methods/plain_methods.h"

namespace turnbench {
namespace {

using namespace test;

enum class KeptHistory { kReprefill, kCompressOnce, kRecompress };

/// A dialogue on the plain decoder.
struct PlainDialogue {
  PlainDialogue(const PlainDecoder& decoder, PlainMethod method, double& closest)
      : decoder(decoder),
        method(std::move(method)),
        closest(closest),
        cache(static_cast<std::size_t>(decoder.config.layers),
              PlainSets(static_cast<std::size_t>(decoder.config.kv_heads))) {}

  Row prompt(std::span<const int> said, bool evict) {
    step = 0;
    prompt_tokens = static_cast<int>(tokens.size() + said.size());
    return read(said, evict);
  }
  Row answer(int token, bool evict) {
    ++step;
    return read({&token, 1}, evict && method.steps);
  }

  Row read(std::span<const int> said, bool evict) {
    const int first = static_cast<int>(tokens.size());
    tokens.insert(tokens.end(), said.begin(), said.end());
    return decoder.forward(cache, said, first,
                           [&](int layer, PlainSets& sets, const Attention& attention) {
                             if (!evict) return;
                             const std::vector<Slots> kept =
                                 method.keep({layer, decoder.config.layers, sets, attention, tokens,
                                              prompt_tokens, step, closest});
                             PlainSets next;
                             for (std::size_t i = 0; i < kept.size(); ++i)
                               next.push_back(sets[i * sets.size() / kept.size()].kept(kept[i]));
                             if (!kept.empty()) sets = std::move(next);
                           });
  }

  const PlainDecoder& decoder;
  PlainMethod method;
  double& closest;
  std::vector<PlainSets> cache;
  std::vector<int> tokens;
  int prompt_tokens = 0, step = 0;
};

/// Positions of every set, layer by layer.
using Positions = std::vector<std::vector<Slots>>;

Positions positions(const Sequence& s) {
  Positions out;
  for (int l = 0; l < s.shape().layers; ++l) {
    out.emplace_back();
    for (const KvHeadCache& set : s.sets(l)) {
      out.back().emplace_back();
      for (int slot = 0; slot < set.size(); ++slot) out.back().back().push_back(set.position(slot));
    }
  }
  return out;
}

Positions positions(const PlainDialogue& d) {
  Positions out;
  for (const PlainSets& sets : d.cache) {
    out.emplace_back();
    for (const PlainSet& set : sets) out.back().push_back(set.positions);
  }
  return out;
}

class MultiTurn : public testing::Test {
 protected:
  /// Three turns, the second of them shorter than the windows, with answers between them.
  void expect_golden(const std::string& spec, const PlainMethod& method, std::uint64_t seed = 1) {
    for (const KeptHistory history :
         {KeptHistory::kReprefill, KeptHistory::kCompressOnce, KeptHistory::kRecompress}) {
      SCOPED_TRACE(spec + ", history " + std::to_string(static_cast<int>(history)));
      double closest = 1;
      std::optional<Conversation> c;
      std::optional<PlainDialogue> plain;
      std::vector<int> dialogue;
      for (std::size_t turn = 0; turn < 3; ++turn) {
        std::vector<int> prompt = synthetic_tokens(kPrompts[turn], 10 * seed + turn);
        if (turn == 0 || history == KeptHistory::kReprefill) {
          prompt.insert(prompt.begin(), dialogue.begin(), dialogue.end());
          c.emplace(machine_.engine, Method::parse(spec).make());
          plain.emplace(decoder_, method, closest);
          dialogue.clear();
        }
        dialogue.insert(dialogue.end(), prompt.begin(), prompt.end());
        for (LayerState& layer : c->sequence.layers) layer.tail.clear();  // scores are this turn's
        const bool evict = turn == 0 || history != KeptHistory::kCompressOnce,
                   rolls = history != KeptHistory::kCompressOnce;
        expect_alike(c->turn(prompt, evict), plain->prompt(prompt, evict));
        ASSERT_EQ(positions(c->sequence), positions(*plain)) << "after prompt " << turn;
        const std::vector<int> answer = synthetic_tokens(5, 20 * seed + turn);
        for (std::size_t i = 0; i < answer.size(); ++i) {
          expect_alike(c->answer(answer[i], rolls), plain->answer(answer[i], rolls));
          ASSERT_EQ(positions(c->sequence), positions(*plain)) << "turn " << turn << ", step " << i;
        }
        dialogue.insert(dialogue.end(), answer.begin(), answer.end());
      }
      EXPECT_GT(closest, 1e-5) << "too close a choice for float32: take another seed";
    }
  }

  static void expect_alike(const Logits& got, const Row& want) {
    EXPECT_LE(test::distance(got, Logits(want.begin(), want.end())), 1e-4);
  }

  static constexpr int kPrompts[] = {70, 3, 30};
  Machine machine_{"llama3"};
  const PlainDecoder decoder_{(kModels / "llama3").string()};
};

const Sharing kPyramid{.beta = 4, .short_is_equal = true}, kAlwaysPyramid{.beta = 4};

TEST_F(MultiTurn, StreamingLlm) {
  expect_golden("streamingllm:budget=0.3,sinks=3", plain_streaming(0.3, 3));
  expect_golden("streamingllm:budget=24,sinks=3,layers=3/2/1",
                plain_streaming(24, 3, {.weights = {3, 2, 1}}));
}

TEST_F(MultiTurn, H2o) {
  expect_golden("h2o:budget=0.3", plain_hitters({.budget = 0.3}));
  expect_golden("h2o:budget=24,recent=8,layers=pyramid/4",
                plain_hitters({.budget = 24, .recent = 8. / 24, .sharing = kPyramid}));
  expect_golden("h2o:budget=0.3,mode=prefill,window=4",
                plain_hitters({.budget = 0.3, .window = 4}));
}

TEST_F(MultiTurn, Tova) {
  expect_golden("tova:budget=24", plain_tova(24));
  expect_golden("tova:budget=0.3", plain_tova(0.3));
}

TEST_F(MultiTurn, Keyformer) {
  expect_golden("keyformer:noise=false,budget=0.5,t_max=3", plain_hitters({.budget = 0.5,
                                                                           .recent = 0.3,
                                                                           .counts_current = true,
                                                                           .last_temperature = 2,
                                                                           .t_max = 3}));
}

TEST_F(MultiTurn, SnapKv) {
  expect_golden("snapkv:budget=0.3,window=4,kernel=3", plain_snapkv({.budget = 0.3}));
  expect_golden("snapkv:budget=24,window=4,kernel=3,gran=query_head",
                plain_snapkv({.budget = 24, .per_query_head = true}));
}

// With 60% of a prompt, also its equal shares.
TEST_F(MultiTurn, PyramidKv) {
  for (const double budget : {0.3, 0.6}) {
    expect_golden(fmt::format("pyramidkv:budget={},window=4,kernel=3,beta=4", budget),
                  plain_snapkv({.budget = budget, .sharing = kPyramid}));
  }
  expect_golden("pyramidkv:budget=24,window=4,kernel=3,beta=4",
                plain_snapkv({.budget = 24, .sharing = kPyramid}));
}

TEST_F(MultiTurn, AdaKv) {
  expect_golden("adakv:budget=0.3,window=4,kernel=3", plain_adakv({.budget = 0.3}, 0.2));
  expect_golden("adakv:budget=24,window=4,kernel=3,floor_alpha=0", plain_adakv({.budget = 24}, 0));
}

TEST_F(MultiTurn, AdaPyramidKv) {
  for (const double budget : {0.3, 0.6}) {
    expect_golden(fmt::format("ada-pyramidkv:budget={},window=4,kernel=3,beta=4", budget),
                  plain_adakv({.budget = budget, .sharing = kAlwaysPyramid}, 0.2));
  }
}

TEST_F(MultiTurn, ChunkKv) {
  expect_golden("chunkkv:budget=0.4,window=4,chunk=5", plain_chunkkv(0.4, 4, 5));
  expect_golden("chunkkv:budget=24,window=4,chunk=5", plain_chunkkv(24, 4, 5));
}

TEST_F(MultiTurn, SaBlock) {
  const auto ends = [](int token) {
    const std::string text = synthetic_text(token);
    return text == "." || text == ",\n";
  };
  expect_golden("sablock:budget=0.4,window=4", plain_sablock(0.4, 4, ends));
  expect_golden("sablock:budget=24,window=4", plain_sablock(24, 4, ends));
}

// Its pool; with a threshold that no sentence exceeds, every step reads the whole pool.
TEST_F(MultiTurn, SentenceKvsPool) {
  expect_golden(
      "sentencekv:budget=0.2,semantic_factor=2,window=4,kernel=3,sinks=2,recent=4,"
      "length_threshold=1000",
      plain_snapkv({.budget = 0.4}));
}

}  // namespace
}  // namespace turnbench
