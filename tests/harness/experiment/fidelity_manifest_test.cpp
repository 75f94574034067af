// Fidelity through the program: manifest, store, resumed runs, tables.

#include <gtest/gtest.h>

#include <filesystem>

#include "common/file.h"
#include "tests/cli/program.h"
#include "tests/harness/store/store_dump.h"

namespace turnbench::test {
namespace {

Json fidelity_manifest() {
  return {{"name", "small"},
          {"models", {"tiny"}},
          {"datasets",
           {{{"name", "tiny-fact"}, {"limit", 2}, {"length", 300}, {"turns", 2}},
            {{"name", "tiny-label"},
             {"limit", 2},
             {"length", 300},
             {"turns", 2},
             {"postprocess", "first_line"}}}},
          {"methods", {"full", "streamingllm:budget=64", "snapkv:budget=48,window=8"}},
          {"answers", "gold"},
          {"max_new_tokens", 8},
          {"fidelity", "full"},
          {"tables",
           {{{"rows", "method"}, {"columns", "turn"}, {"value", "kl"}, {"difference_to", "full"}},
            {{"rows", "method"}, {"columns", "position"}, {"value", "agreement"}},
            {{"rows", "method"}, {"columns", "dataset"}}}}};
}

class FidelityManifest : public testing::Test {
 protected:
  Finished run(const Json& manifest, const Arguments& more = {}) {
    Arguments arguments = {"run", directory_.write("m.json", manifest.dump()), "--db", db_};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run_program(arguments);
  }
  Json report(const std::string& metric) const {
    return run_program({"report", db_, "--metric", metric, "--json"}).json();
  }
  /// Mean of a cell, by method; of both datasets.
  double mean(const std::string& metric, const std::string& method) const {
    double sum = 0;
    const Json all = report(metric);
    for (const Json& cell : all["cells"]) {
      if (cell["method"] != method) continue;
      EXPECT_EQ(cell["metric"], metric);
      EXPECT_EQ(cell["n"], 2);
      sum += cell["mean"].get<double>() / 2;
    }
    return sum;
  }

  TemporaryDirectory directory_;
  std::string db_ = directory_.path("a.db");
};

TEST_F(FidelityManifest, TablesShowDivergence) {
  const Finished first = run(fidelity_manifest());
  ASSERT_EQ(first.code, 0) << first.err;
  EXPECT_NE(
      first.out.find("KL divergence of the next-token distribution from full attention's (nats"),
      std::string::npos)
      << first.out;
  EXPECT_NE(first.out.find("| full | 0.0000 [0.0000, 0.0000] | 0.0000 ["), std::string::npos)
      << first.out;
  EXPECT_NE(first.out.find("| full | 100.0 ["), std::string::npos) << first.out;
  EXPECT_EQ(count(db_, "SELECT count(*) FROM record"), 24);
  EXPECT_EQ(count(db_, "SELECT count(*) FROM score"), 24 * 5);
  EXPECT_EQ(mean("kl", "full"), 0);
  EXPECT_EQ(mean("agreement", "full"), 100);
  EXPECT_EQ(mean("delta_logprob", "full"), 0);
  const std::string other = "streamingllm:budget=64";
  EXPECT_GT(mean("kl", other), 0.01) << "in nats, not x100";
  EXPECT_LT(mean("agreement", other), 100);
  EXPECT_LT(mean("delta_logprob", other), 0);
  EXPECT_NEAR(mean("answer_nll", other) + mean("delta_logprob", other), mean("answer_nll", "full"),
              1e-9);
}

// Reports know whether lower or higher is better, and the figure has another axis than for scores.
TEST_F(FidelityManifest, ReportsKnowWhetherLowerIsBetter) {
  Json manifest = fidelity_manifest();
  for (Json& dataset : manifest["datasets"]) dataset["limit"] = 4;  // with two, no p is small
  ASSERT_EQ(run(manifest).code, 0);
  const std::string html = run_program({"report", db_, "--format", "html"}).out;
  EXPECT_NE(html.find("Shaded, p at most 0.05: more than full (orange)"), std::string::npos);
  EXPECT_NE(html.find("class=\"worse"), std::string::npos);
  const std::string svg = run_program({"report", db_, "--metric", "kl", "--format", "svg"}).out,
                    scores = run_program({"report", db_, "--format", "svg"}).out;
  EXPECT_EQ(svg.find(">100</text>"), std::string::npos) << svg;
  EXPECT_EQ(svg.find(">-"), std::string::npos) << "a divergence is never negative: " << svg;
  EXPECT_NE(scores.find(">100</text>"), std::string::npos) << scores;
}

// Notes on scores are not printed for nats.
TEST_F(FidelityManifest, ReportsDescribeTheMeasures) {
  Json manifest = fidelity_manifest();
  ASSERT_EQ(run(manifest).code, 0);
  const auto csv = [&](const char* table) {
    return run_program({"report", db_, "--format", "csv", "--table", table}).out;
  };
  EXPECT_TRUE(csv("1").starts_with("method,turn 1,")) << csv("1");
  EXPECT_NE(csv("1"), csv("2"));
  const Json agreement =
      run_program({"report", db_, "--metric", "agreement", "--json"}).json()["cells"];
  for (const Json& cell : agreement) {
    const bool is_full = cell["method"] == "full";
    if (is_full) {
      EXPECT_EQ(cell["mean"], 100);
    }
    EXPECT_EQ(cell["low"] == cell["mean"], is_full) << cell["method"] << ": of itself, exactly";
  }
  const Finished several = run_program({"report", db_, "--format", "csv"});
  EXPECT_EQ(several.code, 2);
  EXPECT_EQ(several.out, "");
  EXPECT_NE(several.err.find("expected --table with the number or title of one of them, or --long"),
            std::string::npos)
      << several.err;
  const std::string mixed = run_program({"report", db_, "--margin", "2"}).out;
  EXPECT_NE(mixed.find("\nMeans with 95% intervals over dialogues, scores x100; "),
            std::string::npos)
      << mixed;
  manifest["tables"].erase(1);
  ASSERT_EQ(run(manifest).code, 0);
  const std::string nats = run_program({"report", db_, "--metric", "kl", "--margin", "2"}).out;
  EXPECT_NE(nats.find("\nMeans with 95% intervals over dialogues; "), std::string::npos) << nats;
  EXPECT_EQ(nats.find("equivalence"), std::string::npos) << nats;
  const std::string file = directory_.write("r.md", nats);
  EXPECT_EQ(run_program({"report", db_, "-o", file}).code, 0) << "it is known as a report";
  const std::string plan =
      run_program({"plan", directory_.path("m.json"), "--db", db_, "--power", "2"}).out;
  EXPECT_NE(plan.find("snapkv:budget=48,window=8: unknown: points are of 100, and these values are "
                      "no shares, from 4 stored ones\n"),
            std::string::npos)
      << plan;
}

TEST_F(FidelityManifest, IsResumed) {
  Json manifest = fidelity_manifest();
  ASSERT_EQ(run(manifest, {"--workers", "2"}).code, 0);
  const Dump whole = dump(db_);
  std::filesystem::remove(db_);
  // One dialogue first; then without full attention among the methods; then all.
  ASSERT_EQ(run(manifest, {"--limit", "1", "--workers", "1"}).code, 0);
  Json some = manifest;
  some["name"] = "some";
  some["methods"] = {"snapkv:budget=48,window=8"};
  some["tables"] = Json::array({{{"value", "kl"}, {"columns", "dataset"}}});
  ASSERT_EQ(run(some).code, 0);
  ASSERT_EQ(run(manifest, {"--workers", "1", "--threads", "2"}).code, 0);
  const Dump resumed = dump(db_);
  for (const char* table : {"record", "score", "counter"})
    EXPECT_EQ(resumed.at(table), whole.at(table));
  EXPECT_NE(run(manifest).err.find("0 units done"), std::string::npos);
}

// The measure is part of a cell's key; the answers are the same.
TEST_F(FidelityManifest, ChangesCellKeysButNotAnswers) {
  Json manifest = fidelity_manifest();
  ASSERT_EQ(run(manifest).code, 0);
  manifest["fidelity"] = "gold";
  ASSERT_EQ(run(manifest).code, 0);
  manifest.erase("fidelity");
  manifest["tables"].erase(0);
  manifest["tables"].erase(0);
  ASSERT_EQ(run(manifest).code, 0);
  EXPECT_EQ(count(db_, "SELECT count(DISTINCT cell) FROM record"), 18);
  EXPECT_EQ(count(db_, "SELECT count(*) FROM record"), 72);
  EXPECT_EQ(count(db_,
                  "SELECT count(*) FROM (SELECT DISTINCT c.dataset, c.method, r.dialogue, r.turn, "
                  "r.answer_tokens, r.prompt_hash, r.stopped FROM record r JOIN cell c ON "
                  "c.key = r.cell)"),
            24);
  EXPECT_EQ(count(db_, "SELECT count(*) FROM score"), 24 * (5 + 5 + 1));
  const Finished missing = run_program({"report", db_, "--metric", "kl"});
  EXPECT_EQ(missing.code, 2);
  EXPECT_NE(missing.err.find("no scores of small by \"kl\""), std::string::npos) << missing.err;
}

TEST_F(FidelityManifest, RejectsMeaninglessSettings) {
  const auto refused = [&](const char* pointer, const Json& value, const char* expected) {
    Json manifest = fidelity_manifest();
    if (value.is_null()) {
      manifest.erase(pointer);
    } else {
      manifest[pointer] = value;
    }
    const Finished got = run(manifest);
    EXPECT_EQ(got.code, 2);
    EXPECT_NE(got.err.find(expected), std::string::npos) << got.err;
  };
  refused("fidelity", "own", "/fidelity: found \"own\", expected one of: full, gold");
  refused("fidelity", nullptr, "/tables/0/value: found \"kl\", expected score, or \"fidelity\"");
  refused("isolated", true, "/fidelity: found \"full\", expected none with isolated");
}

}  // namespace
}  // namespace turnbench::test
