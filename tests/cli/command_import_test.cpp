// Import of predictions that other programs made, through the command line.

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "common/text.h"
#include "tests/cli/small_store.h"
#include "tests/harness/store/store_dump.h"

namespace turnbench::test {
namespace {

const char* kManifest = R"({"name": "small", "models": ["tiny"],
  "datasets": [{"name": "tiny-fact", "limit": 2, "length": 120, "turns": 2, "seed": 1}],
  "positions": ["begin", "end"], "methods": ["full"], "max_new_tokens": 4,
  "tables": [{"rows": ["method"], "columns": ["position"], "difference_to": "full"}]})";

/// The output of `dialogues` for the manifest's dataset.
std::vector<Json> dialogues() {
  const Finished run =
      run_program({"dialogues", "--dataset", "tiny-fact", "--limit", "2", "--length", "120",
                   "--turns", "2", "--seed", "1", "--positions", "begin,end"});
  std::vector<Json> out;
  for (const std::string& line : run.lines()) out.push_back(Json::parse(line));
  return out;
}

/// The first turns are correct, the others wrong.
std::string half_right() {
  std::string out;
  for (const Json& d : dialogues()) {
    for (std::size_t t = 0; t < d["turns"].size(); ++t) {
      const Json& reference = d["turns"][t]["references"][0];
      out += Json{{"dialogue", d["id"]},
                  {"turn", t + 1},
                  {"answer", t == 0 ? reference : Json("nothing of the kind")}}
                 .dump() +
             "\n";
    }
  }
  return out;
}

struct Import {
  TemporaryDirectory directory;
  std::string manifest = directory.write("m.json", kManifest), db = directory.path("s.db");

  Finished run(const std::string& file, Arguments more) const {
    more.insert(more.begin(), {"import-predictions", file, "--db", db});
    return run_program(more);
  }
};

TEST(Import, AppearsInTheTable) {
  const Import import;
  ASSERT_EQ(run_program({"run", import.manifest, "--db", import.db, "--quiet"}).code, 0);
  const std::string file = import.directory.write("p.jsonl", half_right());
  const Finished first = import.run(file, {"--label", "theirs", "--manifest", import.manifest});
  ASSERT_EQ(first.code, 0) << first.err;
  EXPECT_NE(first.err.find("8 predictions stored as imported:theirs"), std::string::npos);
  EXPECT_NE(first.out.find("| imported:theirs | 50.0 ["), std::string::npos) << first.out;
  EXPECT_NE(first.out.find("| full | "), std::string::npos) << first.out;
  // Importing the same predictions again, or by the experiment's name only, adds nothing.
  const Dump before = dump(import.db, true);
  EXPECT_EQ(import.run(file, {"--label", "theirs", "--experiment", "small"}).out, first.out);
  expect_same(dump(import.db, true), before);
  // Another run of the manifest keeps them.
  EXPECT_EQ(run_program({"run", import.manifest, "--db", import.db, "--quiet"}).out, first.out);
  EXPECT_EQ(run_program({"score", import.db}).code, 0);
  // Provenance: the file's path and hash, and that nothing is known of the model.
  EXPECT_EQ(count(import.db, "SELECT count(*) FROM environment WHERE json LIKE '%" + file + "%'"),
            1);
  EXPECT_EQ(count(import.db,
                  "SELECT count(*) FROM method WHERE canonical LIKE 'imported:theirs "
                  "________________________________'"),
            1);
  EXPECT_EQ(count(import.db, "SELECT count(*) FROM model WHERE description LIKE '%not seen%'"), 1);
  // Other predictions need another label.
  const std::string other = import.directory.write("q.jsonl", split(half_right(), "\n")[0] + "\n");
  const Dump mine = dump(import.db, true);
  const Finished refused = import.run(other, {"--label", "theirs", "--experiment", "small"});
  EXPECT_EQ(refused.code, 2);
  EXPECT_NE(refused.err.find("--label: found imported:theirs in "), std::string::npos)
      << refused.err;
  expect_same(dump(import.db, true), mine);
  EXPECT_EQ(import.run(other, {"--label", "more", "--experiment", "small"}).code, 0);
  EXPECT_EQ(run_program({"doctor", import.db}).code, 0) << "predictions may be missing";
  // Missing predictions are not pending work for `run`.
  const Finished status = run_program({"status", import.db, "--json"});
  EXPECT_EQ(status.code, 0);
  const Json state = status.json()[0];
  EXPECT_EQ(state["pending"], 0);
  EXPECT_GT(state["not_imported"], 0);
  EXPECT_NE(run_program({"status", import.db}).out.find(" 0 pending\n"), std::string::npos);
  EXPECT_NE(run_program({"status", import.db})
                .out.find("dialogues without imported predictions of all"
                          " turns"),
            std::string::npos);
}

TEST(Import, ManifestsPrintTheIdsOfTheirOwnData) {
  const TemporaryDirectory d;
  d.write(
      "data/mine.jsonl",
      R"({"id": "first", "context": "One is 1. Two is 2.", "question": "One?", "references": "1"})"
      "\n"
      R"({"id": "other", "context": "Six is 6. Ten is 10.", "question": "Ten?", "references": "10"})"
      "\n");
  const std::string manifest = d.write("m.json", R"({"name": "own", "models": ["tiny"],
    "datasets": [{"name": "jsonl", "label": "mine", "metric": "exact_match", "source": "data/mine.jsonl"},
                 {"name": "tiny-fact", "label": "fact", "limit": 3, "length": 200, "turns": 2, "seed": 4}],
    "positions": ["begin", "end"], "methods": ["full"]})");
  const auto ids_of = [](const Finished& run) {
    EXPECT_EQ(run.code, 0) << run.err;
    std::vector<std::string> out;
    for (const std::string& line : run.lines()) out.push_back(Json::parse(line)["id"]);
    return out;
  };
  const Finished mine = run_program({"dialogues", manifest, "--dataset", "mine"});
  EXPECT_EQ(ids_of(mine),
            (std::vector<std::string>{"first:begin", "first:end", "other:begin", "other:end"}));
  EXPECT_EQ(Json::parse(mine.lines()[0])["metric"], "exact_match");
  EXPECT_EQ(run_program({"dialogues", "--manifest", manifest, "--dataset", "mine"}).out, mine.out);
  EXPECT_EQ(ids_of(run_program({"dialogues", manifest, "--dataset", "mine", "--positions", "middle",
                                "--limit", "1"})),
            std::vector<std::string>{"first:middle"});
  // Another place on this machine.
  const std::string other = d.write(
      "elsewhere.jsonl", R"({"id": "third", "context": "a", "question": "b?", "references": ["c"]})"
                         "\n");
  EXPECT_EQ(ids_of(run_program({"dialogues", manifest, "--dataset", "mine", "--data",
                                "mine=" + other, "--positions", "end"})),
            std::vector<std::string>{"third:end"});
  // The same lines as from the catalog.
  EXPECT_EQ(run_program({"dialogues", manifest, "--dataset", "fact"}).out,
            run_program({"dialogues", "--dataset", "tiny-fact", "--limit", "3", "--length", "200",
                         "--turns", "2", "--seed", "4", "--positions", "begin,end"})
                .out);
  EXPECT_EQ(run_program({"dialogues", manifest, "--dataset", "fact", "--stats", "--json"})
                .json()["dialogues"],
            3);
  // Answers with these ids can be imported.
  std::string answers;
  for (const std::string& line : mine.lines()) {
    const Json dialogue = Json::parse(line);
    answers += Json{{"dialogue", dialogue["id"]}, {"answer", dialogue["turns"][0]["references"][0]}}
                   .dump() +
               "\n";
  }
  const Finished imported =
      run_program({"import-predictions", d.write("p.jsonl", answers), "--db", d.path("s.db"),
                   "--label", "me", "--manifest", manifest, "--dataset", "mine"});
  EXPECT_EQ(imported.code, 0) << imported.err;
  EXPECT_NE(imported.err.find("4 predictions stored as imported:me\n"), std::string::npos);
  EXPECT_EQ(imported.err.find("expected"), std::string::npos) << imported.err;
}

TEST(Import, ManifestsDialoguesAreRefusedInOneLine) {
  const TemporaryDirectory d;
  const std::string manifest = d.write(
      "m.json",
      R"({"name": "m", "models": ["tiny"], "datasets": ["tiny-fact", "tiny-hop"], "methods": ["full"]})");
  const auto refusal = [&](const Arguments& more) {
    Arguments all = {"dialogues", manifest};
    all.insert(all.end(), more.begin(), more.end());
    const Finished run = run_program(all);
    EXPECT_EQ(run.code, 2);
    EXPECT_EQ(run.out, "");
    return run.err;
  };
  EXPECT_EQ(refusal({}),
            "turnbench: --dataset: found \"\", expected one of: tiny-fact, tiny-hop\n");
  EXPECT_EQ(refusal({"--dataset", "tiny-hip"}),
            "turnbench: --dataset: found \"tiny-hip\", expected \"tiny-hop\"\n");
  for (const char* option : {"--seed", "--length", "--turns", "--depth", "--source"}) {
    const std::string message = refusal({"--dataset", "tiny-hop", option, "3"});
    EXPECT_NE(message.find("expected only one of them"), std::string::npos) << message;
  }
  EXPECT_EQ(run_program({"dialogues", "--dataset", "tiny-hop", "--data", "a=b"}).code, 2);
  EXPECT_EQ(run_program({"dialogues", d.path("none.json")}).code, 2);
}

TEST(Import, CountsMissingPredictions) {
  const Import import;
  const std::vector<std::string> lines = split(half_right(), "\n");
  const std::string some = lines[0] + "\n" + lines[1] + "\n" + lines[4] + "\n";
  const Finished one = import.run(import.directory.write("p.jsonl", some),
                                  {"--label", "some", "--manifest", import.manifest});
  EXPECT_EQ(one.code, 0);
  EXPECT_NE(one.err.find("3 predictions stored as imported:some\n"), std::string::npos) << one.err;
  EXPECT_NE(one.err.find("p.jsonl: found 3 predictions, expected 4 (2 dialogues x 2 turns); first "
                         "missing: tiny-fact-1-00001, turn 2, begin\n"),
            std::string::npos)
      << one.err;
  const std::string both = some + lines[2] + "\n";
  const Finished two = import.run(import.directory.write("q.jsonl", both),
                                  {"--label", "both", "--manifest", import.manifest});
  EXPECT_NE(two.err.find("q.jsonl: found 4 predictions, expected 8 (2 dialogues x 2 turns x 2 "
                         "positions); first missing: tiny-fact-1-00000, turn 2, end\n"),
            std::string::npos)
      << two.err;
}

TEST(Import, WorksBeforeARun) {
  const Import import;
  const std::string file = import.directory.write("p.jsonl", half_right());
  const Finished first = import.run(file, {"--label", "theirs", "--manifest", import.manifest});
  ASSERT_EQ(first.code, 0) << first.err;
  const Finished run = run_program({"run", import.manifest, "--db", import.db, "--quiet"});
  EXPECT_EQ(run.code, 0) << run.err;
  EXPECT_NE(run.out.find("| imported:theirs | 50.0 ["), std::string::npos) << run.out;
}

struct LongBench : Import {
  std::string data;
  LongBench() {
    std::string records;
    for (int i = 0; i < 4; ++i) {
      records += Json{{"input", "Who?"},
                      {"context", "Passage 1:\nSomebody did something."},
                      {"answers",
                       {i < 2    ? "Ann Lee"
                        : i == 2 ? "Bob"
                                 : "Cy"}},
                      {"length", 100},
                      {"dataset", "hotpotqa"},
                      {"language", "en"},
                      {"all_classes", nullptr},
                      {"_id", "id" + std::to_string(9 - i)}}
                     .dump() +
                 "\n";
    }
    directory.write("longbench/hotpotqa.jsonl", records);
    data = "longbench=" + directory.path("longbench");
  }
  static std::string line(const std::string& pred, const std::string& answer) {
    return Json{{"pred", pred}, {"answers", {answer}}, {"all_classes", nullptr}, {"length", 100}}
               .dump() +
           "\n";
  }
  Finished import_lines(const std::string& lines, const std::string& label) const {
    return run(directory.write(label + ".jsonl", lines),
               {"--label", label, "--dataset", "hotpotqa", "--data", data, "--model", "llama"});
  }
};

TEST(Import, FileNamesMayHaveAnyBytes) {
  const Import import;
  const std::string file = import.directory.write("p\xff.jsonl", half_right());
  const Finished run = import.run(file, {"--label", "x", "--manifest", import.manifest});
  EXPECT_EQ(run.code, 0) << run.err;
}

TEST(Import, ReadsLongBenchPredictions) {
  const LongBench set;
  const std::string lines = set.line("Ann Lee", "Ann Lee") + set.line("the lee", "Ann Lee") +
                            set.line("no", "Bob") + set.line("Cy.", "Cy");
  const Finished run = set.import_lines(lines, "paper");
  ASSERT_EQ(run.code, 0) << run.err;
  // 1, 2/3 (one of two words; articles are ignored), 0 and 1: 2.667 / 4.
  EXPECT_NE(run.out.find("| llama | imported:paper | 66.7 "), std::string::npos) << run.out;
  const Json json =
      run_program({"report", set.db, "--experiment", "imported-hotpotqa", "--json"}).json();
  EXPECT_EQ(json["cells"][0]["n"], 4);
  EXPECT_EQ(json["cells"][0]["model"], "llama");
  // A part in another order is matched by its references, if they differ.
  const Finished part = set.import_lines(set.line("x", "Cy") + set.line("Bob", "Bob"), "part");
  ASSERT_EQ(part.code, 0) << part.err;
  EXPECT_NE(part.out.find("\n|  | imported:part | 50.0 "), std::string::npos) << part.out;
  EXPECT_NE(part.out.find("Dialogues without imported predictions of all turns: 2."),
            std::string::npos)
      << part.out;
  EXPECT_EQ(count(set.db, "SELECT count(*) FROM record WHERE dialogue = 'id7' AND answer = 'Bob'"),
            1);
}

/// The command with `lines` as its file and `more` at its end; `store`: the content of the store, a
/// new one if empty.
Arguments importing(const TemporaryDirectory& d, const std::string& lines, const Arguments& more,
                    const std::string& store = "") {
  const std::string db = store.empty() ? d.path("s.db") : d.write("s.db", store);
  Arguments out = {"import-predictions", d.write("p.jsonl", lines), "--db", db, "--label", "x"};
  out.insert(out.end(), more.begin(), more.end());
  return out;
}

// Turns without a reference have no score; the others of the same dataset keep theirs.
TEST(Import, OfATurnWithoutReferenceChangesNoOtherMethod) {
  const Import import;
  import.directory.write("f.jsonl", R"({"id": "none", "question": "Anything?", "references": ""})"
                                    "\n"
                                    R"({"id": "f1", "question": "Which color?", "references": "x"})"
                                    "\n");
  import.directory.write("g.jsonl", R"({"id": "g1", "question": "Which?", "references": "x"})"
                                    "\n");
  const std::string manifest =
      import.directory.write("m.json", R"({"name": "own", "models": ["tiny"],
    "datasets": [{"name": "jsonl", "label": "F", "source": "f.jsonl", "metric": "exact_match"},
                 {"name": "jsonl", "label": "G", "source": "g.jsonl", "metric": "exact_match"}],
    "positions": ["begin", "end"], "methods": ["full"], "max_new_tokens": 4,
    "tables": [{"rows": ["method"], "columns": ["dataset"]},
               {"rows": ["method.name"], "columns": ["dataset"], "values": ["kv_bytes", "score"]}]})");
  ASSERT_EQ(run_program({"run", manifest, "--db", import.db}).code, 0);
  const std::string file =
      import.directory.write("p.jsonl", R"({"dialogue": "none", "turn": 1, "answer": "hello"})"
                                        "\n");
  const Finished none =
      import.run(file, {"--label", "other", "--experiment", "own", "--dataset", "F"});
  ASSERT_EQ(none.code, 0) << none.err;
  EXPECT_NE(none.out.find("\n| full | 0.0 | 0.0 |"), std::string::npos) << none.out;
  EXPECT_NE(none.out.find("\n| full | 0.0"), std::string::npos) << none.out;
  EXPECT_NE(none.out.find("\n| imported:other |  |"), std::string::npos) << none.out;
  EXPECT_EQ(none.out.find("\n| - |"), std::string::npos) << "each import has its row";
}

// An import at one position is not compared with means over all positions.
TEST(Import, AtOnePositionHasNoMeanOverAll) {
  const Import import;
  Json manifest = Json::parse(kManifest);
  manifest["tables"] = {{{"rows", {"method"}}, {"columns", {"dataset"}}}};
  const std::string path = import.directory.write("m.json", manifest.dump());
  ASSERT_EQ(run_program({"run", path, "--db", import.db}).code, 0);
  std::string at_end;
  for (const std::string& line : split(half_right(), "\n")) {
    if (line.find(":end\"") != std::string::npos) at_end += line + "\n";
  }
  const Finished run = import.run(import.directory.write("p.jsonl", at_end),
                                  {"--label", "half", "--experiment", "small"});
  ASSERT_EQ(run.code, 0) << run.err;
  EXPECT_NE(run.out.find("| imported:half | – |"), std::string::npos) << run.out;
  EXPECT_NE(run.out.find("begin (not there)"), std::string::npos) << run.out;
}

TEST(Import, Refusals) {
  const auto with = [](const std::string& lines) {
    return [lines](const TemporaryDirectory& d) {
      return importing(d, lines, {"--experiment", "small"}, small_store());
    };
  };
  const std::string id = dialogues()[0]["id"];
  const std::string good = Json{{"dialogue", id}, {"turn", 1}, {"answer", "a"}}.dump() + "\n";
  const auto longbench = [](const std::string& lines) {
    return [lines](const TemporaryDirectory& d) {
      std::string records;
      for (const char* answer : {"Ann", "Ann", "Bob"}) {
        records += Json{{"input", "Who?"},        {"context", "Text."},
                        {"answers", {answer}},    {"length", 1},
                        {"dataset", "hotpotqa"},  {"language", "en"},
                        {"all_classes", nullptr}, {"_id", std::to_string(records.size())}}
                       .dump() +
                   "\n";
      }
      return importing(
          d, lines,
          {"--dataset", "hotpotqa", "--data", "hotpotqa=" + d.write("hotpotqa.jsonl", records)});
    };
  };
  const Malformed cases[] = {
      {"no file",
       [](const TemporaryDirectory& d) -> Arguments {
         return {"import-predictions", d.path("no"), "--db", d.path("s.db"), "--label", "x",
                 "--dataset",          "tiny-fact"};
       },
       "no: "},
      {"empty", with(""), "p.jsonl: found an empty file"},
      {"no JSON", with(good + "x\n"), "p.jsonl:2: "},
      {"no object", with("[]\n"), "p.jsonl:1: "},
      {"no answer", with(R"({"dialogue": ")" + id + "\", \"turn\": 1}\n"),
       "p.jsonl:1: /: found no key \"answer\""},
      {"answer of another kind",
       with(R"({"dialogue": ")" + id + "\", \"turn\": 1, \"answer\": 5}\n"),
       "p.jsonl:1: /answer: found 5"},
      {"unknown dialogue", with(good + R"({"dialogue": "x", "answer": "a"})" + "\n"),
       "p.jsonl:2: /dialogue: found \"x\", expected a dialogue of tiny-fact, which has 2, from "
       "\"tiny-fact-1-00000\" to \"tiny-fact-1-00001\""},
      {"turn beyond", with(R"({"dialogue": ")" + id + "\", \"turn\": 3, \"answer\": \"a\"}\n"),
       "p.jsonl:1: /turn: found 3"},
      {"turn below", with(R"({"dialogue": ")" + id + "\", \"turn\": 0, \"answer\": \"a\"}\n"),
       "p.jsonl:1: /turn: found 0"},
      {"twice", with(good + good), "p.jsonl:2: /dialogue: found"},
      {"LongBench's lines for several turns", with(LongBench::line("a", "b")),
       "found dialogues of several turns, expected lines of {\"dialogue\""},
      {"no turn", with(R"({"dialogue": ")" + id + "\", \"answer\": \"a\"}\n"),
       "p.jsonl:1: /: found no key \"turn\""},
      {"answers in order, but not all",
       longbench(LongBench::line("a", "Ann") + LongBench::line("a", "Bob")),
       "p.jsonl:1: found an answer of several dialogues of hotpotqa, expected all 3 lines"},
      {"a position that the experiment lacks",
       [&](const TemporaryDirectory& d) {
         const std::string middle =
             Json{{"dialogue", "tiny-fact-1-00000:middle"}, {"turn", 1}, {"answer", "a"}}.dump();
         return importing(d, middle + "\n", {"--experiment", "small"}, small_store());
       },
       "p.jsonl:1: found the position middle, expected one that the experiment has: "},
      {"answers of no dialogue", longbench(LongBench::line("a", "Cy")),
       "p.jsonl:1: /answers: found"},
      {"answers that tell nothing apart",
       longbench(LongBench::line("a", "Bob") + LongBench::line("a", "Ann") +
                 LongBench::line("a", "Ann") + LongBench::line("a", "Ann")),
       "p.jsonl:3: /answers: found"},
      {"several kinds of lines", longbench(LongBench::line("a", "Ann") + good),
       "p.jsonl:2: /: found no key \"references\""},
      {"no dataset", [&](const TemporaryDirectory& d) { return importing(d, good, {}); },
       "--dataset: found none, expected one"},
      {"a dataset that the experiment has not",
       [&](const TemporaryDirectory& d) {
         return importing(d, good, {"--experiment", "small", "--dataset", "tiny-hop"},
                          small_store());
       },
       "--dataset: found \"tiny-hop\", expected"},
      {"a dataset that is no UTF-8",
       [&](const TemporaryDirectory& d) {
         return importing(d, good, {"--dataset", "\xff"});
       },
       "--dataset: found the dataset \"\\xff\""},
      {"a model that is no UTF-8",
       [&](const TemporaryDirectory& d) {
         return importing(d, good, {"--dataset", "tiny-fact", "--model", "\xff"});
       },
       "--model: found \"\\xff\", expected a name"},
      {"published numbers that are none",
       [&](const TemporaryDirectory& d) {
         d.write("small.csv", "method,value\nfull,about 40\n");
         return importing(d, good, {"--manifest", d.write("m.json", small_manifest())});
       },
       "small.csv: line 2: found the value \"about 40\", expected a number"},
      {"a position that an official prompt cannot have",
       [&](const TemporaryDirectory& d) {
         const Arguments out = importing(d, good, {"--experiment", "small"}, small_store());
         execute(d.path("s.db"),
                 "UPDATE dialogue SET json = json_set(json, '$.turns[0].layout', 'verbatim')");
         return out;
       },
       "p.jsonl:1: tiny-fact: found the position begin, expected end"},
      {"a position that is none",
       [&](const TemporaryDirectory& d) {
         return importing(d, good, {"--dataset", "tiny-fact", "--position", "top"});
       },
       "--position: found the position \"top\""},
  };
  expect_refusals(cases);
}

}  // namespace
}  // namespace turnbench::test
