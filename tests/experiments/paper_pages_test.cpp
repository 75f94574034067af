// Tests of the pages of the papers, experiments/PAPER/README.md: settings of the paper, of
// turnbench, and their differences.

#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <regex>
#include <set>

#include "common/file.h"
#include "common/text.h"
#include "tests/experiments/experiment_files.h"

namespace turnbench::test {
namespace {

namespace fs = std::filesystem;

const fs::path kExperiments = fs::path(TURNBENCH_SOURCE_DIR) / "experiments";

std::string page_of(const std::string& paper) {
  return read_file(kExperiments / paper / "README.md");
}

/// The body rows of the page's three-column tables.
std::vector<std::vector<std::string>> rows_of(const std::string& page) {
  std::vector<std::vector<std::string>> out;
  bool inside = false;
  for (const std::string& line : split(page, "\n")) {
    if (line == "| paper | turnbench | differences |") {
      inside = true;
    } else if (!line.starts_with("|")) {
      inside = false;
    } else if (inside && !line.starts_with("| ---")) {
      std::vector<std::string> fields = split(replace_all(line, "\\|", "/"), "|");
      out.emplace_back(fields.begin() + 1, fields.end() - 1);
    }
  }
  return out;
}

/// Numbers of tables or figures that a text mentions: "Tables 1 and 2", "Figures 8 to 10".
std::set<int> named(const std::string& text, const std::string& what) {
  static const std::map<std::string, int> roman = {{"I", 1}, {"II", 2}, {"III", 3}, {"IV", 4}};
  const auto number = [](const std::string& word) {
    const auto found = roman.find(word);
    return found == roman.end() ? std::stoi(word) : found->second;
  };
  const std::string part = "([0-9]+|IV|I{1,3})(\\([a-d](, [a-d])*\\)|[a-d])?";
  const std::regex list(what + "s? " + part + "((, | and | to )" + part + ")*");
  std::set<int> out;
  for (std::sregex_iterator it(text.begin(), text.end(), list), end; it != end; ++it) {
    const std::string found = (*it)[0];
    const std::regex one("(, | and | to | )([0-9]+|IV|I{1,3})\\b");
    int last = 0;
    for (std::sregex_iterator each(found.begin(), found.end(), one); each != end; ++each) {
      const int n = number((*each)[2]);
      for (int i = (*each)[1] == " to " ? last : n; i <= n; ++i) out.insert(i);
      last = n;
    }
  }
  return out;
}

struct Paper {
  const char* folder;
  int tables, figures;  ///< number of tables and of figures in the paper
};
void PrintTo(const Paper& paper, std::ostream* out) {
  *out << paper.folder;
}

class PaperPages : public testing::TestWithParam<Paper> {};

TEST_P(PaperPages, HaveARowForEveryTableAndFigure) {
  std::set<int> tables, figures;
  for (const auto& row : rows_of(page_of(GetParam().folder))) {
    ASSERT_EQ(row.size(), 3u) << join(row, "|");
    for (const std::string& field : row) EXPECT_FALSE(trim(field).empty()) << join(row, "|");
    tables.merge(named(row[0], "Table"));
    figures.merge(named(row[0], "Figure"));
  }
  for (int i = 1; i <= GetParam().tables; ++i) EXPECT_TRUE(tables.contains(i)) << "Table " << i;
  for (int i = 1; i <= GetParam().figures; ++i) EXPECT_TRUE(figures.contains(i)) << "Figure " << i;
}

TEST_P(PaperPages, NameEveryFileOfTheFolderAndNoOther) {
  const std::string folder = GetParam().folder, page = page_of(folder);
  std::set<std::string> named_files;
  const std::regex file("`([a-z0-9-]+\\.(json|csv))`");
  for (std::sregex_iterator it(page.begin(), page.end(), file), end; it != end; ++it)
    named_files.insert((*it)[1]);
  std::set<std::string> files;
  for (const auto& entry : fs::directory_iterator(kExperiments / folder)) {
    if (entry.path().filename() != "README.md") files.insert(entry.path().filename());
  }
  for (const std::string& name : files)
    EXPECT_TRUE(named_files.contains(name) || page.find("/" + name) != std::string::npos) << name;
  for (const std::string& name : named_files)
    EXPECT_TRUE(files.contains(name) || name == "costs.json" || name.starts_with("longmemeval"))
        << name;
}

TEST_P(PaperPages, ExplainEveryReason) {
  const std::string page = page_of(GetParam().folder);
  std::set<std::string> explained, used;
  const std::regex definition("\n- \\*\\*([a-z ]+)\\*\\*: "), use("\\*\\*([a-z ]+)\\*\\*");
  for (std::sregex_iterator it(page.begin(), page.end(), definition), end; it != end; ++it)
    explained.insert((*it)[1]);
  for (const auto& row : rows_of(page)) {
    for (std::sregex_iterator it(row[2].begin(), row[2].end(), use), end; it != end; ++it)
      used.insert((*it)[1]);
  }
  EXPECT_EQ(explained, used);
}

INSTANTIATE_TEST_SUITE_P(All, PaperPages,
                         testing::Values(Paper{"loopserve", 4, 10}, Paper{"pqcache", 6, 12},
                                         Paper{"sablock", 4, 10}, Paper{"round-attention", 5, 5},
                                         Paper{"specontext", 4, 11}));

TEST(PaperPageRows, ListsOfNumbersAreRead) {
  EXPECT_EQ(named("Tables 1 and 2: x", "Table"), (std::set<int>{1, 2}));
  EXPECT_EQ(named("Figures 8 to 10, 11(a, b) and 12", "Figure"), (std::set<int>{8, 9, 10, 11, 12}));
  EXPECT_EQ(named("Table IV and Figure 3", "Table"), std::set<int>{4});
  EXPECT_EQ(named("Figure 4(b) of Table 2", "Figure"), std::set<int>{4});
}

}  // namespace
}  // namespace turnbench::test
