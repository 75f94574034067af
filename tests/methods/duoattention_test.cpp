// DuoAttention: worked examples.  kvpress_test.cpp compares it with kvpress.

#include <gtest/gtest.h>

#include "prescribed.h"
#include "tests/inference/conversation.h"
#include "tests/message_of.h"
#include "tests/temporary_directory.h"

namespace turnbench {
namespace {

using namespace test;

const std::string kGates = TURNBENCH_SOURCE_DIR "/tests/data/methods/duoattention.tsv";

Ints positions(const KvHeadCache& set) {
  Ints out;
  for (int slot = 0; slot < set.size(); ++slot) out.push_back(set.position(slot));
  return out;
}

// In layer 1, the gates of KV head 0 are below those of KV head 1.
TEST(DuoAttention, StreamingHeadsEvictWhileDecoding) {
  if (is_emulated()) GTEST_SKIP() << "a model of two layers";
  Machine machine("llama3");
  for (const bool rolling : {true, false}) {
    Conversation c(machine.engine,
                   Method::parse("duoattention:gates=" + kGates +
                                 ",sinks=2,recent=4,rolling=" + (rolling ? "true" : "false"))
                       .make());
    c.turn(synthetic_tokens(20, 1));
    EXPECT_EQ(positions(c.sequence.sets(1)[0]), (Ints{0, 1, 16, 17, 18, 19}));
    for (const int token : {5, 6}) c.answer(token);
    EXPECT_EQ(positions(c.sequence.sets(1)[0]),
              rolling ? (Ints{0, 1, 18, 19, 20, 21}) : (Ints{0, 1, 16, 17, 18, 19, 20, 21}));
    EXPECT_EQ(c.sequence.sets(1)[1].size(), 22);
  }
}

TEST(DuoAttention, WithoutAFileGatesAreRandomAndEqualInAllRuns) {
  Layer layer(2, 2, 8, 30, 30, 1);
  int streaming = 0;
  for (int l = 0; l < layer.shape.layers; ++l) {
    const auto once = kept("duoattention:sinks=2,recent=4", layer, l);
    EXPECT_EQ(once, kept("duoattention:sinks=2,recent=4", layer, l));
    for (const Ints& slots : once) streaming += slots.size() == 6 ? 1 : 0;
  }
  EXPECT_EQ(streaming, layer.shape.layers);  // half of the heads
}

TEST(DuoAttention, RefusesBadFilesOfGates) {
  const TemporaryDirectory directory;
  const std::string file = directory.path("gates.tsv");
  const auto message = [&](const char* text) {
    directory.write("gates.tsv", text);
    return message_of([&] {
      Layer layer(2, 2, 8, 30, 30, 1);
      kept("duoattention:gates=" + file, layer);
    });
  };
  EXPECT_NE(message("1\t0\n0\thalf\n1\t1\n0\t0\n")
                .find(file + ": line 2: found \"half\" as gate 2, expected a number"),
            std::string::npos);
  EXPECT_NE(message("1\t0\nnan\t0\n").find("line 2: found \"nan\" as gate 1"), std::string::npos);
  EXPECT_NE(message("1 0\n").find("line 1: found \"1 0\" as gate 1"), std::string::npos);
  EXPECT_NE(
      message("").find(file + ": found 0 lines, expected one for each of the model's 4 layers"),
      std::string::npos);
  EXPECT_NE(message("1\t0\n1\t0\n1\n1\t0\n")
                .find(file + ": line 3: found 1 gates, expected the model's 2 KV heads"),
            std::string::npos);
  EXPECT_EQ(message("1\t0\r\n1e+00\t-0.5\n1\t2\n1\t0"), "no error");
}

}  // namespace
}  // namespace turnbench
