// The output of run, plan, status and report.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "common/file.h"
#include "common/text.h"
#include "tests/cli/small_store.h"

namespace turnbench::test {
namespace {

struct Sweep {
  TemporaryDirectory directory;
  std::string manifest = directory.write("m.json", small_manifest());
  std::string published = directory.write("small.csv", "method,position,value\nfull,end,12.5\n");
  std::string db = directory.path("s.db");

  Finished run(Arguments more = {}) const {
    more.insert(more.begin(), {"run", manifest, "--db", db});
    return run_program(more);
  }
};

TEST(Run, PrintsTheTableAndIsResumed) {
  const Sweep sweep;
  const Finished first = sweep.run();
  EXPECT_EQ(first.code, 0) << first.err;
  EXPECT_TRUE(first.out.starts_with("# A small one\n"));
  EXPECT_NE(first.out.find("| method | begin | end |"), std::string::npos) << first.out;
  EXPECT_NE(first.err.find("small: 4 units done"), std::string::npos) << first.err;
  const Finished second = sweep.run();
  EXPECT_EQ(second.out, first.out);
  EXPECT_NE(second.err.find("small: 0 units done"), std::string::npos) << second.err;
}

TEST(Run, QuietPrintsOnlyTheResult) {
  const Sweep sweep;
  const Finished run = sweep.run({"--quiet", "--json"});
  EXPECT_EQ(run.code, 0);
  EXPECT_EQ(run.err, "");
  ASSERT_EQ(run.json().size(), 1u) << "a list, as of several manifests";
  EXPECT_EQ(run.json()[0]["experiment"], "small");
}

TEST(Run, SeveralManifestsAreOneDocument) {
  const Sweep sweep;
  const std::string other =
      sweep.directory.write("o.json", replace_all(small_manifest(), "\"small\"", "\"other\""));
  const Json json = sweep.run({other, "--json", "--quiet"}).json();
  ASSERT_EQ(json.size(), 2u);
  EXPECT_EQ(json[0]["experiment"], "small");
  EXPECT_EQ(json[1]["experiment"], "other");
}

// The second one would replace the first one in the store.
TEST(Run, ManifestsOfOneNameAreRefused) {
  const Sweep sweep;
  const std::string other =
      sweep.directory.write("o.json", replace_all(small_manifest(), "A small one", "Another one"));
  const Finished refused = sweep.run({other});
  EXPECT_EQ(refused.code, 2);
  EXPECT_NE(refused.err.find("o.json: /name: found \"small\" as in "), std::string::npos)
      << refused.err;
  EXPECT_FALSE(path_exists(sweep.db));
}

TEST(Run, LimitLeavesTheRestPending) {
  const Sweep sweep;
  EXPECT_EQ(sweep.run({"--limit", "1"}).code, 0);
  const Json plan = run_program({"plan", sweep.manifest, "--db", sweep.db, "--json"}).json();
  EXPECT_EQ(plan["units"], 2);
  const Json status = run_program({"status", sweep.db, "--json"}).json();
  EXPECT_EQ(status[0]["done"], 4);
  EXPECT_EQ(status[0]["pending"], 4);
  const std::string partial =
      "Dialogues that have not run in every cell yet: 1; turnbench run continues with them. "
      "Partial: tiny-fact 1 of 2 dialogues.";
  EXPECT_NE(run_program({"report", sweep.db}).out.find(partial), std::string::npos);
  EXPECT_EQ(sweep.run().out.find("Partial"), std::string::npos);
  EXPECT_EQ(run_program({"plan", sweep.manifest, "--db", sweep.db, "--json"}).json()["units"], 0);
}

// A smoke run has a separate name in the store, and needs no model.
TEST(Run, SmokeRunIsASeparateExperiment) {
  const Sweep sweep;
  EXPECT_EQ(sweep.run({"--smoke"}).code, 0);
  EXPECT_EQ(sweep.run({"--limit", "1"}).code, 0);
  const Json status = run_program({"status", sweep.db, "--json"}).json();
  ASSERT_EQ(status.size(), 2u);
  EXPECT_EQ(status[0]["experiment"], "small.smoke");
  EXPECT_EQ(status[1]["experiment"], "small");
  EXPECT_EQ(status[1]["done"], 4) << "no cell is taken from the smoke run";
  const Json plan = run_program({"plan", sweep.manifest, "--smoke", "--json"}).json();
  EXPECT_EQ(plan["experiment"], "small.smoke");
  write_file(sweep.manifest,
             replace_all(read_file(sweep.manifest), "\"small\"", "\"small.smoke\""));
  const Finished taken = sweep.run();
  EXPECT_EQ(taken.code, 2);
  EXPECT_NE(taken.err.find("/name: found \"small.smoke\", expected a name without .smoke"),
            std::string::npos)
      << taken.err;
  EXPECT_EQ(plan["units"], 2);
  const Finished model = sweep.run({"--smoke", "--model", "tiny=/models/tiny"});
  EXPECT_EQ(model.code, 2);
  EXPECT_NE(model.err.find("expected only one of them"), std::string::npos) << model.err;
  const Finished retried = run_program({"status", sweep.db, "retry", "--quiet"});
  EXPECT_EQ(retried.code, 0) << retried.err;
}

TEST(Plan, ReportsCostsWithoutRunning) {
  const Sweep sweep;
  const auto before = sweep.directory.content();
  const Finished text = run_program({"plan", sweep.manifest});
  EXPECT_EQ(text.code, 0) << text.err;
  EXPECT_EQ(text.err, "");
  for (const char* line : {"cells            4", "work units       4", "prefills         4 shared"})
    EXPECT_NE(text.out.find(line), std::string::npos) << text.out;
  const Json json = run_program({"plan", sweep.manifest, "--json"}).json();
  EXPECT_EQ(json["experiment"], "small");
  EXPECT_EQ(json["cells"], 4);
  EXPECT_EQ(json["shared_prefills"], 4);
  EXPECT_EQ(json["unshared_prefills"], 8);
  EXPECT_EQ(json["max_new_tokens"], 2 * 2 * 4 * 4);  // dialogues, turns, cells, tokens
  for (const char* key : {"prompt_tokens", "longest_prompt", "prefill_s_at_100_gflops"})
    EXPECT_GT(json[key], 0) << key;
  EXPECT_GT(json["time"]["seconds"], 0);
  EXPECT_TRUE(sweep.directory.content() == before);
}

TEST(Plan, SeveralManifestsHaveATotal) {
  const Sweep sweep;
  const std::string other = sweep.directory.write(
                        "o.json", replace_all(small_manifest(), "\"small\"", "\"other\"")),
                    longer = sweep.directory.write(
                        "l.json",
                        replace_all(replace_all(small_manifest(), "\"small\"", "\"longer\""),
                                    "\"limit\": 2", "\"limit\": 3"));
  const Json json = run_program({"plan", sweep.manifest, other, longer, "--json"}).json();
  ASSERT_EQ(json["manifests"].size(), 3u);
  EXPECT_EQ(json["manifests"][0]["experiment"], "small");
  EXPECT_EQ(json["manifests"][0]["units"], 4);
  EXPECT_EQ(json["manifests"][1]["units"], 0) << "the same cells, which run once";
  EXPECT_EQ(json["manifests"][2]["units"], 6);
  EXPECT_EQ(json["experiment"], "small, other, longer");
  EXPECT_EQ(json["units"], 10);
  for (const char* key : {"prompt_tokens", "max_new_tokens", "prefill_flop"}) {
    double sum = 0;
    for (const Json& manifest : json["manifests"]) sum += manifest[key].get<double>();
    EXPECT_DOUBLE_EQ(json[key], sum) << key;
  }
  const Finished text = run_program({"plan", sweep.manifest, other, longer});
  EXPECT_NE(text.out.find("all 3 manifests\n  cells            12\n"), std::string::npos)
      << text.out;
  // One manifest has the same keys.
  const Json one = run_program({"plan", sweep.manifest, "--json"}).json();
  ASSERT_EQ(one["manifests"].size(), 1u);
  EXPECT_EQ(one["manifests"][0]["units"], one["units"]);
}

TEST(Plan, ReportsAMissingStore) {
  const Sweep sweep;
  const Finished plan = run_program({"plan", sweep.manifest, "--db", sweep.db});
  EXPECT_EQ(plan.code, 0);
  EXPECT_EQ(plan.err, sweep.db + ": does not exist yet: planning for an empty store\n");
  EXPECT_FALSE(path_exists(sweep.db));
  EXPECT_EQ(run_program({"plan", sweep.manifest, "--db", sweep.db, "--quiet"}).err, "");
}

// A template is identified by the content of its file, which is next to the manifest: another text
// is another prompt.
TEST(Plan, ResolvesTemplatesRelativeToTheManifest) {
  const TemporaryDirectory d;
  Json json = parse_json(small_manifest(), "small");
  json["models"] = {{{"name", "tiny"}, {"template", "my/chat.jinja"}}};
  json.erase("published");
  const std::string manifest = d.write("m.json", json.dump()), db = d.path("s.db");
  const std::string chat =
      "{% for m in messages %}<{{ m.content }}>{% endfor %}{% if add_generation_prompt %}:{% endif "
      "%}";
  d.write("my/chat.jinja", chat);
  const Finished run = run_program({"run", manifest, "--db", db, "--limit", "1", "--quiet"});
  EXPECT_EQ(run.code, 0) << run.err;
  const Arguments plan = {"plan", manifest, "--db", db, "--limit", "1", "--json"};
  EXPECT_EQ(run_program(plan).json()["units"], 0);
  const std::string prompt = run_program({"dialogues", manifest, "--template", "auto", "--limit",
                                          "1", "--positions", "end"})
                                 .json()["turns"][0]["prompt"];
  EXPECT_TRUE(prompt.starts_with("<") && prompt.ends_with(">:")) << prompt;
  d.write("my/chat.jinja", "." + chat);
  EXPECT_GT(run_program(plan).json()["units"], 0);
  std::filesystem::remove(d.path("my/chat.jinja"));
  const Finished gone = run_program(plan);
  EXPECT_EQ(gone.code, 2);
  EXPECT_NE(
      gone.err.find("m.json: /models/0/template: found \"my/chat.jinja\", expected a file, or "
                    "one of: none"),
      std::string::npos)
      << gone.err;
}

TEST(Plan, ReportsTheDialoguesNeededForADifference) {
  const Sweep sweep;
  EXPECT_EQ(sweep.run().code, 0);
  const Arguments plan = {"plan", sweep.manifest, "--db", sweep.db};
  const auto with = [&](const Arguments& more) {
    Arguments all = plan;
    all.insert(all.end(), more.begin(), more.end());
    return run_program(all);
  };
  const Json json = with({"--power", "5", "--json"}).json()["dialogues_needed"];
  EXPECT_EQ(json["points"], 5);
  ASSERT_EQ(json["tables"].size(), 1u);
  ASSERT_EQ(json["tables"][0]["entries"].size(), 2u) << "one method, at two positions";
  for (const Json& entry : json["tables"][0]["entries"]) {
    EXPECT_EQ(entry["n"], 2);
    EXPECT_GT(entry["needed"], 10);
  }
  EXPECT_NE(with({"--power", "5"}).out.find(", from 2 stored ones\n"), std::string::npos);
  for (const char* points : {"0", "100", "nan", "abc"}) {
    const Finished refused = with({"--power", points});
    EXPECT_EQ(refused.code, 2);
    EXPECT_EQ(refused.err,
              fmt::format("turnbench: --power: found \"{}\", expected points between 0 "
                          "and 100\n",
                          points));
  }
  // With tables that were changed since the last run, before a new one.
  const std::string stored = read_file(sweep.db);
  Json changed = parse_json(small_manifest(), "small");
  changed["tables"] = {{{"title", "Other"},
                        {"rows", {"position"}},
                        {"columns", {"method"}},
                        {"difference_to", "full"}}};
  sweep.directory.write("m.json", changed.dump());
  const Json other = with({"--power", "5", "--json"}).json()["dialogues_needed"];
  ASSERT_EQ(other["tables"].size(), 1u);
  EXPECT_EQ(other["tables"][0]["title"], "Other");
  ASSERT_EQ(other["tables"][0]["entries"].size(), 2u);
  EXPECT_EQ(other["tables"][0]["entries"][0]["n"], 2);
  EXPECT_EQ(read_file(sweep.db), stored) << "nothing is written";

  const Finished alone = run_program({"plan", sweep.manifest, "--power", "5"});
  EXPECT_EQ(alone.code, 2);
  EXPECT_NE(alone.err.find("--power: found no --db, expected a store with results"),
            std::string::npos)
      << alone.err;
}

// With own answers, prompts after the first turn are equal only while answers are.
TEST(Plan, TellsWhetherItExpectsEqualAnswers) {
  const Sweep sweep;
  const auto expects = [&](const char* answers, bool isolated = false,
                           std::vector<std::string> methods = {"full", "h2o:budget=32"}) {
    Json manifest = Json::parse(small_manifest());
    manifest["answers"] = answers;
    manifest["isolated"] = isolated;
    manifest["methods"] = methods;
    manifest.erase("tables");
    const std::string path = sweep.directory.write("p.json", manifest.dump());
    return run_program({"plan", path, "--no-measure", "--json"}).json()["expects_equal_answers"];
  };
  EXPECT_EQ(expects("own"), true);
  EXPECT_EQ(expects("gold"), false);
  EXPECT_EQ(expects("own", true), false) << "nothing is shared";
  EXPECT_EQ(expects("own", false, {"minference", "flexprefill"}), false) << "nothing is shared";
}

TEST(Plan, TellsWhetherWorkersMayNeedMoreThanTheLimit) {
  const Sweep sweep;
  const auto plan = [&](const char* limit) {
    return run_program({"plan", sweep.manifest, "--no-measure", "--memory-limit", limit}).out;
  };
  EXPECT_NE(plan("1").find("dialogues that need more than 1 MiB fail"), std::string::npos);
  EXPECT_EQ(plan("100000").find("fail"), std::string::npos);
}

TEST(Status, FailuresAreListedAndRetried) {
  const Sweep sweep;
  const Finished failed = sweep.run({"--memory-limit", "1"});
  EXPECT_EQ(failed.code, 1);
  EXPECT_NE(failed.out.find("failed"), std::string::npos) << failed.out;
  const auto lines = std::count(failed.err.begin(), failed.err.end(), '\n');
  EXPECT_GE(lines, 16) << failed.err;  // 8 dialogues of 2 turns
  EXPECT_NE(failed.err.find("more than the limit of 1 MiB"), std::string::npos) << failed.err;

  const Finished text = run_program({"status", sweep.db});
  EXPECT_EQ(text.code, 1);
  EXPECT_EQ(text.lines().size(), 18u);
  EXPECT_EQ(text.lines()[0], "small: 0 dialogues done, 8 failed, 0 pending");
  const std::string retry = fmt::format("`turnbench status {} retry` runs them again", sweep.db);
  EXPECT_EQ(text.lines()[1], "  16 records failed; " + retry);
  EXPECT_NE(failed.err.find("small: 16 records failed; `run --retry` or " + retry),
            std::string::npos)
      << failed.err;
  EXPECT_NE(failed.out.find("turnbench status DB retry runs them again."), std::string::npos)
      << failed.out;
  const std::string cell = "tiny, tiny-fact, begin, full: ";
  EXPECT_TRUE(text.lines()[2].starts_with("  " + cell)) << text.lines()[2];
  EXPECT_NE(failed.err.find("failed: " + cell), std::string::npos) << failed.err;
  const Json json = run_program({"status", sweep.db, "--json"}).json();
  ASSERT_EQ(json.size(), 1u);
  EXPECT_EQ(json[0]["experiment"], "small");
  EXPECT_EQ(json[0]["failed"], 16);
  EXPECT_EQ(json[0]["failed_dialogues"], 8);
  EXPECT_EQ(json[0]["done"], 0);
  EXPECT_EQ(json[0]["pending"], 0);
  ASSERT_EQ(json[0]["failures"].size(), 16u);
  for (const char* key : {"cell", "dialogue", "turn", "error"})
    EXPECT_TRUE(json[0]["failures"][0].contains(key)) << key;
  const Json report = run_program({"report", sweep.db, "--json"}).json();
  for (const Json& cell : report["cells"]) {
    EXPECT_EQ(cell["failed"], 4);
    EXPECT_EQ(cell["n"], 0);
    EXPECT_TRUE(cell["mean"].is_null());
  }

  // A run without the limit does not run them again, and reports this.
  const Finished unlimited = sweep.run();
  EXPECT_EQ(unlimited.code, 1);
  EXPECT_NE(
      unlimited.err.find("small: 16 records failed, 16 of them in earlier runs; `run --retry`"),
      std::string::npos)
      << unlimited.err;

  const Finished retried = run_program({"status", sweep.db, "retry", "--quiet"});
  EXPECT_EQ(retried.code, 0) << retried.err;
  EXPECT_EQ(retried.err, "");
  EXPECT_EQ(retried.out, run_program({"report", sweep.db}).out);
  const Finished done = run_program({"status", sweep.db});
  EXPECT_EQ(done.code, 0);
  EXPECT_EQ(done.out,
            "small: 8 dialogues done, 0 failed, 0 pending\n"
            "  16 of 16 answers reached their length limit\n");
}

// Labels that are the same in all cells are left out.
TEST(Status, FailuresNameTheHistoryIfItVaries) {
  const Sweep sweep;
  Json manifest = Json::parse(small_manifest());
  manifest["history"] = {"reprefill", "compress_once"};
  const std::string path = sweep.directory.write("m.json", manifest.dump());
  EXPECT_EQ(sweep.run({"--memory-limit", "1", "--limit", "1"}).code, 1);
  const Finished text = run_program({"status", sweep.db});
  EXPECT_NE(text.out.find("tiny, tiny-fact, begin, full, compress_once: "), std::string::npos)
      << text.out;
}

TEST(Run, RetriesFailedRecords) {
  const Sweep sweep;
  ASSERT_EQ(sweep.run({"--memory-limit", "1"}).code, 1);
  const Finished retried = sweep.run({"--retry"});
  EXPECT_EQ(retried.code, 0) << retried.err;
  EXPECT_NE(retried.err.find("small: 16 failed records forgotten\n"), std::string::npos)
      << retried.err;
  EXPECT_NE(retried.err.find("small: 4 units done"), std::string::npos) << retried.err;
  EXPECT_EQ(run_program({"status", sweep.db}).code, 0);
  EXPECT_NE(sweep.run({"--retry"}).err.find("small: 0 units done"), std::string::npos);
}

// Failed dialogues are not done: here those of one method.
TEST(Status, CountsFailedDialoguesApart) {
  const Sweep sweep;
  sweep.directory.write("m.json", replace_all(small_manifest(), "snapkv:budget=64,window=8",
                                              "snapkv:budget=1%,window=8"));
  ASSERT_EQ(sweep.run().code, 1);
  const Finished status = run_program({"status", sweep.db, "--json"});
  EXPECT_EQ(status.code, 1);
  EXPECT_EQ(status.json()[0]["done"], 4);
  EXPECT_EQ(status.json()[0]["failed_dialogues"], 4);
  EXPECT_EQ(status.json()[0]["pending"], 0);
}

TEST(Status, PendingDialoguesAreNotSuccess) {
  const Sweep sweep;
  ASSERT_EQ(sweep.run({"--limit", "1"}).code, 0);
  EXPECT_EQ(run_program({"status", sweep.db}).code, 1);
  EXPECT_EQ(run_program({"status", sweep.db, "--quiet"}).code, 1);
  ASSERT_EQ(sweep.run().code, 0);
  EXPECT_EQ(run_program({"status", sweep.db}).code, 0);
}

struct Report {
  TemporaryDirectory directory;
  std::string db = directory.write("s.db", small_store());

  Finished run(Arguments more = {}) const {
    more.insert(more.begin(), {"report", db});
    return run_program(more);
  }
};

TEST(Report, Json) {
  const Report report;
  const Finished run = report.run({"--format", "json"});
  EXPECT_TRUE(run.out.starts_with("{\n \"schema\": 1,\n \"experiment\": "))
      << run.out.substr(0, 60);
  EXPECT_EQ(run.code, 0);
  EXPECT_EQ(run.err, "");
  EXPECT_EQ(report.run({"--json"}).out, run.out);
  const OrderedJson json = OrderedJson::parse(run.out);
  EXPECT_EQ(json["experiment"], "small");
  ASSERT_EQ(json["cells"].size(), 4u);
  int published = 0;
  for (const OrderedJson& cell : json["cells"]) {
    std::vector<std::string> keys;
    for (const auto& [key, value] : cell.items()) keys.push_back(key);
    std::vector<std::string> expected = {
        "model", "dataset", "position", "method", "settings",  "metric",       "mean",  "low",
        "high",  "n",       "units",    "failed", "published", "length_limit", "turns", "pending"};
    if (cell["method"] != "full") {
      expected.push_back("differences");
      ASSERT_EQ(cell["differences"].size(), 1u);
      const OrderedJson& difference = cell["differences"][0];
      EXPECT_EQ(difference["to"], "full");
      EXPECT_LE(difference["low"], difference["mean"]);
      EXPECT_LE(difference["p"], difference["p_adjusted"]);
      EXPECT_GE(difference["p"], .5) << "two dialogues have four flips, of which two are extreme";
    }
    EXPECT_EQ(keys, expected);
    EXPECT_EQ(cell["length_limit"], (OrderedJson{{"answers", 4}, {"reached", 4}}));
    EXPECT_EQ(cell["n"], 2);
    EXPECT_EQ(cell["turns"], 4);
    EXPECT_EQ(cell["pending"], 0);
    EXPECT_LE(cell["low"], cell["mean"]);
    EXPECT_LE(cell["mean"], cell["high"]);
    EXPECT_EQ(cell["settings"]["history"], "reprefill");
    if (!cell["published"].is_null()) {
      ++published;
      EXPECT_EQ(cell["published"], 12.5);
      EXPECT_EQ(cell["method"], "full");
      EXPECT_EQ(cell["position"], "end");
    }
  }
  EXPECT_EQ(published, 1);
  ASSERT_EQ(json["tables"].size(), 1u);
  const OrderedJson& table = json["tables"][0];
  EXPECT_EQ(table["difference_to"], "full");
  EXPECT_EQ(table["adjusted_by"], "maxt");
  ASSERT_EQ(table["entries"].size(), 4u);
  for (const OrderedJson& entry : table["entries"])
    EXPECT_EQ(entry.contains("difference"), entry["row"][0] != "full");
}

TEST(Report, MarginsAndAdjustments) {
  const Report report;
  const Finished run = report.run({"--margin", "2", "--adjust", "holm"});
  EXPECT_NE(run.out.find(", equivalence p "), std::string::npos) << run.out;
  EXPECT_NE(run.out.find("by Holm's method); equivalence: p of two one-sided tests, within 2 "
                         "points."),
            std::string::npos)
      << run.out;
  const OrderedJson json = OrderedJson::parse(report.run({"--json", "--margin", "2"}).out);
  EXPECT_EQ(json["tables"][0]["margin"], 2);
  const Finished adjust = report.run({"--adjust", "bonferroni"});
  EXPECT_EQ(adjust.code, 2);
  EXPECT_NE(adjust.err.find("--adjust: found \"bonferroni\", expected maxt or holm"),
            std::string::npos)
      << adjust.err;
  for (const char* margin : {"0", "-1", "100", "nan", "two"}) {
    const Finished refused = report.run({std::string("--margin=") + margin});
    EXPECT_EQ(refused.code, 2) << margin;
    EXPECT_NE(refused.err.find("--margin: found"), std::string::npos) << refused.err;
  }
}

TEST(Report, Csv) {
  const Report report;
  const auto pivot = report.run({"--format", "csv"}).lines();
  ASSERT_EQ(pivot.size(), 3u);
  EXPECT_EQ(pivot[0],
            "method,begin,begin low,begin high,begin n,begin turns,begin failed,begin published,"
            "begin difference,begin minus full,begin minus full low,begin minus full high,"
            "begin minus full p,begin minus full p adjusted,end,end low,end high,end n,end turns,"
            "end failed,end published,end difference,end minus full,end minus full low,"
            "end minus full high,end minus full p,end minus full p adjusted");
  EXPECT_NE(pivot[1].find(",12.50,"), std::string::npos) << pivot[1];
  EXPECT_TRUE(pivot[1].starts_with("full,"));
  EXPECT_TRUE(pivot[2].starts_with("\"snapkv:budget=64,window=8\","));
  const auto cells = report.run({"--format", "csv", "--long"}).lines();
  ASSERT_EQ(cells.size(), 5u);
  EXPECT_EQ(cells[0],
            "model,dataset,position,method,history,answers,metric,mean,low,high,n,failed,published,"
            "turns,pending,units,minus full,minus full low,minus full high,minus full p,"
            "minus full p adjusted");
  EXPECT_TRUE(cells[1].starts_with("tiny,tiny-fact,begin,full,reprefill,own,qa_f1,")) << cells[1];
}

TEST(Report, Markdown) {
  const Report report;
  const Finished run = report.run();
  EXPECT_EQ(report.run({"--format", "md"}).out, run.out);
  EXPECT_NE(run.out.find("**All**"), std::string::npos);
  EXPECT_NE(run.out.find("[paper 12.50, "), std::string::npos) << run.out;
  EXPECT_NE(run.out.find("| method | begin | end | kept | read | pairs |"), std::string::npos);
}

TEST(Report, Html) {
  const Report report;
  const std::string page = report.run({"--format", "html"}).out;
  EXPECT_TRUE(page.starts_with("<!doctype html>")) << page.substr(0, 40);
  EXPECT_NE(page.find("</html>"), std::string::npos);
  EXPECT_NE(page.find("<svg"), std::string::npos);
  EXPECT_EQ(page.find("src=\"http"), std::string::npos);
}

TEST(Report, OutputFileEqualsStdout) {
  const Report report;
  for (const char* format : {"md", "csv", "tex", "html", "json", "svg"}) {
    const std::string file = report.directory.path("out");  // each builds on the previous one
    const Finished run = report.run({"--format", format, "-o", file});
    EXPECT_EQ(run.code, 0) << run.err;
    EXPECT_EQ(run.out, "");
    EXPECT_EQ(read_file(file), report.run({"--format", format}).out);
    EXPECT_EQ(report.run({"--format", format, "-o", "/dev/stdout"}).out, read_file(file));
  }
  for (const auto& [ending, format] :
       {std::pair(".tex", "tex"), {".html", "html"}, {".svg", "svg"}, {".md", "md"}, {"", "md"}}) {
    const std::string file = report.directory.path(std::string("report") + ending);
    EXPECT_EQ(report.run({"-o", file}).code, 0);
    EXPECT_EQ(read_file(file), report.run({"--format", format}).out) << ending;
  }
  EXPECT_EQ(report.run({"-o", report.directory.path("odd.txt"), "--format", "csv"}).code, 0);
  EXPECT_EQ(read_file(report.directory.path("odd.txt")), report.run({"--format", "csv"}).out);
  EXPECT_EQ(report.run({"-o", report.directory.path("long.csv"), "--long"}).code, 0);
  const Finished failed = report.run({"-o", report.directory.path("no/such/file")});
  EXPECT_EQ(failed.code, 1);
  EXPECT_EQ(failed.out, "");
  EXPECT_NE(failed.err.find("no/such/file: cannot be written"), std::string::npos) << failed.err;
}

TEST(Report, Charts) {
  const Report report;
  const std::string costs = report.run({"--format", "svg", "--chart", "costs"}).out;
  EXPECT_NE(costs.find(">tokens that a decode step reads</text>"), std::string::npos) << costs;
  EXPECT_NE(costs.find("class=\"front\""), std::string::npos);
  const std::string table = report.run({"--format", "svg", "--table", "1"}).out;
  EXPECT_NE(table.find(">All</text>"), std::string::npos) << "the table's title: " << table;
  for (const auto& [options, expected] :
       {std::pair(Arguments{"--chart", "costs"},
                  "--chart: found the format md, expected --format svg"),
        {Arguments{"--format", "svg", "--chart", "all"},
         "--chart: found \"all\", expected positions or costs"},
        {Arguments{"--format", "svg", "--chart", "costs", "--table", "1"},
         "--chart: found --table too, expected only one of them"}}) {
    const Finished refused = report.run(options);
    EXPECT_EQ(refused.code, 2);
    EXPECT_NE(refused.err.find(expected), std::string::npos) << refused.err;
  }
}

TEST(Report, EntriesShowTheChosenColumns) {
  const Report report;
  const std::string all = report.run({}).out, compact = report.run({"--compact"}).out;
  EXPECT_NE(all.find(" [paper 12.50, "), std::string::npos);
  EXPECT_EQ(compact.find("[paper"), std::string::npos);
  EXPECT_EQ(compact.find("95% intervals over"), std::string::npos) << compact;
  EXPECT_NE(all.find("Differences to full."), std::string::npos);
  EXPECT_EQ(compact.find("Differences to"), std::string::npos) << compact;
  EXPECT_EQ(report.run({"--columns", "mean"}).out, compact);
  EXPECT_EQ(report.run({"--columns", "mean,interval,difference,published"}).out, all);
  EXPECT_NE(report.run({"--columns", "mean,published", "--format", "tex"}).out.find("[paper 12.50"),
            std::string::npos);
  const std::string file = report.directory.path("compact.md");
  EXPECT_EQ(report.run({"--compact", "-o", file}).code, 0);
  EXPECT_EQ(report.run({"--compact", "-o", file}).code, 0) << "recognised as a report";
  const std::pair<Arguments, const char*> refused[] = {
      {{"--columns", "mean", "--format", "csv", "--table", "1"},
       "--columns: found the format csv, expected md or tex: the others show all columns"},
      {{"--columns", "mean", "--json"}, "--columns: found the format json"},
      {{"--compact", "--format", "html"}, "--compact: found the format html"},
      {{"--compact", "--columns", "mean"}, "--compact: found --columns too"},
      {{"--columns", ""}, "--columns: found \"\", expected some of: mean,interval,difference,pub"},
      {{"--columns", "mean,p"}, "--columns: found \"p\", expected some of: mean,interval"},
      {{"--columns", "mean,mean"}, "--columns: found \"mean\" twice"}};
  for (const auto& [arguments, message] : refused) {
    const Finished run = report.run(arguments);
    EXPECT_EQ(run.code, 2) << message;
    EXPECT_NE(run.err.find(message), std::string::npos) << run.err;
    EXPECT_EQ(std::count(run.err.begin(), run.err.end(), '\n'), 1) << run.err;
  }
}

TEST(Report, OutputsAreNamedByTheirFormat) {
  const Report report;
  const auto refusal = [&](const Arguments& more) {
    const Finished refused = report.run(more);
    EXPECT_EQ(refused.code, 2);
    EXPECT_EQ(refused.out, "");
    EXPECT_EQ(std::count(refused.err.begin(), refused.err.end(), '\n'), 1) << refused.err;
    return refused.err;
  };
  const std::string pdf = report.directory.path("a.pdf"), html = report.directory.path("a.html"),
                    md = report.directory.path("a.md");
  EXPECT_NE(refusal({"-o", pdf})
                .find("--output: found the ending \".pdf\", expected one of: .md, "
                      ".csv, .tex, .html, .json, .svg; or --format"),
            std::string::npos);
  const std::string mismatch =
      "--output: found a name that ends with .html and the format csv, expected .csv";
  EXPECT_NE(refusal({"-o", html, "--format", "csv"}).find(mismatch), std::string::npos);
  EXPECT_NE(refusal({"-o", html, "--json"}).find("and the format json"), std::string::npos);
  ASSERT_EQ(report.run({"-o", md}).code, 0);
  const std::string before = read_file(md);
  EXPECT_NE(refusal({"-o", md, "--format", "html"}).find("expected .html"), std::string::npos);
  EXPECT_EQ(read_file(md), before);
  EXPECT_FALSE(std::filesystem::exists(pdf) || std::filesystem::exists(html));
  EXPECT_EQ(report.run({"-o", pdf, "--format", "html"}).code, 0) << "what is asked for";
}

TEST(Report, OutputReplacesNothingButReports) {
  const Report report;
  const std::string manifest = report.directory.write("m.json", small_manifest());
  const Finished refused = report.run({"-o", manifest});
  EXPECT_EQ(refused.code, 2);
  EXPECT_NE(refused.err.find("m.json: found a file that is no report, expected another name, or "
                             "--force to replace it\n"),
            std::string::npos)
      << refused.err;
  EXPECT_EQ(read_file(manifest), small_manifest());
  for (const char* force : {"--quiet", "--force"}) {
    const Finished store = report.run({"-o", report.db, force});
    EXPECT_EQ(store.code, 2);
    EXPECT_NE(store.err.find("found the store "), std::string::npos) << store.err;
    EXPECT_EQ(store.err.find('\n') + 1, store.err.size());
  }
  const Finished directory = report.run({"-o", report.directory.path("")});
  EXPECT_EQ(directory.code, 2);
  EXPECT_NE(directory.err.find("found a directory, expected a file"), std::string::npos);
  EXPECT_EQ(report.run({"-o", manifest, "--force"}).code, 0);
  EXPECT_EQ(read_file(manifest), report.run({"--json"}).out);
  // Any file can be the target of stdout, whatever it contains.
  const std::string log = report.directory.write("log", "mine");
  EXPECT_EQ(run_program({"report", report.db, "-o", "/dev/stdout"}, "", log).code, 0);
  EXPECT_EQ(read_file(log), report.run().out);
  EXPECT_EQ(report.directory.content().size(), 3u) << "the store and the reports";
}

// Reading does not change a store by a single byte, and leaves no files next to it.
TEST(Report, DoesNotChangeTheStore) {
  const Report report;
  const auto before = report.directory.content();
  EXPECT_EQ(report.run().code, 0);
  EXPECT_EQ(run_program({"status", report.db}).code, 0);
  EXPECT_TRUE(report.directory.content() == before);
}

}  // namespace
}  // namespace turnbench::test
