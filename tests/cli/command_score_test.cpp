// The effects of score on a store, and of import-predictions on files.

#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "common/text.h"
#include "tests/cli/small_store.h"
#include "tests/harness/store/store_dump.h"

namespace turnbench::test {
namespace {

/// The manifest of small_store with answers that are partly correct.
std::string manifest() {
  return replace_all(small_manifest(), "\"max_new_tokens\": 4", "\"max_new_tokens\": 40");
}

struct Scored {
  TemporaryDirectory directory;
  std::string manifest_file = directory.write("m.json", manifest());
  std::string db = directory.path("s.db");

  Scored() {
    directory.write("small.csv", "method,position,value\nfull,end,12.5\n");
    const Finished run = run_program({"run", manifest_file, "--db", db, "--quiet"});
    EXPECT_EQ(run.code, 0) << run.err;
  }

  Finished score(Arguments more = {}) const {
    more.insert(more.begin(), {"score", db});
    return run_program(more);
  }
};

/// Every score of a metric, by its record.
std::map<std::string, double> scores_of(const std::string& db, const std::string& metric) {
  const Database file(db, Database::Mode::kReadWrite);
  Statement s =
      file.prepare("SELECT cell || dialogue || turn, value FROM score WHERE metric = ? ORDER BY 1");
  s << metric;
  std::map<std::string, double> out;
  while (s.next()) out[s.text(0)] = s.real(1);
  return out;
}

// The metric of the run, applied to the stored answers, gives the same bits.
TEST(ScoreStore, GivesTheScoresOfTheRun) {
  const Scored scored;
  const auto before = scores_of(scored.db, "qa_f1");
  ASSERT_EQ(before.size(), 16u);
  double sum = 0;
  for (const auto& [place, value] : before) sum += value;
  EXPECT_GT(sum, 0) << "scores that are all zero prove nothing";
  const Dump all = dump(scored.db, true);
  const Finished run = scored.score({"--json"});
  EXPECT_EQ(run.code, 0) << run.err;
  EXPECT_EQ(run.err, "");
  expect_same(dump(scored.db, true), all);
  double mean = 0;
  ASSERT_EQ(run.json().size(), 4u);
  for (const Json& cell : run.json()) {
    EXPECT_EQ(cell["equal"], 4);
    EXPECT_EQ(cell["turns"], 4);
    EXPECT_EQ(cell["n"], 2) << "dialogues";
    EXPECT_EQ(cell["history"], "reprefill");
    EXPECT_EQ(cell["answers"], "own");
    EXPECT_EQ(cell["added"], 0);
    EXPECT_EQ(cell["different"], 0);
    mean += cell["mean"].get<double>() / 4;
  }
  EXPECT_NEAR(mean, 100 * sum / 16, 1e-9);
  // Deleted scores are restored with the same values.
  execute(scored.db, "DELETE FROM score WHERE turn = 0");
  EXPECT_EQ(scored.score().code, 0);
  expect_same(dump(scored.db, true), all);
}

TEST(ScoreStore, AddsAnotherMetricOnce) {
  const Scored scored;
  const std::string own = run_program({"report", scored.db}).out;
  const Finished first = scored.score({"--metric", "rouge_l_recall"});
  EXPECT_EQ(first.code, 0) << first.err;
  EXPECT_NE(first.out.find("4 new, 0 as stored"), std::string::npos) << first.out;
  const Dump before = dump(scored.db, true);
  const Finished second = scored.score({"--metric", "rouge_l_recall"});
  EXPECT_NE(second.out.find("0 new, 4 as stored"), std::string::npos) << second.out;
  expect_same(dump(scored.db, true), before);
  EXPECT_EQ(scores_of(scored.db, "rouge_l_recall").size(), 16u);
  EXPECT_EQ(run_program({"report", scored.db}).out, own) << "the cells' own metric stays theirs";
  const Finished report = run_program({"report", scored.db, "--metric", "rouge_l_recall"});
  EXPECT_NE(report.out.find("**All: rouge_l_recall**"), std::string::npos) << report.out;
  EXPECT_EQ(report.out.find("paper"), std::string::npos) << report.out;
  const Json json =
      run_program({"report", scored.db, "--metric", "rouge_l_recall", "--json"}).json();
  for (const Json& cell : json["cells"]) {
    EXPECT_EQ(cell["metric"], "rouge_l_recall");
    EXPECT_TRUE(cell["published"].is_null());
    EXPECT_EQ(cell["n"], 2);
    EXPECT_EQ(cell["turns"], 4);
  }
}

TEST(ScoreStore, PostprocessingGivesASeparateScore) {
  const Scored scored;
  EXPECT_EQ(scored.score({"--postprocess", "none"}).code, 0);
  EXPECT_EQ(scored.score({"--metric", "exact_match", "--postprocess", "none"}).code, 0);
  EXPECT_EQ(scores_of(scored.db, "exact_match").size(), 16u);
  EXPECT_EQ(count(scored.db, "SELECT count(*) FROM score WHERE metric = 'qa_f1'"), 32);
  const Finished only = run_program({"report", scored.db, "--metric", "exact_match"});
  EXPECT_NE(only.out.find("**All: exact_match (none)**"), std::string::npos) << only.out;
  const Finished other =
      run_program({"report", scored.db, "--metric", "qa_f1", "--postprocess", "none"});
  EXPECT_NE(other.out.find("**All: qa_f1 (none)**"), std::string::npos) << other.out;
}

// A table of the manifest may have another metric; its published numbers are those with this
// metric.
TEST(ScoreStore, ATableMayNameAMetric) {
  const TemporaryDirectory d;
  const std::string file = d.write(
      "m.json",
      replace_all(manifest(), R"("title": "All",)", R"("title": "All", "value": "exact_match",)"));
  d.write("small.csv",
          "method,position,metric,value\nfull,end,,12.5\nfull,begin,exact_match,7.5\n");
  const std::string db = d.path("s.db");
  EXPECT_EQ(run_program({"run", file, "--db", db, "--quiet"}).code, 0);
  EXPECT_EQ(run_program({"score", db, "--metric", "exact_match"}).code, 0);
  const Finished report = run_program({"report", db});
  EXPECT_NE(report.out.find("**All: exact_match**"), std::string::npos) << report.out;
  EXPECT_NE(report.out.find("[paper 7.50, "), std::string::npos) << report.out;
  EXPECT_EQ(report.out.find("[paper 12.50, "), std::string::npos) << report.out;
}

TEST(ScoreStore, ReportsDifferencesAndKeepsStoredScores) {
  const Scored scored;
  const auto before = scores_of(scored.db, "qa_f1");
  execute(scored.db, "UPDATE score SET value = 0.125 WHERE turn = 0");
  const Finished run = scored.score();
  EXPECT_EQ(run.code, 1);
  EXPECT_EQ(split(run.err, "differs: ").size(), 9u) << run.err;
  EXPECT_NE(run.err.find("turn 1: found 0.125 stored, expected "), std::string::npos) << run.err;
  EXPECT_NE(scores_of(scored.db, "qa_f1"), before);
  const Finished replaced = scored.score({"--replace"});
  EXPECT_EQ(replaced.code, 0) << replaced.err;
  EXPECT_EQ(scores_of(scored.db, "qa_f1"), before);
}

TEST(ScoreStore, NamesTurnsThatAMetricCannotScore) {
  const Scored scored;
  const Finished run = scored.score({"--metric", "longbench_write_length"});
  EXPECT_EQ(run.code, 1);
  EXPECT_NE(run.err.find("not scored: tiny, tiny-fact, begin, full: "), std::string::npos)
      << run.err;
  EXPECT_NE(run.err.find("expected a length in words"), std::string::npos) << run.err;
  EXPECT_EQ(scores_of(scored.db, "longbench_write_length").size(), 0u);
}

TEST(ScoreStore, Refusals) {
  const auto score = [](Arguments more) {
    return [more](const TemporaryDirectory& d) {
      Arguments out = {"score", d.write("s.db", small_store())};
      out.insert(out.end(), more.begin(), more.end());
      return out;
    };
  };
  const Malformed cases[] = {
      {"unknown metric", score({"--metric", "qa_f2"}), "--metric: found the metric \"qa_f2\""},
      {"unknown postprocess", score({"--postprocess", "x"}), "--postprocess: found"},
      {"unknown experiment", score({"--experiment", "big"}), "found no experiment \"big\""},
      {"a dataset", score({"--dataset", "hotpotqa"}), "--dataset: found it with a store"},
      {"no file",
       [](const TemporaryDirectory& d) -> Arguments {
         return {"score", d.path("no.db")};
       },
       "no.db: found no readable file (No such file or directory), expected one of predictions, or "
       "a store"},
      {"an experiment of a file",
       [](const TemporaryDirectory& d) -> Arguments {
         return {"score", d.write("p.jsonl", "{}\n"), "--metric", "qa_f1", "--experiment", "e"};
       },
       "p.jsonl: found a file of predictions with --experiment, expected a store"},
      {"a report by a metric that is not there",
       [](const TemporaryDirectory& d) -> Arguments {
         return {"report", d.write("s.db", small_store()), "--metric", "rouge"};
       },
       "found no scores of small by \"rouge\", expected a metric of: qa_f1"},
      {"a report by half a choice",
       [](const TemporaryDirectory& d) -> Arguments {
         return {"report", d.write("s.db", small_store()), "--postprocess", "none"};
       },
       "--postprocess: found no --metric"},
      {"a table of no metric",
       [](const TemporaryDirectory& d) -> Arguments {
         return {"plan", d.write("m.json", replace_all(small_manifest(), R"("title": "All",)",
                                                       R"("value": "qa_f2",)"))};
       },
       "/tables/0/value: found \"qa_f2\", expected \"qa_f1\""},
  };
  expect_refusals(cases);
}

}  // namespace
}  // namespace turnbench::test
