#include "harness/store/dialogue_hashes.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "common/file.h"
#include "common/text.h"
#include "datasets/dialogue_io.h"
#include "datasets/needle_dialogues.h"
#include "harness/store/dialogue_writer.h"
#include "harness/store/schema.h"
#include "tests/harness/store/old_store.h"
#include "tests/temporary_directory.h"

namespace turnbench {
namespace {

bool share(const Dialogue& a, const Dialogue& b) {
  const std::vector<std::string> hashes = text_hashes(a);
  return std::ranges::any_of(text_hashes(b), [&](const std::string& hash) {
    return std::ranges::find(hashes, hash) != hashes.end();
  });
}

Dialogue dialogue(const std::string& id, const std::string& context, const std::string& question) {
  Turn turn;
  if (!context.empty()) turn.contexts = {{"document", context}};
  turn.question = question;
  turn.references = {"7"};
  return {.id = id, .dataset = "d", .task = "qa", .metric = "qa_f1", .turns = {turn}};
}

TEST(TextHashes, AreThoseOfContextsAndQuestions) {
  const Dialogue one = dialogue("a", "A book.", "How many?");
  EXPECT_EQ(text_hashes(one).size(), 2u);
  EXPECT_TRUE(share(one, dialogue("b", "A book.", "Who?"))) << "another question about the text";
  EXPECT_TRUE(share(one, dialogue("a", "A longer book.", "How many?"))) << "at another length";
  EXPECT_FALSE(share(one, dialogue("b", "Another book.", "How many?"))) << "a constant question";
  EXPECT_FALSE(share(one, dialogue("a", "Another book.", "Who?"))) << "the same id by chance";
  EXPECT_FALSE(share(dialogue("a", "", "How many?"), dialogue("b", "", "How many?")));
  Dialogue split = one;
  split.turns[0].contexts = {{"1", "A "}, {"2", "book."}};
  EXPECT_FALSE(share(dialogue("b", "A book.", "Who?"), split)) << "other paragraphs";
}

TEST(TextHashes, OfStoredDialogues) {
  const Dialogue one = dialogue("a", "A book.", "How many?");
  EXPECT_EQ(hashes_of(to_json_line(one)).texts, join(text_hashes(one), " "));
  EXPECT_EQ(hashes_of(to_json_line(one)).content, hash_text(to_json_line(one)));
  EXPECT_EQ(hashes_of(without_texts(to_json_line(one))).content, "");
  EXPECT_EQ(hashes_of("").content, "");
  EXPECT_EQ(hashes_of("{}").texts, "");
  EXPECT_EQ(hashes_of("{}").content, hash_text("{}"));
}

TEST(TextHashes, ConnectLengthsAndDepths) {
  const NeedleTask& needle = needle_tasks().front();
  const auto make = [&](int length, double depth, std::uint64_t seed) {
    BuildOptions options;
    options.turns = 1;
    options.limit = 3;
    options.seed = seed;
    options.length = length;
    options.depth = depth;
    return make_needle_dialogues(needle, "needle", {}, options);
  };
  const auto grid = make(400, 0, 1), deeper = make(400, 100, 1), longer = make(900, 50, 1),
             other = make(400, 0, 2);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_TRUE(share(grid[i], deeper[i]));
    EXPECT_TRUE(share(grid[i], longer[i]));
    EXPECT_FALSE(share(grid[i], other[i]));
    EXPECT_FALSE(share(grid[i], deeper[(i + 1) % 3]));
  }
}

std::string stored_hashes(const std::string& path) {
  const Database db(path, Database::Mode::kReadOnly);
  Statement s = db.prepare("SELECT content || ' ' || texts FROM dialogue");
  return s.next() ? s.text(0) : "none";
}

TEST(TextHashes, AreStoredAlsoByAnUpgradeAndForDialoguesWithoutTexts) {
  const test::TemporaryDirectory directory;
  const std::string path = directory.path("a.db"),
                    json = to_json_line(dialogue("a", "A book.", "Who?"));
  const std::string expected = hashes_of(json).content + " " + hashes_of(json).texts;
  {
    Database db(path, Database::Mode::kCreate);
    prepare_schema(db);
    db.execute("INSERT INTO dataset (hash, description) VALUES ('d', '')");
    EXPECT_TRUE(DialogueWriter(db).add("d", "a", 1, json));
  }
  EXPECT_EQ(stored_hashes(path), expected);
  test::make_older(path, 5);
  {
    Database db(path, Database::Mode::kReadWrite);
    prepare_schema(db);
  }
  EXPECT_EQ(stored_hashes(path), expected) << "after an upgrade";
  {
    Database db(path, Database::Mode::kReadWrite);
    db.execute("DELETE FROM dialogue");
    EXPECT_TRUE(DialogueWriter(db).add("d", "a", 1, without_texts(json), {"0", "1 2"}));
  }
  EXPECT_EQ(stored_hashes(path), "0 1 2") << "those of the merged store";
  {
    Database db(path, Database::Mode::kReadWrite);
    EXPECT_FALSE(DialogueWriter(db).add("d", "a", 1, json)) << "the dialogue gets its texts";
  }
  EXPECT_EQ(stored_hashes(path), expected);
}

}  // namespace
}  // namespace turnbench
