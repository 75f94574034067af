// The bytes of a sequence at the beginning of its answer: in total, and on the device.

#include <gtest/gtest.h>

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "common/error.h"
#include "methods/method.h"
#include "tests/inference/conversation.h"

namespace turnbench::test {
namespace {

constexpr std::size_t kPrompt = 150;

class KvBytes : public testing::Test {
 protected:
  Conversation after_prompt(const std::string& spec) {
    Conversation out(machine_.engine, Method::parse(spec).make());
    out.turn(synthetic_tokens(kPrompt, 1));
    return out;
  }
  /// Bytes of `count` tokens in one layer, `rows` rows each.
  std::size_t layer(std::size_t count, std::size_t rows = 2) const {
    const ModelShape& s = machine_.engine.shape();
    return count * rows * static_cast<std::size_t>(s.kv_heads * s.head_dim) * sizeof(float);
  }
  std::size_t layers() const { return static_cast<std::size_t>(machine_.engine.shape().layers); }

  Machine machine_{"llama3"};
};

TEST_F(KvBytes, HaveKeysBeforeRopeAndProductsOfLowRank) {
  EXPECT_EQ(after_prompt("full").sequence.kv_bytes(), layers() * layer(kPrompt));
  EXPECT_EQ(after_prompt("streamingllm:budget=40,pos=shift").sequence.kv_bytes(),
            layers() * layer(40, 3));
  EXPECT_EQ(after_prompt("infllm:init=3,block=8,local=20,topk=3,repr=2,exc=10").sequence.kv_bytes(),
            layers() * layer(kPrompt, 3));
  // Coefficients of each token, and the basis.
  const ModelShape& s = machine_.engine.shape();
  const std::size_t width = static_cast<std::size_t>(s.kv_heads * s.head_dim),
                    low_rank = 10 * (kPrompt + width) * sizeof(float);
  EXPECT_EQ(after_prompt("shadowkv:budget=48,outliers=3,rank=10").sequence.kv_bytes(),
            layers() * (layer(kPrompt, 3) + low_rank));
}

TEST_F(KvBytes, OnTheDeviceAreWorkingSetsAndWholeLayers) {
  for (const char* spec : {"full", "snapkv:budget=40", "oracle:budget=40"}) {
    const Conversation c = after_prompt(spec);
    EXPECT_EQ(c.sequence.resident_kv_bytes(), c.sequence.kv_bytes()) << spec;
  }
  const Conversation host =
      after_prompt("oracle:budget=40,sinks=2,placement=host,cache_tokens=32,cache_block=8");
  const Residency::Options& o = host.sequence.at(0).kv.working_set()->options();
  EXPECT_EQ(host.sequence.kv_bytes(), layers() * layer(kPrompt));
  EXPECT_EQ(host.sequence.resident_kv_bytes(),
            layers() * layer(static_cast<std::size_t>(o.pinned_tokens + 32 + o.step_tokens)));
  EXPECT_LT(host.sequence.resident_kv_bytes(), host.sequence.kv_bytes());
  // A prompt that steps read as a whole is not offloaded.
  const Conversation small = after_prompt("oracle:budget=400,placement=host");
  EXPECT_EQ(small.sequence.resident_kv_bytes(), layers() * layer(kPrompt));
  // A dense layer, and the working sets of the other layers.
  const Conversation some = after_prompt("quest:budget=48,dense_layers=1,placement=host");
  EXPECT_EQ(some.sequence.at(0).kv.working_set(), nullptr);
  std::size_t slots = 0;
  for (std::size_t l = 1; l < layers(); ++l)
    slots += static_cast<std::size_t>(
        std::as_const(*some.sequence.at(l).kv.working_set()).sets()[0].size());
  EXPECT_EQ(some.sequence.resident_kv_bytes(), layer(kPrompt + slots));
}

// Steps that read many tokens of each block need only as many blocks as the prompt has.
TEST_F(KvBytes, DoNotGrowIfTheDeviceHasAllBlocks) {
  for (const char* spec : {"full:placement=host,cache_rule=demand-lru",
                           "full:placement=host,cache_rule=previous,cache_block=8",
                           "snapkv:budget=40,placement=host,cache_rule=demand-lru"}) {
    Conversation c = after_prompt(spec);
    for (const int token : synthetic_tokens(3, 2)) c.answer(token);
    EXPECT_EQ(c.sequence.added_kv_bytes(), 0u) << spec;
  }
}

// The tokens of the previous step take as much memory as the tokens that a step reads, not a block
// for each token.
TEST_F(KvBytes, OfThePreviousStepAreItsTokens) {
  const std::string spec = "oracle:budget=40,sinks=2,placement=host,cache_rule=previous";
  const Conversation host = after_prompt(spec);
  const Residency::Options& o = host.sequence.at(0).kv.working_set()->options();
  EXPECT_EQ(o.block, 1);
  EXPECT_EQ(o.cache_tokens + o.pinned_tokens, 40 + 1);  // and the current token
  EXPECT_EQ(host.sequence.resident_kv_bytes(), layers() * layer(40 + 1));
  EXPECT_EQ(Method::parse(spec).canonical(), Method::parse(spec + ",cache_block=1").canonical());
  const Conversation blocks = after_prompt(spec + ",cache_block=16");
  EXPECT_EQ(blocks.sequence.at(0).kv.working_set()->options().block, 16);
}

// The smallest limit that does not refuse a prompt has room for the layer that is on the device
// during the prefill and for working sets; with a shared prefill, also for the copy in host memory.
TEST_F(KvBytes, CountAgainstTheMemoryLimit) {
  const std::vector<int> tokens = synthetic_tokens(kPrompt, 1);
  const auto least = [&](const std::string& spec, bool shared) {
    std::size_t refused = 0, enough = std::size_t{1} << 32;
    while (enough - refused > 64) {
      const std::size_t middle = (refused + enough) / 2;
      Engine engine(machine_.model, *machine_.backend, {.memory_limit = middle});
      Sequence fork = engine.make_sequence(Method::parse(spec).make());
      Conversation prompt(engine, shared ? Policies{} : Method::parse(spec).make());
      try {
        prompt.turn_with_forks(tokens,
                               shared ? std::vector<Sequence*>{&fork} : std::vector<Sequence*>{});
        enough = middle;
      } catch (const Error& error) {
        EXPECT_EQ(error.kind(), ErrorKind::kMemory);
        refused = middle;
      }
    }
    return enough;
  };
  const std::string host = ",placement=host,cache_tokens=32,cache_block=8",
                    spec = "oracle:budget=40,sinks=2";
  const std::size_t working_sets = after_prompt(spec + host).sequence.resident_kv_bytes();
  const std::size_t alone = least(spec + host, false) - least(spec, false);
  EXPECT_GE(alone, working_sets + layer(kPrompt));
  EXPECT_LE(alone, 3 * (working_sets + layer(kPrompt))) << "of whole pages";
  const bool is_host = machine_.backend->memory()->is_host();
  EXPECT_GE(least(spec + host, true) - least(spec, true),
            working_sets + (is_host ? layers() * layer(kPrompt) : 0));
}

// Keys that steps compute are stored in addition to the cached ones.
TEST_F(KvBytes, OnTheDeviceAreWorkingSetsBesideIt) {
  const std::string spec = "shadowkv:budget=48,outliers=3,rank=10";
  const Conversation host = after_prompt(spec), device = after_prompt(spec + ",placement=device");
  EXPECT_EQ(host.sequence.kv_bytes(), device.sequence.kv_bytes());
  EXPECT_EQ(device.sequence.resident_kv_bytes(),
            host.sequence.resident_kv_bytes() + layers() * layer(kPrompt, 3));
}

}  // namespace
}  // namespace turnbench::test
