// The main tables of the papers, from smoke runs: published numbers, CSV, and LaTeX that compiles.

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <stdexcept>

#include "reports/headings.h"
#include "tests/cli/program.h"
#include "tests/experiments/experiment_files.h"
#include "tests/latex_document.h"
#include "tests/parameter_name.h"

namespace turnbench::test {
namespace {

/// The manifests of the papers' main tables.
std::vector<std::string> main_tables() {
  std::vector<std::string> out;
  for (const std::string& name : paper_manifests()) {
    const std::string file = std::filesystem::path(name).stem().string();
    if (file.starts_with("table") && file.find('-') == std::string::npos) out.push_back(name);
  }
  return out;
}

/// The lines of a CSV as RFC 4180 defines them.  Throws for anything else.
std::vector<std::vector<std::string>> parse_csv(const std::string& text) {
  std::vector<std::vector<std::string>> out;
  const auto fail = [](const char* what) { throw std::runtime_error(what); };
  for (std::size_t i = 0; i < text.size();) {
    std::vector<std::string>& line = out.emplace_back();
    for (bool ends = false; !ends;) {
      std::string& field = line.emplace_back();
      if (i < text.size() && text[i] == '"') {
        for (++i;; ++i) {
          if (i == text.size()) fail("a quote that is not closed");
          if (text[i] != '"') {
            field += text[i];
          } else if (i + 1 < text.size() && text[i + 1] == '"') {
            field += text[i++];
          } else {
            break;
          }
        }
        ++i;
      } else {
        while (i < text.size() && text[i] != ',' && text[i] != '\n') {
          if (text[i] == '"' || text[i] == '\r') fail("a quote or a return within a field");
          field += text[i++];
        }
      }
      if (i == text.size()) fail("a last line without an end");
      if (text[i] != ',' && text[i] != '\n') fail("text after a quote");
      ends = text[i++] == '\n';
    }
    if (line.size() != out.front().size()) fail("a line with another number of fields");
  }
  return out;
}

/// Finds the numbers of a table of JSON in its CSV, and nothing else.
void expect_equal(const Json& table, const std::vector<std::vector<std::string>>& csv) {
  const std::size_t labels = table["rows"].size();
  std::map<std::vector<std::string>, std::map<std::string, std::string>> fields;
  for (std::size_t r = 1; r < csv.size(); ++r) {
    const std::vector<std::string> row(csv[r].begin(),
                                       csv[r].begin() + static_cast<std::ptrdiff_t>(labels));
    for (std::size_t c = labels; c < csv[r].size(); ++c) {
      EXPECT_TRUE(fields[row].emplace(csv[0][c], csv[r][c]).second) << csv[0][c] << " twice";
    }
  }
  std::size_t means = 0;
  for (const Json& entry : table["entries"]) {
    const auto& row = fields.at(entry["row"].get<std::vector<std::string>>());
    const std::string head = value_heading(table["columns"], entry["column"]);
    const auto expect_number = [&](const std::string& column, const Json& number) {
      const std::string& text = row.at(head + column);
      ASSERT_EQ(text.empty(), number.is_null()) << head << column;
      if (number.is_null()) return;
      EXPECT_NEAR(std::stod(text), number.get<double>(), .0501) << head << column;
    };
    means += !entry["mean"].is_null();
    expect_number("", entry["mean"]);
    expect_number(" low", entry["low"]);
    expect_number(" high", entry["high"]);
    expect_number(" n", entry["n"]);
    if (row.contains(head + " published")) {
      expect_number(" published", entry["published"]);
    }
  }
  EXPECT_GT(means, 0u);
}

class MainTables : public testing::TestWithParam<std::string> {
 protected:
  TemporaryDirectory directory_;
  std::string db_ = directory_.path("smoke.db");
};

// Main tables have the published numbers, and can be printed and parsed.
TEST_P(MainTables, AreReadableInEveryFormat) {
  const Manifest manifest = load_experiment(GetParam());
  const Finished run = run_program(
      {"run", manifest.path.string(), "--smoke", "--db", db_, "--workers", "1", "--threads", "1"});
  ASSERT_EQ(run.code, 0) << run.err;
  const Json json = run_program({"report", db_, "--json"}).json();
  std::size_t published = 0;
  for (std::size_t i = 0; i < json["tables"].size(); ++i) {
    const Finished csv = run_program({"report", db_, "--format", "csv", "--table",
                                      std::to_string(i + 1), "--quiet", "--no-formula-guard"});
    ASSERT_EQ(csv.code, 0) << csv.err;
    const Json& table = json["tables"][i];
    if (std::any_of(table["entries"].begin(), table["entries"].end(),
                    [](const Json& entry) { return !entry["mean"].is_null(); }))
      expect_equal(table, parse_csv(csv.out));
    else
      parse_csv(csv.out);  // only judged scores
    for (const Json& entry : table["entries"]) published += !entry["published"].is_null();
  }
  EXPECT_GT(published, 0u);
  for (const char* format : {"md", "html", "tex"}) {
    const std::string text = run_program({"report", db_, "--format", format}).out;
    EXPECT_NE(text.find("paper "), std::string::npos) << format;
  }
  if (!has_pdflatex()) GTEST_SKIP() << "pdflatex is not installed (texlive-latex-recommended)";
  for (const Arguments& more :
       {Arguments{}, Arguments{"--compact"}, Arguments{"--columns", "mean,published"}}) {
    Arguments arguments = {"report", db_, "--format", "tex"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const std::string tex = run_program(arguments).out;
    for (const char* columns : {"onecolumn", "twocolumn"}) {
      for (const std::string& problem : latex_problems(tex, columns))
        ADD_FAILURE() << columns << ": " << problem;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Papers, MainTables, testing::ValuesIn(main_tables()), parameter_name);

}  // namespace
}  // namespace turnbench::test
