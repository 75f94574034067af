// `diff`: the fields in which the protocols of two runs differ, compared with the one setting that
// was changed, and the differences in scores, compared with the records of both stores.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <map>

#include "common/file.h"
#include "common/text.h"
#include "harness/store/sqlite.h"
#include "tests/cli/small_store.h"
#include "tests/harness/store/old_store.h"

namespace turnbench::test {
namespace {

/// A manifest of four dialogues, with parts of its text replaced.
using Edits = std::vector<std::pair<std::string, std::string>>;
std::string manifest_with(const Edits& edits) {
  std::string text = R"({"name": "runs", "models": [{"name": "tiny"}],
    "datasets": [{"name": "tiny-fact", "limit": 4, "length": 120, "turns": 2, "seed": 1}],
    "positions": ["begin", "end"], "history": ["reprefill"],
    "methods": ["full", "snapkv:budget=48,window=8"], "max_new_tokens": 12})";
  for (const auto& [from, to] : edits) {
    EXPECT_NE(text.find(from), std::string::npos) << from;
    text = replace_all(text, from, to);
  }
  return text;
}

class DiffTest : public testing::Test {
 protected:
  /// A store with the run of the manifest, after edits.
  std::string run(const std::string& name, const Edits& edits = {}) {
    const std::string db = directory_.path(name + ".db");
    const Finished out = run_program(
        {"run", directory_.write(name + ".json", manifest_with(edits)), "--db", db, "--quiet"});
    EXPECT_EQ(out.code, 0) << out.err;
    return db;
  }
  static Finished diff(Arguments arguments) {
    arguments.insert(arguments.begin(), "diff");
    return run_program(arguments);
  }
  Json json(const std::string& first, const std::string& second) const {
    const Finished out = diff({first, second, "--json"});
    EXPECT_EQ(out.code, 0) << out.err;
    return out.json();
  }

  const TemporaryDirectory directory_;
};

/// One changed setting and the field that must contain its name.
struct Change {
  const char* name;
  Edits edits;
  const char *field, *first, *second;
  int cells;  ///< pairs of cells that differ in it, of 4
};

TEST_F(DiffTest, TheFirstFieldIsTheChangedSetting) {
  const std::string before = run("before");
  const Change changes[] = {
      {"length",
       {{R"("max_new_tokens": 12)", R"("max_new_tokens": 2)"}},
       "decoding.max_new_tokens",
       "12",
       "2",
       4},
      {"seed",
       {{R"("max_new_tokens")", R"("seed": 7, "max_new_tokens")"}},
       "decoding.seed",
       "0",
       "7",
       4},
      {"precision",
       {{R"("name": "tiny")", R"("name": "tiny", "kv_dtype": "bf16")"}},
       "model.kv_dtype",
       "f32",
       "bf16",
       4},
      {"label",
       {{R"("name": "tiny")", R"("name": "other", "path": "tiny")"}},
       "model.name",
       "tiny",
       "other",
       4},
      {"window", {{"window=8", "window=16"}}, "method.window", "8", "16", 2},
      {"history",
       {{R"(["reprefill"])", R"(["recompress"])"}},
       "history",
       "reprefill",
       "recompress",
       4},
      {"truncation",
       {{R"("max_new_tokens")", R"("max_prompt_tokens": 500, "max_new_tokens")"}},
       "prompt.max_prompt_tokens",
       nullptr,
       "500",
       4},
      {"metric",
       {{R"("seed": 1)", R"("seed": 1, "metric": "rouge")"}},
       "dataset.metric",
       "qa_f1",
       "rouge",
       4},
  };
  for (const Change& change : changes) {
    SCOPED_TRACE(change.name);
    const Json out = json(before, run(change.name, change.edits));
    ASSERT_FALSE(out["protocol"].empty());
    const Json& first = out["protocol"][0];
    EXPECT_EQ(first["field"], change.field);
    ASSERT_EQ(first["values"].size(), 1u);
    if (change.first != nullptr) {
      EXPECT_EQ(first["values"][0]["a"], change.first);
    }
    EXPECT_EQ(first["values"][0]["b"], change.second);
    EXPECT_EQ(first["values"][0]["cells"], change.cells);
    EXPECT_EQ(out["cells"].size(), 4u);
    EXPECT_TRUE(out["only_a"].empty());
    EXPECT_TRUE(out["only_b"].empty());
    for (const Json& cell : out["cells"]) {
      EXPECT_EQ(cell["dialogues"], 4);
      EXPECT_EQ(cell["turns"], 8);
    }
  }
}

TEST_F(DiffTest, ModelsThatMultiplyBf16AreOtherCells) {
  const auto model = [](const char* more) {
    return Edits{{R"("name": "tiny")", fmt::format(R"("name": "tiny", {})", more)}};
  };
  const Json out =
      json(run("f32", model(R"("dtype": "bf16")")), run("bf16", model(R"("math": "bf16")")));
  ASSERT_EQ(out["protocol"].size(), 1u);
  EXPECT_EQ(out["protocol"][0]["field"], "model.arithmetic");
  EXPECT_EQ(out["protocol"][0]["values"][0]["a"], "f32");
  EXPECT_EQ(out["protocol"][0]["values"][0]["b"], "bf16");
  EXPECT_EQ(out["cells"].size(), 4u);
}

TEST_F(DiffTest, SameRunHasNoDifference) {
  const std::string db = run("a");
  const Json out = json(db, db);
  EXPECT_EQ(out["protocol"], Json::array());
  EXPECT_EQ(out["cells_that_differ"], 0);
  const Finished text = diff({db, db, "--exit-code"});
  EXPECT_EQ(text.code, 0);
  EXPECT_NE(text.out.find("The protocols are equal"), std::string::npos) << text.out;
  EXPECT_NE(text.out.find("0 of 4 cells differ"), std::string::npos) << text.out;
}

/// The result of two stores for one pair of cells, computed from the records without the program.
struct Expected {
  int turns = 0, answers = 0, prompts = 0, scores = 0;
  std::map<std::string, double> by_dialogue;  ///< sum of the differences over its turns
  std::map<std::string, int> turns_of;        ///< turns of a dialogue
  double first = 0, second = 0;               ///< means x100

  double mean() const { return second - first; }
  /// D +- t se of docs/statistics.md, at most 100 away from 0, for one dataset of n = 4 dialogues:
  /// t^2 se^2 = t^2 v + z^2 e with q = 1 / n.
  std::pair<double, double> interval() const {
    constexpr double kT = 3.182446305284263,  // 97.5% of Student's t with 3 degrees of freedom
        kZ = 1.959963984540054;
    const double n = static_cast<double>(by_dialogue.size()), per_dialogue = turns / n;
    double squares = 0, sizes = 0, cubes = 0;
    for (const auto& [dialogue, sum] : by_dialogue) {
      squares += std::pow((sum - per_dialogue * mean() / 100) / turns, 2);
      const double x = std::abs(sum) / turns_of.at(dialogue);
      sizes += x;
      cubes += x * x * x;
    }
    const double v = n / (n - 1) * squares, e = 2 / (n * n) * (2 + cubes) / (2 + sizes);
    const double half = 100 * std::sqrt(kT * kT * v + kZ * kZ * e);
    return {std::max(mean() - half, -100.0), std::min(mean() + half, 100.0)};
  }
  /// The share of all sign flips whose sum is at least as far from 0.
  double p() const {
    int hits = 0;
    const auto n = static_cast<int>(by_dialogue.size());
    for (int flips = 0; flips < 1 << n; ++flips) {
      double sum = 0;
      int i = 0;
      for (const auto& [dialogue, part] : by_dialogue)
        sum += (flips >> i++ & 1) != 0 ? -part : part;
      hits += std::abs(sum) / turns >= std::abs(mean()) / 100 - 1e-12;
    }
    return hits / static_cast<double>(1 << n);
  }
};

Expected expected(const std::string& first, const std::string& second, const std::string& position,
                  const std::string& method, const std::string& other_method) {
  Database db(first, Database::Mode::kReadWrite);
  db.execute("ATTACH '" + second + "' AS b");
  Statement s = db.prepare(
      "SELECT r.dialogue, r.answer <> q.answer, r.prompt_hash <> q.prompt_hash, u.value, v.value "
      "FROM main.record r JOIN main.cell c ON c.key = r.cell "
      "JOIN main.score u ON u.cell = r.cell AND u.dialogue = r.dialogue AND u.turn = r.turn "
      "JOIN b.cell d ON d.position = c.position "
      "JOIN b.record q ON q.cell = d.key AND q.dialogue = r.dialogue AND q.turn = r.turn "
      "JOIN b.score v ON v.cell = q.cell AND v.dialogue = q.dialogue AND v.turn = q.turn "
      "WHERE c.position = ? AND c.method LIKE ? AND d.method LIKE ?");
  s << position << method + "%" << other_method + "%";
  Expected out;
  while (s.next()) {
    ++out.turns;
    out.answers += static_cast<int>(s.integer(1));
    out.prompts += static_cast<int>(s.integer(2));
    out.scores += s.real(3) != s.real(4);
    out.first += s.real(3);
    out.second += s.real(4);
    out.by_dialogue[s.text(0)] += s.real(4) - s.real(3);
    ++out.turns_of[s.text(0)];
  }
  out.first *= 100.0 / out.turns;
  out.second *= 100.0 / out.turns;
  return out;
}

void expect_cells(const Json& out, const std::string& first, const std::string& second,
                  const std::string& snapkv = "snapkv") {
  std::size_t differ = 0;
  int answers = 0;
  for (const Json& cell : out["cells"]) {
    const std::string position = cell["a"]["position"], method = cell["a"]["method"];
    SCOPED_TRACE(position + " " + method);
    const bool full = method == "full";
    const Expected e =
        expected(first, second, position, full ? "full" : "snapkv", full ? "full" : snapkv);
    EXPECT_EQ(cell["turns"], e.turns);
    EXPECT_EQ(cell["dialogues"], e.by_dialogue.size());
    EXPECT_EQ(cell["other_answers"], e.answers);
    EXPECT_EQ(cell["other_prompts"], e.prompts);
    EXPECT_EQ(cell["other_scores"], e.scores);
    EXPECT_NEAR(cell["a"]["mean"].get<double>(), e.first, 1e-9);
    EXPECT_NEAR(cell["b"]["mean"].get<double>(), e.second, 1e-9);
    EXPECT_NEAR(cell["difference"]["mean"].get<double>(), e.mean(), 1e-9);
    const auto [low, high] = e.interval();
    EXPECT_NEAR(cell["difference"]["low"].get<double>(), low, 1e-6);
    EXPECT_NEAR(cell["difference"]["high"].get<double>(), high, 1e-6);
    EXPECT_DOUBLE_EQ(cell["difference"]["p"].get<double>(), e.p());
    EXPECT_GE(cell["difference"]["p_adjusted"].get<double>(), e.p());
    if (e.answers > 0) {
      EXPECT_TRUE(cell["differs"].get<bool>());
    }
    differ += cell["differs"].get<bool>();
    answers += e.answers;
  }
  EXPECT_EQ(out["cells_that_differ"], differ);
  EXPECT_GT(answers, 0) << "a setting that nothing depends on shows nothing";
}

TEST_F(DiffTest, DifferencesAreThoseOfTheRecords) {
  const std::string before = run("before"),
                    shorter =
                        run("shorter", {{R"("max_new_tokens": 12)", R"("max_new_tokens": 2)"}});
  expect_cells(json(before, shorter), before, shorter);
  const std::string window = run("window", {{"window=8", "window=40"}});
  const Json out = json(before, window);
  expect_cells(out, before, window);
  for (const Json& cell : out["cells"])
    EXPECT_EQ(cell["differs"], cell["a"]["method"] != "full") << "full has no window";
}

TEST_F(DiffTest, ComparesOnlyEqualDialogues) {
  const std::string before = run("before"),
                    more = run("more", {{R"("limit": 4)", R"("limit": 6)"}}),
                    fewer = run("fewer", {{R"("limit": 4)", R"("limit": 3)"}}),
                    longer = run("longer", {{R"("length": 120)", R"("length": 150)"}}),
                    others = run("others", {{R"("seed": 1)", R"("seed": 2)"}});
  const Json larger = json(before, more);
  EXPECT_EQ(larger["cells_that_differ"], 0);
  EXPECT_EQ(larger["cells"][0]["dialogues"], 4);
  EXPECT_EQ(larger["cells"][0]["dialogues_only_a"], 0);
  EXPECT_EQ(larger["cells"][0]["dialogues_only_b"], 2);
  EXPECT_EQ(diff({before, more, "--exit-code"}).code, 1) << "dialogues that A lacks";
  EXPECT_EQ(larger["protocol"][0]["field"], "dataset.dialogues");
  EXPECT_EQ(larger["protocol"][1]["field"], "dataset.count");
  EXPECT_EQ(json(before, fewer)["cells"][0]["dialogues"], 3);
  const Json of_longer = json(before, longer)["cells"];
  for (const Json& cell : of_longer) {
    EXPECT_EQ(cell["dialogues"], 0);
    EXPECT_EQ(cell["dialogues_of_other_content"], 4);
    EXPECT_FALSE(cell["differs"]);
  }
  const Json of_others = json(before, others)["cells"];
  for (const Json& cell : of_others) {
    EXPECT_EQ(cell["dialogues"], 0);
    EXPECT_EQ(cell["dialogues_only_a"], 4);  // ids contain the seed
    EXPECT_EQ(cell["dialogues_only_b"], 4);
    EXPECT_EQ(cell["dialogues_of_other_content"], 0);
    EXPECT_TRUE(cell["difference"].is_null());
    EXPECT_FALSE(cell["differs"]);
  }
  const Finished text = diff({before, others});
  EXPECT_NE(text.out.find("4 cells have no dialogue in common."), std::string::npos) << text.out;
  EXPECT_NE(text.out.find("**No cell can be compared.**"), std::string::npos) << text.out;
}

TEST_F(DiffTest, CellsWithoutRecordsAreNotCompared) {
  const std::string whole = run("whole"), part = directory_.path("part.db");
  write_file(part, read_file(whole));
  execute(part,
          "PRAGMA foreign_keys=ON; DELETE FROM record_data WHERE id >> 34 IN (SELECT id FROM cell "
          "WHERE method LIKE 'snapkv%')");
  const Finished text = diff({whole, part, "--exit-code"});
  EXPECT_EQ(text.code, 1);
  EXPECT_NE(text.out.find("The protocols are equal"), std::string::npos) << text.out;
  EXPECT_NE(text.out.find("**0 of 2 compared cells differ.**"), std::string::npos) << text.out;
  EXPECT_NE(text.out.find("2 cells have the same answers"), std::string::npos) << text.out;
  EXPECT_NE(text.out.find("2 cells have no dialogue in common."), std::string::npos) << text.out;
}

TEST_F(DiffTest, OneChangedRecordIsFound) {
  const std::string before = run("before"), after = directory_.path("after.db");
  const std::string one =
      " WHERE (cell, dialogue, turn) = (SELECT cell, dialogue, turn FROM record "
      "JOIN cell ON key = cell WHERE method LIKE 'snapkv%' AND position = 'end' "
      "ORDER BY dialogue, turn LIMIT 1)";
  const auto damaged = [&](const std::string& sql) {
    write_file(after, read_file(before));
    execute(after, sql);
    const Json out = json(before, after);
    EXPECT_EQ(out["cells_that_differ"], 1) << sql;
    EXPECT_EQ(diff({before, after, "--exit-code"}).code, 1) << sql;
    EXPECT_EQ(diff({before, after}).code, 0) << sql;
    for (const Json& cell : out["cells"]) {
      if (cell["differs"]) return cell;
    }
    return Json();
  };
  const Json answer = damaged("UPDATE record SET answer = 'x'" + one);
  EXPECT_EQ(answer["a"]["method"], "snapkv:budget=48,window=8");
  EXPECT_EQ(answer["a"]["position"], "end");
  EXPECT_EQ(answer["other_answers"], 1);
  EXPECT_EQ(answer["other_scores"], 0);
  const Json counter =
      damaged("UPDATE counter SET value = value + 1" + one + " AND name = 'kv_tokens'");
  EXPECT_EQ(counter["other_answers"], 0);
  EXPECT_EQ(counter["other_counters"], Json::array({"kv_tokens"}));
  const Json score = damaged("UPDATE score SET value = 1 - value" + one);
  EXPECT_EQ(score["other_scores"], 1);
  EXPECT_EQ(score["other_answers"], 0);
}

TEST_F(DiffTest, SourcesAndBuildsAreFields) {
  const std::string before = run("before"), after = directory_.path("after.db");
  write_file(after, read_file(before));
  execute(after,
          "UPDATE environment SET json = json_set(json, '$.sources.engine', 'e', "
          "'$.sources.\"methods/snapkv\"', 's', '$.sources.\"methods/h2o\"', 'h', "
          "'$.build', 'another')");
  const Json fields = json(before, after)["protocol"];
  std::map<std::string, int> cells;
  std::vector<std::string> names;
  for (const Json& field : fields) {
    names.push_back(field["field"]);
    cells[names.back()] = field["values"][0]["cells"];
  }
  EXPECT_EQ(names, (std::vector<std::string>{"sources.engine", "sources.methods/snapkv", "build"}));
  EXPECT_EQ(cells["sources.engine"], 4);
  EXPECT_EQ(cells["sources.methods/snapkv"], 2) << "no part that full attention depends on";
  const Finished one = diff({before, after});
  EXPECT_NE(one.out.find("The protocols differ in sources.engine"), std::string::npos) << one.out;
  EXPECT_NE(one.out.find("2 fields more"), std::string::npos) << one.out;
  EXPECT_EQ(one.out.find("another"), std::string::npos) << one.out;
  const Finished all = diff({before, after, "--all"});
  EXPECT_NE(all.out.find("| build | "), std::string::npos) << all.out;
  EXPECT_NE(all.out.find("another"), std::string::npos) << all.out;
}

TEST_F(DiffTest, TakesTwoExperimentsOfOneStore) {
  const std::string db = run("small");
  const auto add = [&](const std::string& name, const Edits& edits) {
    Edits all = edits;
    all.emplace_back(R"("name": "runs")", R"("name": ")" + name + "\"");
    const Finished out = run_program(
        {"run", directory_.write(name + ".json", manifest_with(all)), "--db", db, "--quiet"});
    EXPECT_EQ(out.code, 0) << out.err;
  };
  add("wide", {{"window=8", "window=40"}});
  add("one", {{R"(, "snapkv:budget=48,window=8")", ""}});
  const Json out = diff({db, "--experiment", "runs", "--experiment", "wide", "--json"}).json();
  EXPECT_EQ(out["a"]["experiment"], "runs");
  EXPECT_EQ(out["b"]["experiment"], "wide");
  EXPECT_EQ(out["protocol"][0]["field"], "method.window");
  EXPECT_EQ(out["protocol"].size(), 1u);
  const Finished lacks = diff({db, "--experiment", "runs", "--experiment", "one", "--exit-code"});
  EXPECT_EQ(lacks.code, 1);
  EXPECT_NE(lacks.out.find("Only in A: tiny, tiny-fact, begin, snapkv"), std::string::npos)
      << lacks.out;
  // One name refers to both stores, no name to the latest experiment of each.
  const std::string other = run("other", {{"window=8", "window=40"}});
  EXPECT_EQ(diff({db, other, "--experiment", "runs", "--json"}).json()["protocol"][0]["field"],
            "method.window");
  EXPECT_EQ(diff({db, other, "--json"}).json()["a"]["experiment"], "one");
}

TEST_F(DiffTest, DamagedProtocolCardIsADifference) {
  const std::string before = run("before"), after = directory_.path("after.db");
  write_file(after, read_file(before));
  execute(after, "UPDATE protocol SET json = '{'; UPDATE environment SET json = '[]'");
  const Json fields = json(before, after)["protocol"];
  const auto has = [&](const char* name) {
    return std::any_of(fields.begin(), fields.end(),
                       [&](const Json& field) { return field["field"] == name; });
  };
  EXPECT_TRUE(has("card"));
  EXPECT_TRUE(has("model.weights"));
  EXPECT_TRUE(has("sources.engine"));
}

TEST(MalformedDiff, IsRefusedInOneLine) {
  const auto with = [](Arguments more) {
    return [more](const TemporaryDirectory& d) {
      Arguments all = {"diff", d.write("a.db", small_store())};
      all.insert(all.end(), more.begin(), more.end());
      return all;
    };
  };
  const auto damaged = [](const char* change) {
    return [change](const TemporaryDirectory& d) -> Arguments {
      const std::string good = d.write("a.db", small_store()), bad = d.write("s.db", small_store());
      execute(bad, change);
      return {"diff", good, bad};
    };
  };
  const Malformed cases[] = {
      {"one store", with({}), "one store and no --experiment, expected a second store"},
      {"one store, one experiment", with({"--experiment", "small"}),
       "one store and one --experiment, expected a second store"},
      {"three experiments", with({"--experiment=a", "--experiment=b", "--experiment=c"}),
       "--experiment: found it 3 times, expected it once for each run"},
      {"unknown experiment", with({"--experiment", "small", "--experiment", "big"}), "\"big\""},
      {"missing store", with({"b.db"}), "b.db"},
      {"no store at all", [](const TemporaryDirectory&) { return Arguments{"diff"}; },
       "diff: found no first, expected one"},
      {"another format", with({"b.db", "--format", "csv"}), "expected one of: md, json"},
      {"unknown metric",
       [](const TemporaryDirectory& d) {
         const std::string db = d.write("a.db", small_store());
         return Arguments{"diff", db, db, "--metric", "bleu"};
       },
       "\"bleu\""},
      {"missing counters", damaged("DROP VIEW counter"), "no such table: counter"},
      {"counter is text", damaged("UPDATE counter SET value = 'many'"), "expected a number"},
      {"missing dialogues",
       [](const TemporaryDirectory& d) -> Arguments {
         const std::string good = d.write("a.db", small_store()),
                           bad = d.write("s.db", small_store());
         make_older(bad, 4);  // whose records may have any dialogue
         execute(bad, "PRAGMA foreign_keys=OFF; DELETE FROM dialogue");
         return {"diff", good, bad};
       },
       "dialogue"},
      {"not a store", damaged("PRAGMA application_id=1"), "another program"},
      {"postprocess alone", with({"b.db", "--postprocess", "none"}), "found no --metric"},
  };
  expect_refusals(cases);
}

}  // namespace
}  // namespace turnbench::test
