// Answers that reached their length limit are reported wherever numbers depend on them.

#include "harness/store/cell_usage.h"

#include <gtest/gtest.h>

#include "common/text.h"
#include "tests/cli/program.h"
#include "tests/cli/small_store.h"
#include "tests/harness/store/store_dump.h"

namespace turnbench::test {
namespace {

Cell cell_of(const std::string& dataset, const std::string& method) {
  Cell out;
  out.key = dataset + "/" + method;
  out.dataset = dataset;
  out.method = method;
  out.protocol_text = "{}";
  return out;
}

TEST(LimitedAnswers, AreCountedPerMethodAndDatasetIfTheyDiffer) {
  const std::vector<Cell> cells = {cell_of("a", "full"), cell_of("a", "quest"),
                                   cell_of("b", "full"), cell_of("b", "quest")};
  const auto describe = [&](std::vector<CellUsage> usages) {
    std::map<std::string, CellUsage> by_cell;
    for (std::size_t i = 0; i < usages.size(); ++i) by_cell[cells[i].key] = usages[i];
    return describe_limited(cells, by_cell);
  };
  EXPECT_EQ(describe({{4, 0}, {4, 0}, {4, 0}, {4, 0}}), "");
  EXPECT_EQ(describe({{4, 4}, {4, 4}, {4, 4}, {4, 4}}),
            "16 of 16 answers reached their length limit");
  EXPECT_EQ(describe({{4, 1}, {4, 2}, {4, 1}, {4, 2}}),
            "6 of 16 answers reached their length limit; by method: full 2 of 8, quest 4 of 8");
  EXPECT_EQ(describe({{4, 4}, {4, 4}, {2, 0}, {2, 0}}),
            "8 of 12 answers reached their length limit; by dataset: a 8 of 8, b 0 of 4");
  EXPECT_EQ(describe({{4, 4}, {4, 0}}),
            "4 of 8 answers reached their length limit; by method: full 4 of 4, quest 0 of 4");
}

TEST(LimitedAnswers, CountsMethodsWithoutLimitedAnswers) {
  std::vector<Cell> cells;
  std::map<std::string, CellUsage> by_cell;
  for (const char* method : {"full", "quest", "snapkv", "h2o"}) {
    cells.push_back(cell_of("a", method));
    by_cell[cells.back().key] = {4, method == std::string("quest") ? 2u : 0u};
  }
  EXPECT_EQ(
      describe_limited(cells, by_cell),
      "2 of 16 answers reached their length limit; by method: quest 2 of 4, none of 3 others");
}

TEST(LimitedAnswers, CountACellWithSeveralLabelsOnce) {
  Cell other = cell_of("a", "full");
  other.dataset = "b";
  const std::map<std::string, CellUsage> by_cell = {{"a/full", {4, 3}}};
  EXPECT_EQ(describe_limited({cell_of("a", "full"), other, cell_of("c", "full")}, by_cell),
            "3 of 4 answers reached their length limit");
  const std::map<std::string, CellUsage> two = {{"a/full", {4, 3}}, {"c/full", {4, 1}}};
  EXPECT_EQ(describe_limited({cell_of("a", "full"), other, cell_of("c", "full")}, two),
            "4 of 8 answers reached their length limit; by dataset: a 3 of 4, b 3 of 4, c 1 of 4 "
            "(some of them share answers)");
}

TEST(LimitedAnswers, ExcludeAnswersOfAFixedLength) {
  Cell fixed = cell_of("a", "full"), probe = cell_of("b", "full");
  fixed.protocol_text = R"({"isolated": "each cell by itself"})";
  probe.method_canonical = "probe coverage:eta=0.1";
  const std::map<std::string, CellUsage> by_cell = {{"a/full", {4, 4}}, {"b/full", {4, 4}}};
  EXPECT_EQ(describe_limited({fixed, probe}, by_cell), "");
}

constexpr int kLimit = 10;

/// The history has gold answers, so that prompts do not depend on the limit.
std::string cut_manifest(int limit, const std::string& more = "") {
  return R"({"name": "cut", "models": ["tiny"],
    "datasets": [{"name": "tiny-fact", "limit": 2, "length": 200, "turns": 2},
                 {"name": "tiny-hop", "limit": 2, "length": 200, "turns": 2}],
    "methods": ["full", "streamingllm:budget=12"], "answers": "gold", "max_new_tokens": )" +
         std::to_string(limit) + more + "}";
}

class CutAnswers : public testing::Test {
 protected:
  Finished run(const std::string& text, const std::string& db, Arguments more = {}) {
    more.insert(more.begin(),
                {"run", directory_.write("m.json", text), "--db", directory_.path(db)});
    return run_program(more);
  }
  Finished report(const std::string& db, const std::string& format) const {
    return run_program({"report", directory_.path(db), "--format", format});
  }
  TemporaryDirectory directory_;
};

// An answer was limited if the same answer continues with a higher limit.
TEST_F(CutAnswers, AppearInSummaryStatusAndEveryReport) {
  const Finished whole = run(cut_manifest(60), "whole.db"),
                 cut = run(cut_manifest(kLimit), "cut.db");
  ASSERT_EQ(whole.code + cut.code, 0) << whole.err << cut.err;
  const auto longer = [&](const std::string& method, const std::string& dataset) {
    return count(directory_.path("whole.db"),
                 fmt::format("SELECT count(*) FROM record r JOIN experiment_cell e USING (cell) "
                             "WHERE json_array_length(r.answer_tokens) >= {} AND e.method LIKE "
                             "'{}%' AND e.dataset LIKE '{}%'",
                             kLimit, method, dataset));
  };
  const std::int64_t all = longer("", "");
  ASSERT_LT(longer("", "tiny-fact"), longer("", "tiny-hop")) << "equal counts prove nothing";
  ASSERT_NE(longer("full", ""), longer("streamingllm", ""));
  const std::string text = fmt::format(
      "{} of 16 answers reached their length limit; by dataset: tiny-fact {} of 8, tiny-hop {} of "
      "8; by method: full {} of 8, streamingllm:budget=12 {} of 8",
      all, longer("", "tiny-fact"), longer("", "tiny-hop"), longer("full", ""),
      longer("streamingllm", ""));
  EXPECT_NE(cut.err.find("cut: " + text + "\n"), std::string::npos) << cut.err;
  EXPECT_EQ(run(cut_manifest(kLimit), "cut.db", {"--quiet"}).err, "");
  for (const char* format : {"md", "html", "tex"}) {
    const std::string out = replace_all(report("cut.db", format).out, "\\allowbreak{}", "");
    EXPECT_NE(out.find(text), std::string::npos) << format;
  }
  EXPECT_EQ(split(report("cut.db", "html").out, "reached their length limit").size(), 4u)
      << "the note and two cards'";
  const Json json = report("cut.db", "json").json();
  std::int64_t reached = 0;
  for (const Json& one : json["cells"]) {
    EXPECT_EQ(one["length_limit"]["answers"], 4);
    reached += one["length_limit"]["reached"].get<std::int64_t>();
  }
  EXPECT_EQ(reached, all);
  EXPECT_NE(json["notes"].dump().find(text), std::string::npos);
  const Finished status = run_program({"status", directory_.path("cut.db")});
  EXPECT_NE(status.out.find("\n  " + text + "\n"), std::string::npos) << status.out;
  EXPECT_EQ(run_program({"status", directory_.path("cut.db"), "--json"}).json()[0]["length_limit"],
            text);
}

TEST_F(CutAnswers, AreAbsentIfAllAnswersEnded) {
  const std::string text = replace_all(cut_manifest(60), ", \"streamingllm:budget=12\"", "");
  const Finished whole = run(text, "s.db");
  ASSERT_EQ(whole.code, 0) << whole.err;
  ASSERT_EQ(count(directory_.path("s.db"), "SELECT count(*) FROM record WHERE stopped = 0"), 0);
  EXPECT_EQ(whole.err.find("length limit"), std::string::npos) << whole.err;
  for (const char* format : {"md", "html", "tex"})
    EXPECT_EQ(report("s.db", format).out.find("length limit"), std::string::npos) << format;
}

TEST_F(CutAnswers, AreMarkedAmongTheAnswers) {
  ASSERT_EQ(run(cut_manifest(kLimit), "cut.db").code, 0);
  std::set<std::string> reasons;
  for (const std::string& line : run_program({"answers", directory_.path("cut.db")}).lines()) {
    const Json json = parse_json(line, "a line");
    for (const Json& answer : json["answers"]) {
      const std::string reason = answer["finish_reason"];
      EXPECT_EQ(reason == "length", answer["tokens"] == kLimit) << line;
      reasons.insert(reason);
    }
  }
  EXPECT_EQ(reasons, (std::set<std::string>{"length", "stop"}));
  const std::string md = run_program({"answers", directory_.path("cut.db"), "--format", "md"}).out;
  const std::string mark = fmt::format(" | {} (limit) | ", kLimit);
  const std::int64_t cut =
      count(directory_.path("cut.db"), "SELECT count(*) FROM record WHERE stopped = 0");
  EXPECT_EQ(std::ssize(split(md, mark)), cut + 1) << md;
  EXPECT_EQ(split(md, "(limit)").size(), split(md, mark).size());
}

// The manifest determines their length, not the answer.
TEST_F(CutAnswers, ExcludeIsolatedCells) {
  const Finished isolated =
      run(cut_manifest(3, R"(, "isolated": true, "probes": ["coverage:eta=0.1"])"), "s.db");
  ASSERT_EQ(isolated.code, 0) << isolated.err;
  ASSERT_GT(count(directory_.path("s.db"), "SELECT count(*) FROM record WHERE stopped = 0"), 0);
  for (const std::string& text : {isolated.err, isolated.out, report("s.db", "html").out,
                                  run_program({"status", directory_.path("s.db")}).out})
    EXPECT_EQ(text.find("length limit"), std::string::npos) << text;
  const Json json = report("s.db", "json").json();
  for (const Json& one : json["cells"]) EXPECT_FALSE(one.contains("length_limit")) << one;
}

TEST(Generate, ReportsTheFinishReason) {
  const auto generate = [](Arguments more) {
    more.insert(more.begin(), {"generate", "--model", "tiny", "--chat"});
    return run_program(more, "what is the color of alice?");
  };
  const std::string limited = "the answer reached its length limit of 1 tokens (--max-tokens)\n";
  const Finished whole = generate({"--json"}), cut = generate({"--json", "--max-tokens", "1"});
  ASSERT_EQ(whole.code + cut.code, 0) << whole.err << cut.err;
  ASSERT_GT(whole.json()["ids"].size(), 1u);
  EXPECT_EQ(whole.json()["finish_reason"], "stop");
  EXPECT_EQ(whole.err, "");
  EXPECT_EQ(cut.json()["finish_reason"], "length");
  EXPECT_EQ(cut.err, limited);
  EXPECT_EQ(generate({"--max-tokens", "1"}).err, limited);
  EXPECT_EQ(generate({"--max-tokens", "1", "--quiet"}).err, "");
  const Finished fixed = generate({"--max-tokens", "1", "--ignore-eos", "--json"});
  EXPECT_EQ(fixed.err, "") << "it has the length that was asked for";
  EXPECT_EQ(fixed.json()["finish_reason"], "length");
}

}  // namespace
}  // namespace turnbench::test
