// LaTeX tables: widths, divisions, and whether they compile.

#include <gtest/gtest.h>

#include "common/error.h"
#include "common/text.h"
#include "hand_made_store.h"
#include "reports/entry_columns.h"
#include "reports/latex_table.h"
#include "reports/latex_text.h"
#include "reports/render.h"
#include "tests/latex_document.h"

namespace turnbench {
namespace {

using test::HandMadeStore;

TEST(LatexText, WidthsAreThoseOfComputerModern) {
  EXPECT_NEAR(latex_width("0.5"), .5 + .278 + .5, 1e-9);
  EXPECT_NEAR(latex_width("WWi"), 1.028 * 2 + .278, 1e-9);
  EXPECT_NEAR(latex_width(""), 0, 1e-9);
  EXPECT_NEAR(latex_width("字"), 1, 1e-9);
}

TEST(LatexText, DividesAtSpacesAndSeparators) {
  using Lines = std::vector<std::string>;
  EXPECT_EQ(latex_lines("snapkv:budget=512,window=8", 100), Lines{"snapkv:budget=512,window=8"});
  EXPECT_EQ(latex_lines("snapkv:budget=512,window=8", 7),
            (Lines{"snapkv:", "budget=512,", "window=8"}));
  EXPECT_EQ(latex_lines("a long head", 3), (Lines{"a long", "head"}));
  EXPECT_EQ(latex_lines("", 3), Lines{""});
  EXPECT_EQ(breakable_latex("kv_head:a=1, 50% & #2"),
            "kv\\_\\allowbreak{}head:\\allowbreak{}a=\\allowbreak{}1, 50\\% \\& \\#2");
}

TEST(EntryColumns, AreNamed) {
  const EntryColumns some = parse_entry_columns("published,mean");
  EXPECT_TRUE(some.mean && some.published);
  EXPECT_FALSE(some.interval || some.difference);
  for (const char* wrong : {"", "means", "mean,", "mean,mean", "mean interval"})
    EXPECT_THROW(parse_entry_columns(wrong), Error) << wrong;
}

/// A store whose datasets and methods have names that LaTeX must escape.
class LatexTables : public testing::Test {
 protected:
  static constexpr const char* kLabels[] = {"full", "snapkv", "a_b % & # method",
                                            "longest:of=all,labels_with=%"};

  explicit LatexTables(const std::string& table = R"({"title": "50% & more_scores #1",
      "rows": ["dataset", "method"], "columns": ["position"], "difference_to": "full"})")
      : hand_(R"({"name": "hand_made", "title": "T", "models": ["tiny"],
                  "datasets": ["tiny-fact", "tiny-hop"], "positions": ["begin", "end"],
                  "methods": ["full"], "tables": [)" +
                  table + "]}",
              "dataset,method,position,value,note\ntiny-fact,snapkv,begin,60.5,an_odd note\n",
              {std::begin(kLabels), std::end(kLabels)}) {
    int i = 0;
    for (const Cell& cell : hand_.store().cells("hand")) {
      for (const char* id : {"a", "b", "c", "d"}) {
        ++i;
        hand_.add(cell.key, id, cell.method == "snapkv" ? 1 : .1 * (i % 7),
                  cell.method == "snapkv");
      }
    }
  }
  Results results() { return Results(hand_.store(), "hand"); }
  std::string latex(const EntryColumns& columns = {}) {
    return render_latex(results(), {}, columns);
  }

  HandMadeStore hand_;
};

TEST_F(LatexTables, HaveRulesCaptionsAndLabels) {
  const std::string tex = latex();
  EXPECT_TRUE(tex.starts_with("% turnbench report\n% \\usepackage{booktabs}\n")) << tex;
  EXPECT_NE(tex.find("\\caption{50\\% \\& more\\_\\allowbreak{}scores \\#1}\n"
                     "\\label{tab:hand_made-1}\n\\medskip\n"),
            std::string::npos)
      << tex;
  for (const char* rule : {"\\toprule\n", "\\midrule\n", "\\bottomrule\n"})
    EXPECT_NE(tex.find(rule), std::string::npos) << rule;
  EXPECT_NE(tex.find("a\\_b \\% \\& \\# method & "), std::string::npos) << tex;
  EXPECT_NE(tex.find("\n & snapkv & \\textbf{100.0} ["), std::string::npos) << tex;
  EXPECT_NE(tex.find("[paper 60.50, $+39.50$]"), std::string::npos) << tex;
  EXPECT_EQ(tex.find("\\hline"), std::string::npos);
  Results only = results();
  only.keep_table(0);
  EXPECT_NE(render_latex(only).find("\\label{tab:hand_made-1}"), std::string::npos);
}

TEST_F(LatexTables, ShowTheChosenColumns) {
  const std::string means = latex({true, false, false, false});
  EXPECT_NE(means.find("\n & snapkv & \\textbf{100.0} & \\textbf{100.0} \\\\"), std::string::npos)
      << means;
  EXPECT_EQ(means.find("[paper"), std::string::npos);
  EXPECT_EQ(means.find("95\\% intervals over"), std::string::npos);
  const std::string differences = latex({false, true, true, false});
  EXPECT_EQ(differences.find("\\textbf"), std::string::npos);
  EXPECT_NE(differences.find("($+"), std::string::npos);
}

// Heads of two levels: equal outer heads are merged above a rule.
class LatexHeads : public LatexTables {
 protected:
  LatexHeads() : LatexTables(R"({"columns": ["dataset", "position"]})") {}
};

TEST_F(LatexHeads, AreMerged) {
  const std::string tex = latex({true, false, false, false});
  EXPECT_NE(tex.find(" & \\multicolumn{2}{c}{tiny-fact} & \\multicolumn{2}{c}{tiny-hop} \\\\\n"
                     "\\cmidrule(lr){2-3}\\cmidrule(lr){4-5}\n"
                     "method & begin & end & begin & end \\\\\n\\midrule\n"),
            std::string::npos)
      << tex;
}

TEST_F(LatexHeads, ChooseTheSizeOfTheType) {
  const Results r = results();
  const Pivot p = make_pivot(r, r.tables()[0]);
  const LatexFit means = fit_to_page(LatexTable(p, {true, false, false, false}, EntryLines::kWide));
  EXPECT_STREQ(means.size->command, "\\normalsize");
  EXPECT_FALSE(means.spans_page);
  EXPECT_EQ(means.panels.size(), 1u);
  const LatexFit all = fit_to_page(LatexTable(p, {}, EntryLines::kWide));
  EXPECT_TRUE(all.spans_page);
}

// A table that is too wide in the smallest type is divided between datasets; labels are repeated.
class WideTables : public LatexTables {
 protected:
  WideTables()
      : LatexTables(R"({"rows": ["position"], "columns": ["dataset", "method"],
                                 "difference_to": "full"})") {}
};

TEST_F(WideTables, AreDividedIntoPanels) {
  const Results r = results();
  const Pivot p = make_pivot(r, r.tables()[0]);
  const LatexTable wide(p, {}, EntryLines::kWide);
  const LatexFit fit = fit_to_page(wide);
  ASSERT_EQ(fit.panels.size(), 3u);
  EXPECT_STREQ(fit.size->command, "\\scriptsize");
  const LatexFit narrow = fit_to_page(LatexTable(p, {}, EntryLines::kNarrow));
  ASSERT_EQ(narrow.panels.size(), 2u) << "so this table is chosen";
  EXPECT_EQ(narrow.panels[0].to, 4u) << "between the datasets";
}

// A table with more rows than a page has several floats with one number; each part has all labels
// in its first row.
class LongTables : public testing::Test {
 protected:
  static constexpr int kMethods = 60;
  static std::vector<std::string> methods() {
    std::vector<std::string> out;
    for (int i = 0; i < kMethods; ++i) out.push_back("method " + std::to_string(i));
    return out;
  }
  LongTables()
      : hand_(R"({"name": "hand", "title": "T", "models": ["tiny"],
                  "datasets": ["tiny-fact", "tiny-hop"], "positions": ["begin", "end"],
                  "methods": ["full"],
                  "tables": [{"rows": ["dataset", "method"], "columns": ["position"]}]})",
              "", methods()) {
    for (const Cell& cell : hand_.store().cells("hand")) hand_.add(cell.key, "a", 1, 0);
  }

  HandMadeStore hand_;
};

TEST_F(LongTables, AreDividedIntoSeveralFloats) {
  const Results results(hand_.store(), "hand");
  const std::string tex = render_latex(results, {}, {true, false, false, false});
  const std::size_t parts = split(tex, "\\begin{table}").size() - 1;
  EXPECT_GT(parts, 2u);
  EXPECT_EQ(split(tex, "(continued)}").size() - 1, parts - 1);
  EXPECT_EQ(split(tex, "\\addtocounter{table}{-1}").size() - 1, parts - 1);
  EXPECT_EQ(split(tex, "\\label{tab:hand-1}").size() - 1, 1u);
  for (const std::string& part : split(tex, "\\midrule\n"))
    EXPECT_FALSE(part.starts_with(" & ")) << part.substr(0, 80);
  for (const std::string& method : methods())
    EXPECT_EQ(split(tex, " & " + method + " & ").size() - 1, 2u) << method;
  if (!test::has_pdflatex())
    GTEST_SKIP() << "pdflatex is not installed (texlive-latex-recommended)";
  for (const std::string& problem : test::latex_problems(tex, "twocolumn"))
    ADD_FAILURE() << problem;
}

TEST_F(LatexTables, Compile) {
  if (!test::has_pdflatex())
    GTEST_SKIP() << "pdflatex is not installed (texlive-latex-recommended)";
  for (const std::string& tex :
       {latex(), latex({true, false, false, false}), latex({true, true, false, true})}) {
    for (const char* columns : {"onecolumn", "twocolumn"}) {
      for (const std::string& problem : test::latex_problems(tex, columns))
        ADD_FAILURE() << columns << ": " << problem;
    }
  }
}

TEST_F(LatexHeads, Compile) {
  if (!test::has_pdflatex())
    GTEST_SKIP() << "pdflatex is not installed (texlive-latex-recommended)";
  for (const char* columns : {"onecolumn", "twocolumn"}) {
    for (const std::string& problem : test::latex_problems(latex(), columns))
      ADD_FAILURE() << columns << ": " << problem;
  }
}

TEST_F(WideTables, Compile) {
  if (!test::has_pdflatex())
    GTEST_SKIP() << "pdflatex is not installed (texlive-latex-recommended)";
  const Results r = results();
  for (const char* columns : {"onecolumn", "twocolumn"}) {
    for (const std::string& problem : test::latex_problems(render_latex(r), columns))
      ADD_FAILURE() << columns << ": " << problem;
  }
}

}  // namespace
}  // namespace turnbench
