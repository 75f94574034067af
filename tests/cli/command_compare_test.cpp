// `compare` on the store of a real run.

#include <gtest/gtest.h>

#include "common/file.h"
#include "tests/cli/small_store.h"

namespace turnbench::test {
namespace {

TEST(CompareCommand, HasTheDifferencesOfTheReport) {
  const TemporaryDirectory directory;
  const std::string db = directory.write("s.db", small_store());
  const Finished text = run_program({"compare", "snapkv", "full", db});
  EXPECT_EQ(text.code, 0) << text.err;
  EXPECT_TRUE(text.out.starts_with("# snapkv:budget=64,window=8 and full: small\n")) << text.out;
  EXPECT_NE(text.out.find("Equal answers: "), std::string::npos);
  const Json json = run_program({"compare", "snapkv", "full", db, "--json"}).json();
  // The difference of the report's table, whose columns are the positions.
  const Json report = run_program({"report", db, "--format", "json"}).json();
  for (const Json& part : json["parts"]) {
    if (part["dimension"] != "position") continue;
    for (const Json& entry : report["tables"][0]["entries"]) {
      if (entry["column"][0] != part["value"] || !entry.contains("difference")) continue;
      for (const char* key : {"mean", "low", "high", "p"})
        EXPECT_EQ(entry["difference"][key], part["difference"][key]);
    }
  }
  // Lengths: of every compared turn exactly one part.
  const Json lengths =
      run_program({"compare", "snapkv", "full", db, "--json", "--lengths", "150,200"}).json();
  int turns = 0;
  for (const Json& part : lengths["parts"]) {
    if (part["dimension"] == "prompt tokens") turns += part["difference"]["turns"].get<int>();
  }
  EXPECT_EQ(turns, lengths["parts"][0]["difference"]["turns"]);
  EXPECT_EQ(turns, 8);
}

TEST(CompareCommand, ReplacesOnlyItsOwnFiles) {
  const TemporaryDirectory directory;
  const std::string db = directory.write("s.db", small_store());
  for (const char* format : {"md", "json"}) {
    const std::string file = directory.path(std::string("a.") + format);
    const Arguments write = {"compare", "snapkv", "full", db, "-o", file};  // that of the ending
    EXPECT_EQ(run_program(write).code, 0) << format;
    EXPECT_EQ(run_program(write).code, 0) << format << " is replaced";
    EXPECT_EQ(read_file(file),
              run_program({"compare", "snapkv", "full", db, "--format", format}).out);
    write_file(file, "my notes");
    EXPECT_EQ(run_program(write).code, 2) << format;
  }
}

TEST(MalformedCompare, IsRefusedInOneLine) {
  const Malformed cases[] = {
      {"unknown method", with_small_store({"compare", "quest", "full", "DB"}),
       "METHOD_A: found \"quest\""},
      {"one method", with_small_store({"compare", "full", "full", "DB"}), "which is METHOD_A too"},
      {"lengths descend", with_small_store({"compare", "snapkv", "full", "DB", "--lengths", "9,8"}),
       "--lengths: found \"9,8\", expected ascending numbers"},
      {"lengths are words", with_small_store({"compare", "snapkv", "full", "DB", "--lengths", "a"}),
       "--lengths: found \"a\""},
      {"no store", with_small_store({"compare", "snapkv", "full"}), "compare: found no db"},
      {"unknown experiment",
       with_small_store({"compare", "snapkv", "full", "DB", "--experiment", "big"}), "\"big\""},
      {"unknown model", with_small_store({"compare", "snapkv", "full", "DB", "--model", "big"}),
       "--model: found \"big\""},
  };
  expect_refusals(cases);
}

}  // namespace
}  // namespace turnbench::test
