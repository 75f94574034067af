// Results that a run must not take from other cells, or from a store without texts, and what the
// key of a cell depends on.

#include <gtest/gtest.h>

#include <filesystem>

#include "common/file.h"
#include "tests/cli/small_store.h"
#include "tests/harness/store/store_dump.h"

namespace turnbench::test {
namespace {

/// A manifest for the first `limit` dialogues of a dataset.
std::string limited(int limit) {
  return Json{
      {"name", "limited"},
      {"models", {"tiny"}},
      {"datasets",
       {{{"name", "tiny-fact"}, {"limit", limit}, {"length", 120}, {"turns", 2}, {"seed", 1}}}},
      {"positions", {"end"}},
      {"methods", {"full"}},
      {"max_new_tokens", 4}}
      .dump();
}

/// A manifest for the dialogues of d.jsonl.
std::string own_data(const char* kind = "methods", const char* name = "full") {
  return Json{
      {"name", "own"},
      {"models", {"tiny"}},
      {"datasets",
       {{{"name", "jsonl"}, {"label", "own"}, {"source", "d.jsonl"}, {"metric", "exact_match"}}}},
      {"positions", {"end"}},
      {kind, {name}},
      {"max_new_tokens", 4}}
      .dump();
}

std::string line(const std::string& id, const std::string& context) {
  return Json{{"id", id},
              {"context", context},
              {"question", "What is said?"},
              {"references", "blue"}}
             .dump() +
         "\n";
}

struct Folder {
  TemporaryDirectory d;
  std::string db = d.path("s.db");

  Finished run(const std::string& manifest, const std::string& store, Arguments more = {}) const {
    Arguments all = {"run", d.write("m.json", manifest), "--db", store};
    all.insert(all.end(), more.begin(), more.end());
    return run_program(all);
  }
};

TEST(Reuse, FailuresOfAnotherLimitAreComputed) {
  const Folder folder;
  EXPECT_EQ(folder.run(limited(2), folder.db, {"--memory-limit", "1"}).code, 1);
  const Finished more = folder.run(limited(4), folder.db);
  EXPECT_EQ(more.code, 0) << more.err;
  EXPECT_EQ(run_program({"report", folder.db}).out, more.out);
}

TEST(Reuse, DialoguesThatAProbeComparesAreNotThoseOfAnotherDataset) {
  const Folder folder;
  const auto write = [&](const std::string& last) {
    folder.d.write("d.jsonl", line("a", "The river is blue and old.") +
                                  line("b", "The hill is green.") + line("c", last));
  };
  const std::string manifest = own_data("probes", "line-overlap");
  write("The house is red.");
  ASSERT_EQ(folder.run(manifest, folder.db).code, 0);
  write("Many ships sail to the northern islands in the early spring.");
  const Finished again = folder.run(manifest, folder.db);
  ASSERT_EQ(again.code, 0) << again.err;
  EXPECT_EQ(again.out, folder.run(manifest, folder.d.path("fresh.db")).out);
}

TEST(Reuse, ChangedDialoguesOfAStoreWithoutTextsAreComputed) {
  const Folder folder;
  const std::string manifest = own_data(), copy = folder.d.path("copy.db");
  folder.d.write("d.jsonl", line("a", "The river is blue.") + line("b", "The hill is green."));
  ASSERT_EQ(folder.run(manifest, folder.db).code, 0);
  ASSERT_EQ(run_program({"copy", folder.db, copy, "--without-texts"}).code, 0);
  const auto prompts = [](const std::string& store) {
    return count(store, "SELECT count(DISTINCT prompt_hash) FROM record");
  };
  EXPECT_EQ(prompts(copy), 2);
  EXPECT_NE(folder.run(manifest, copy).err.find("own: 0 units done"), std::string::npos);
  folder.d.write("d.jsonl", line("a", "The river is blue.") + line("b", "The long hill is red."));
  const Finished changed = folder.run(manifest, copy);
  EXPECT_NE(changed.err.find("own: 1 units done"), std::string::npos) << changed.err;
  EXPECT_EQ(prompts(copy), 3);
}

TEST(Retry, OfFailuresRunsNothingElse) {
  const Folder folder;
  EXPECT_EQ(folder.run(limited(4), folder.db, {"--limit", "2"}).code, 0);
  const auto state = [&] { return run_program({"status", folder.db, "--json"}).json()[0]; };
  EXPECT_EQ(state()["pending"], 2);
  EXPECT_EQ(run_program({"status", folder.db, "retry"}).code, 0);
  EXPECT_EQ(state()["pending"], 2);
  execute(folder.db,
          "UPDATE record SET status = 'error' WHERE dialogue = (SELECT min(id) FROM dialogue)");
  EXPECT_EQ(state()["failed_dialogues"], 1);
  EXPECT_EQ(run_program({"status", folder.db, "retry"}).code, 0);
  EXPECT_EQ(state()["failed_dialogues"], 0);
  EXPECT_EQ(state()["pending"], 2);
}

TEST(CellKey, DependsOnTokenizerAndConfiguration) {
  const Folder folder;
  const std::filesystem::path model = folder.d.path("model");
  std::filesystem::create_directory(model);
  for (const char* name : {"config.json", "generation_config.json", "model.safetensors",
                           "tokenizer.json", "tokenizer_config.json"})
    std::filesystem::copy(std::filesystem::path(TURNBENCH_SOURCE_DIR) / "models/tiny" / name,
                          model / name);
  Json manifest = Json::parse(limited(1));
  manifest["models"] = {{{"name", "m"}, {"path", model.string()}}};
  const auto keys = [&] {
    const std::string db = folder.d.path("keys.db");
    std::filesystem::remove(db);
    EXPECT_EQ(folder.run(manifest.dump(), db).code, 0);
    Statement s = Database(db, Database::Mode::kReadOnly).prepare("SELECT key FROM cell");
    return s.next() ? s.text(0) : std::string();
  };
  const std::string before = keys();
  EXPECT_EQ(keys(), before);
  const auto change = [&](const char* file, const std::function<void(Json&)>& edit) {
    const std::string old = read_file(model / file);
    Json json = Json::parse(old);
    edit(json);
    folder.d.write(std::string("model/") + file, json.dump());
    EXPECT_NE(keys(), before) << file;
    folder.d.write(std::string("model/") + file, old);
  };
  change("tokenizer_config.json", [](Json& json) { json["added_note"] = "another"; });
  change("config.json", [](Json& json) { json["rms_norm_eps"] = 1e-3; });
  EXPECT_EQ(keys(), before);
}

}  // namespace
}  // namespace turnbench::test
