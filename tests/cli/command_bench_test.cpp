// The measures and the output of bench.  Times depend on the machine; the measured operations do
// not.

#include <gtest/gtest.h>

#include "tests/cli/program.h"

namespace turnbench::test {
namespace {

Json bench(Arguments arguments) {
  arguments.insert(arguments.begin(), "bench");
  for (const char* more : {"--model", "tiny", "--threads", "1", "--repeats", "2", "--json"})
    arguments.push_back(more);
  const Finished run = run_program(arguments);
  EXPECT_EQ(run.code, 0) << run.err;
  return run.json();
}

TEST(Bench, ModelsThatMultiplyBf16) {
  for (const char* math : {"bf16-linear", "bf16"}) {
    const Json json = bench({"prefill", "--tokens", "64", "--math", math, "--kv-dtype", "bf16"});
    EXPECT_GE(json["peak_bf16_flops"], json["peak_flops"]);
    EXPECT_GT(json["rows"][0]["of_ceiling"], 0);
  }
}

TEST(Bench, PrefillTimesEveryLengthBatchAndMethod) {
  const Json json = bench({"prefill", "--tokens", "64,200", "--batch", "1,3", "--method", "full",
                           "--method", "a-shape:n_init=64,n_local=64"});
  EXPECT_GT(json["peak_flops"], 1e8);
  EXPECT_GT(json["read_bytes_per_s"], 1e8);
  ASSERT_EQ(json["rows"].size(), 8u);
  for (const Json& row : json["rows"]) {
    const double seconds = row["seconds"]["median"], batch = row["batch"], tokens = row["tokens"];
    EXPECT_NEAR(row["tokens_per_s"]["median"], tokens * batch / seconds, 1e-6 / seconds);
    EXPECT_GT(row["of_ceiling"], 0);
    EXPECT_LT(row["of_ceiling"], 10)
        << "a share, of a ceiling that may have been measured in noise";
    const bool dense = row["method"] == "full";
    EXPECT_EQ(row["of_dense"].is_null(), dense);
    if (dense) {
      EXPECT_EQ(row["pairs"], 1);
    }
  }
  EXPECT_LT(json["rows"][5]["pairs"], 1) << "of 200 tokens a sink and a band";
}

// The minimum number of bytes that a step must read determines its share of the bandwidth.
TEST(Bench, DecodeReadsKeptTokens) {
  const Json json = bench({"decode", "--depth", "0,512", "--batch", "2", "--method", "full",
                           "--method", "snapkv:budget=64"});
  ASSERT_EQ(json["rows"].size(), 4u);
  for (const Json& row : json["rows"]) {
    EXPECT_EQ(row["batch"], 2);
    EXPECT_GT(row["of_ceiling"], 0);
    EXPECT_TRUE(row["of_dense"].is_null());
  }
  EXPECT_EQ(json["rows"][3]["depth"], 512);
}

TEST(Bench, ProfilesDivideTheTimeAmongPhases) {
  const Json json = bench({"decode", "--depth", "300", "--profile", "--method", "full", "--method",
                           "quest:budget=64,placement=host"});
  ASSERT_EQ(json["rows"].size(), 2u);
  for (const Json& row : json["rows"]) {
    const Json& profile = row["profile"];
    double seconds = 0, of_layers = 0;
    for (const auto& [phase, of_phase] : profile["phases"].items()) {
      EXPECT_GE(of_phase, 0) << phase;
      seconds += of_phase.get<double>();
    }
    ASSERT_EQ(profile["layers"].size(), 4u);
    for (const Json& layer : profile["layers"])
      for (const Json& of_phase : layer) of_layers += of_phase.get<double>();
    EXPECT_NEAR(seconds, profile["seconds"], 1e-9);
    EXPECT_NEAR(of_layers + profile["phases"]["other"].get<double>(), seconds, 1e-9);
  }
  EXPECT_GT(json["rows"][1]["profile"]["phases"]["fetch"],
            json["rows"][0]["profile"]["phases"]["fetch"]);
  EXPECT_TRUE(bench({"prefill", "--tokens", "64", "--profile"})["rows"][0].contains("profile"));
  EXPECT_FALSE(bench({"prefill", "--tokens", "64"})["rows"][0].contains("profile"));

  const Finished text = run_program(
      {"bench", "decode", "--model", "tiny", "--depth", "64", "--repeats", "1", "--profile"});
  EXPECT_EQ(text.code, 0) << text.err;
  EXPECT_NE(text.out.find("share of each phase in %"), std::string::npos) << text.out;
  const Finished refused =
      run_program({"bench", "selection", "--model", "tiny", "--depth", "64", "--profile"});
  EXPECT_EQ(refused.code, 2);
  EXPECT_EQ(refused.err,
            "turnbench: --profile: found it with selection, expected it with prefill or decode\n");
}

TEST(Bench, AttentionAndStatisticsAreComparedWithDense) {
  const Json attention =
      bench({"attention", "--tokens", "512", "--method", "full", "--method", "loopserve-prefill"});
  ASSERT_EQ(attention["rows"].size(), 2u);
  EXPECT_TRUE(attention["rows"][0]["of_dense"].is_null());
  EXPECT_GT(attention["rows"][1]["of_dense"], 0);
  EXPECT_LT(attention["rows"][1]["pairs"], 1);
  const Json blocks = bench({"attention", "--tokens", "600", "--method", "xattention:gamma=0.3",
                             "--method", "flexprefill:min_budget=1,gamma=0.3", "--method",
                             "critiprefill:budget=64,segment=64,threshold=0"});
  ASSERT_EQ(blocks["rows"].size(), 3u);
  for (const Json& row : blocks["rows"]) EXPECT_LT(row["pairs"], 1) << row["method"];
  const Json statistics = bench({"statistics", "--tokens", "256", "--method", "h2o:budget=64"});
  ASSERT_EQ(statistics["rows"].size(), 1u);
  EXPECT_GT(statistics["rows"][0]["of_dense"], 0);
}

// Of 600 rows, each reads at most a window of 64, sinks, tokens between window and blocks, and 2 *
// 16 tokens.
TEST(Bench, AttentionShowsSelectionInPrompts) {
  const Json json = bench({"attention", "--tokens", "600", "--method",
                           "infllm:init=16,block=16,local=64,topk=2,exc=32"});
  ASSERT_EQ(json["rows"].size(), 1u);
  EXPECT_GT(json["rows"][0]["of_dense"], 0);
  EXPECT_GT(json["rows"][0]["pairs"], 64 * 500 / (0.5 * 600 * 601));
  EXPECT_LT(json["rows"][0]["pairs"], 176 * 600 / (0.5 * 600 * 601));
}

TEST(Bench, SelectionIsComparedWithFullAttention) {
  const Json json =
      bench({"selection", "--depth", "600", "--method", "pqcache:budget=100", "--method",
             "oracle:budget=100,sinks=0,local=0,gran=query_head", "--method", "snapkv:budget=64"});
  ASSERT_EQ(json["rows"].size(), 4u);
  const Json &full = json["rows"][0], &pqcache = json["rows"][1], &oracle = json["rows"][2],
             &snapkv = json["rows"][3];
  EXPECT_EQ(full["method"], "full");
  EXPECT_EQ(full["of_full"], 1);
  EXPECT_EQ(full["recall"], 1);
  const double all = full["bytes_read"];
  for (const Json& row : json["rows"]) {
    EXPECT_EQ(row["depth"], 600);
    EXPECT_GT(row["attention_ms"], 0);
    EXPECT_GT(row["of_full"], 0);
    EXPECT_LE(row["bytes_read"], all);
  }
  // Of 600 tokens: 32 sinks, 34 + 34, and the current one.
  EXPECT_NEAR(pqcache["bytes_read"].get<double>() / all, 101.0 / 600, 1e-3);
  EXPECT_GT(pqcache["recall"], 0.1);
  EXPECT_LT(pqcache["recall"], 1);
  EXPECT_GT(pqcache["bytes_moved"], 0);
  EXPECT_GE(oracle["recall"], 0.99) << "but for the current token, which is always read";
  EXPECT_EQ(oracle["bytes_moved"], 0);
  EXPECT_NEAR(snapkv["bytes_read"].get<double>() / all, 64.0 / 600, 0.02);
}

// Page bounds are two rows of 16 keys; a code has a byte for each of m parts; SparQ reads r of 32
// dimensions.  Keys and values of all tokens are `full`'s bytes.
TEST(Bench, SelectionCountsWhatScoresRead) {
  const Json json =
      bench({"selection", "--depth", "640", "--method", "oracle:budget=100,sinks=0,local=0",
             "--method", "quest:budget=100,dense_layers=0", "--method", "sparq:budget=100,r=8",
             "--method", "clusterkv:budget=100"});
  const double all = json["rows"][0]["bytes_read"];
  const auto share = [&](std::size_t row) {
    return json["rows"][row]["index_bytes"].get<double>() / all;
  };
  EXPECT_EQ(json["rows"][0]["index_bytes"], nullptr);
  EXPECT_NEAR(share(1), 0.5, 0.01) << "all keys";
  EXPECT_NEAR(share(2), 1. / 16, 0.01);
  EXPECT_NEAR(share(3), 8. / 32 / 2, 0.01);
  EXPECT_EQ(json["rows"][4]["index_bytes"], nullptr) << "scores on the host";
}

// A key of 32 dimensions has 36 bytes as stored by int8, and 128 in float32.
TEST(Bench, SelectionCountsBytesAsStored) {
  const Json rows = bench({"selection", "--depth", "600", "--kv-dtype", "f32", "--method", "int8",
                           "--method", "int8+snapkv:budget=64"})["rows"];
  const double all = rows[0]["bytes_read"];
  EXPECT_NEAR(rows[1]["bytes_read"].get<double>() / all, 36.0 / 128, 0.002);
  EXPECT_NEAR(rows[2]["bytes_read"].get<double>() / all, 36.0 / 128 * 64 / 600, 0.002);
}

// Of the four layers of specontext-self, the first reads all tokens and the others 100.  If only
// one layer is measured, it represents all layers, which a method with shared selections cannot do.
TEST(Bench, SelectionMeasuresAllLayersOrSome) {
  const auto read = [](const std::string& method, const Arguments& more, int measured) {
    Arguments arguments = {"selection", "--depth", "600", "--method", method};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const Json json = bench(arguments);
    EXPECT_EQ(json["layers"], 4);
    EXPECT_EQ(json["layers_measured"], measured);
    const Json &full = json["rows"][0], &own = json["rows"][1];
    return own["bytes_read"].get<double>() / full["bytes_read"].get<double>();
  };
  const std::string shared = "specontext-self:budget=100";
  EXPECT_NEAR(read(shared, {}, 4), (1 + 3 * 100.0 / 600) / 4, 0.01);
  EXPECT_NEAR(read("snapkv:budget=100", {"--layers", "1"}, 1), 100.0 / 600, 0.01);
  const Finished refused = run_program({"bench", "selection", "--model", "tiny", "--depth", "600",
                                        "--layers", "1", "--method", shared});
  EXPECT_EQ(refused.code, 2);
  EXPECT_NE(refused.err.find("--layers: found it with specontext-self, in which layer 1 selects"),
            std::string::npos)
      << refused.err;
}

// All answer tokens divided by the total time, and without the prefill and the tokens that it
// gives.
TEST(Bench, ThroughputCountsAllAnswers) {
  const Json json =
      bench({"throughput", "--tokens", "48", "--new-tokens", "5", "--batch", "1,3", "--method",
             "full", "--method", "oracle:budget=16,sinks=0,placement=host"});
  ASSERT_EQ(json["rows"].size(), 4u);
  int best = 0;
  for (const Json& row : json["rows"]) {
    const double seconds = row["seconds"]["median"], batch = row["batch"],
                 rate = row["tokens_per_s"]["median"];
    EXPECT_EQ(row["new_tokens"], 5);
    EXPECT_NEAR(rate * seconds, 5 * batch, 1e-6);
    // The four steps took a part of the time of the five tokens.
    EXPECT_GT(row["decode_tokens_per_s"], 4 * batch / seconds);
    best += row["best"].get<bool>();
  }
  EXPECT_EQ(best, 2) << "one batch of each method";
}

TEST(Bench, ThroughputShowsBatchesThatDoNotFit) {
  const Json json = bench({"throughput", "--tokens", "64", "--new-tokens", "2", "--batch", "1,64",
                           "--memory-limit", "16"});
  ASSERT_EQ(json["rows"].size(), 2u);
  EXPECT_TRUE(json["rows"][0]["best"]);
  EXPECT_NE(json["rows"][1]["error"].get<std::string>().find("more than the limit of 16 MiB"),
            std::string::npos);
  EXPECT_EQ(run_program({"bench", "decode", "--model", "tiny", "--new-tokens", "4"}).err,
            "turnbench: --new-tokens: found it with decode, expected it with throughput\n");
}

TEST(Bench, PrintsATable) {
  const Finished run = run_program(
      {"bench", "decode", "--model", "tiny", "--depth", "32", "--repeats", "1", "--threads", "1"});
  EXPECT_EQ(run.code, 0);
  const auto lines = run.lines();
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_NE(lines[0].find("GB/s read"), std::string::npos);
  EXPECT_NE(lines[1].find("of bandwidth"), std::string::npos);
  EXPECT_NE(lines[2].find("full"), std::string::npos);
}

}  // namespace
}  // namespace turnbench::test
