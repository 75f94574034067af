// Labels with special characters in every format, read back by small independent parsers.

#include "reports/escape.h"
#include "reports/html/assets.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>

#include "common/json.h"
#include "common/text.h"
#include "hand_made_store.h"
#include "reports/render.h"

namespace turnbench {
namespace {

using test::HandMadeStore;

const std::vector<std::string>& hostile_labels() {
  static const std::vector<std::string> labels = {
      "a\n\\input{x}",
      "a | b \\| c",
      "<script>alert(1)</script>",
      "[5cm] x",
      "* y",
      "=cmd|'/c calc'!A0",
      "+1+1",
      "-2+3",
      "@SUM(A1)",
      "\t=1",
      "#hash",
      "a\u202Eb\u2066c",
      "\x1b[31mred",
      "quote \" comma , semicolon ;",
      "`code` **bold** _it_ ~~no~~ $x$ ![i](u) &lt; &amp;",
      "$\\write18{ls}$ ^^5cinput{x} %",
      "]]> --> & {",
      "\r\n\r\n# heading",
      "-->"};
  return labels;
}

std::string title() {
  return "T\n\\input{x}\n<b>|* [x](y) \u202E";
}

class Hostile : public testing::Test {
 protected:
  Hostile() : hand_(manifest(), "", hostile_labels()) {
    for (const Cell& cell : hand_.store().cells("hand")) {
      for (const char* id : {"a", "b", "c", "d"}) hand_.add(cell.key, id, 1, 0);
    }
    // Missing values and remarks also contain labels.
    hand_.add_cell("tiny-fact", "begin", "more\n| <i>");
    hand_.add(HandMadeStore::key("tiny-fact", "begin", "more\n| <i>"), "a", 1, 1);
  }
  static std::string manifest() {
    Json methods = Json::array();
    for (std::size_t i = 0; i < hostile_labels().size(); ++i) {
      methods.push_back({{"label", hostile_labels()[i]},
                         {"method", fmt::format("streamingllm:budget={}", 100 + i)}});
    }
    return Json{{"name", "hand"},
                {"title", title()},
                {"description", "1. x\n\n# y\n<img src=x>"},
                {"models", {"tiny"}},
                {"datasets", {"tiny-fact", "tiny-hop"}},
                {"positions", {"begin", "end"}},
                {"methods", methods},
                {"tables",
                 {{{"title", title()}, {"columns", {"position"}}},
                  {{"title", "Across"}, {"rows", {"position"}}, {"columns", {"method"}}}}}}
        .dump();
  }
  std::string text(const char* format) {
    return render_report(Results(hand_.store(), "hand"), {format, false});
  }

  HandMadeStore hand_;
};

/// Expects no characters that change the writing direction, and no control characters except line
/// ends.
void expect_visible(const std::string& text) {
  for (char c : text) EXPECT_TRUE(c == '\n' || static_cast<unsigned char>(c) >= 0x20) << int{c};
  for (const char* mark : {"\u202E", "\u2066"}) EXPECT_EQ(text.find(mark), std::string::npos);
}

/// The cells of a line of a Markdown table by GitHub's rules, without escapes and without the
/// brackets of intervals.
std::vector<std::string> markdown_cells(const std::string& given) {
  const std::string line =
      std::regex_replace(given, std::regex(R"(\[([-+0-9.]+, [-+0-9.]+)\])"), "$1");
  std::vector<std::string> out(1);
  for (std::size_t i = 1; i + 1 < line.size(); ++i) {
    if (line[i] == '\\' && i + 1 < line.size() && std::ispunct(line[i + 1])) {
      out.back() += line[++i];
    } else if (line[i] == '|') {
      out.emplace_back();
    } else {
      EXPECT_EQ(std::string("`*[]<>~$").find(line[i]), std::string::npos) << line;
      out.back() += line[i];
    }
  }
  for (std::string& cell : out) {
    cell = trim(cell);
    for (const auto& [entity, c] : {std::pair("&lt;", "<"), {"&gt;", ">"}, {"&amp;", "&"}})
      cell = replace_all(cell, entity, c);
  }
  return out;
}

TEST_F(Hostile, MarkdownTablesKeepTheirShape) {
  const std::string md = text("md");
  expect_visible(md);
  std::size_t columns = 0, rows = 0;
  std::vector<std::string> seen;
  for (const std::string& line : split(md, "\n")) {
    if (!line.starts_with('|')) {
      columns = 0;
      EXPECT_FALSE(line.starts_with("# y") || line.starts_with("1. ")) << line;
      EXPECT_EQ(line.find('<'), std::string::npos) << line;
      continue;
    }
    if (line.starts_with("| --- |")) continue;
    const std::vector<std::string> cells = markdown_cells(line);
    if (columns == 0) columns = cells.size();
    EXPECT_EQ(cells.size(), columns) << line;
    seen.push_back(cells.front());
    ++rows;
  }
  EXPECT_EQ(rows, hostile_labels().size() + 2 + 3) << "two headers, two positions, one import";
  for (const std::string& label : hostile_labels()) {
    const std::string want = trim(one_line(label));
    EXPECT_NE(std::find(seen.begin(), seen.end(), want), seen.end()) << want;
  }
}

/// RFC 4180 with comments: lines that begin with #.  No field begins with it.
std::vector<std::vector<std::string>> parsed_csv(const std::string& commented) {
  std::string text;
  for (const std::string& line : split(commented, "\n")) {
    if (!line.starts_with('#')) text += (text.empty() ? "" : "\n") + line;
  }
  std::vector<std::vector<std::string>> out(1, std::vector<std::string>(1));
  bool quoted = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '"' && quoted && i + 1 < text.size() && text[i + 1] == '"') {
      out.back().back() += text[i++];
    } else if (text[i] == '"') {
      quoted = !quoted;
    } else if (text[i] == ',' && !quoted) {
      out.back().emplace_back();
    } else if (text[i] == '\n' && !quoted) {
      out.emplace_back(1);
    } else {
      out.back().back() += text[i];
    }
  }
  EXPECT_FALSE(quoted);
  out.pop_back();
  return out;
}

TEST_F(Hostile, CsvIsReadBackAndHasNoFormulas) {
  for (const bool is_long : {false, true}) {
    Results results(hand_.store(), "hand");
    if (!is_long) results.keep_table(0);
    const std::string csv = render_report(results, {"csv", is_long});
    expect_visible(csv);
    std::set<std::string> seen;
    std::size_t columns = 0;
    for (const std::vector<std::string>& line : parsed_csv(csv)) {
      if (columns == 0) columns = line.size();
      EXPECT_EQ(line.size(), columns);
      for (const std::string& field : line) {
        seen.insert(field.starts_with('\'') ? field.substr(1) : field);
        if (field.empty() || parse_number<double>(field)) continue;
        EXPECT_EQ(std::string("=+-@").find(trim(field)[0]), std::string::npos) << field;
      }
    }
    for (const std::string& label : hostile_labels()) EXPECT_TRUE(seen.contains(one_line(label)));
  }
}

/// Checks the constructs by which text could inject LaTeX: the commands outside comments, and that
/// no \\ is followed by text that it would read as its argument.
TEST_F(Hostile, LatexHasOnlyGeneratedCommands) {
  const std::string tex = text("tex");
  expect_visible(tex);
  const std::set<std::string> ours = {"begin",
                                      "end",
                                      "toprule",
                                      "midrule",
                                      "bottomrule",
                                      "addlinespace",
                                      "cmidrule",
                                      "multicolumn",
                                      "par",
                                      "medskip",
                                      "centering",
                                      "caption",
                                      "label",
                                      "setlength",
                                      "tabcolsep",
                                      "linewidth",
                                      "raggedright",
                                      "allowbreak",
                                      "textbf",
                                      "underline",
                                      "normalsize",
                                      "small",
                                      "scriptsize",
                                      "footnotesize",
                                      "quad",
                                      "addtocounter",
                                      "textbar",
                                      "char",
                                      "textbackslash",
                                      "textless",
                                      "textgreater",
                                      "textasciitilde",
                                      "textasciicircum"};
  int braces = 0;
  std::ptrdiff_t separators = -1;  // in each row of the current table
  for (std::string line : split(tex, "\n")) {
    if (line.starts_with('%')) continue;
    for (std::size_t i = 0; i < line.size(); ++i) {
      const char c = line[i];
      EXPECT_NE(c, '%') << "a comment within " << line;
      EXPECT_NE(c, '^') << line;
      EXPECT_NE(c, '~') << line;
      EXPECT_NE(c, '#') << line;
      braces += c == '{' ? 1 : c == '}' ? -1 : 0;
      if (c != '\\') continue;
      std::size_t end = i + 1;
      while (end < line.size() && std::isalpha(line[end])) ++end;
      if (end > i + 1) {
        EXPECT_TRUE(ours.contains(line.substr(i + 1, end - i - 1))) << line;
        i = end - 1;
      } else {
        ++i;  // an escaped character or the end of a row
        EXPECT_TRUE(line[i] != '\\' || i + 1 == line.size()) << line;
      }
    }
    EXPECT_EQ(braces, 0) << line;
    if (line.starts_with("\\begin{tabular}")) separators = -1;
    if (line.ends_with("\\\\") && line.find("\\multicolumn") == line.npos) {
      const std::string unescaped = replace_all(line, "\\&", "");
      const auto count = std::count(unescaped.begin(), unescaped.end(), '&');
      EXPECT_TRUE(separators < 0 || separators == count) << line;
      separators = count;
    }
    const std::string start = trim(line);
    EXPECT_FALSE(start.starts_with('[') || start.starts_with('*')) << line;
  }
  EXPECT_NE(tex.find("\n{[}5cm] x & "), std::string::npos) << tex;
  EXPECT_NE(tex.find("\n{*} y & "), std::string::npos);
  EXPECT_NE(tex.find("a \\textbar{} b \\textbackslash{}\\textbar{} c &"), std::string::npos);
  EXPECT_NE(tex.find("% T \\input{x} "), std::string::npos) << "a comment of one line";
}

TEST_F(Hostile, MarkupHasOnlyGeneratedTags) {
  for (const char* format : {"html", "svg"}) {
    std::string page = text(format);
    for (const std::string& own : {page_style(), page_script()}) {
      if (const std::size_t at = page.find(own); at != page.npos) page.erase(at, own.size());
    }
    expect_visible(page);
    for (const char* evil : {"<script>a", "<img", "<b>", "<i>", "alert(1)</s"})
      EXPECT_EQ(page.find(evil), std::string::npos) << format << " " << evil;
    EXPECT_NE(page.find("&lt;script&gt;alert(1)&lt;/script&gt;"), std::string::npos) << format;
    EXPECT_NE(page.find("a\\u202eb\\u2066c"), std::string::npos) << format;
    EXPECT_NE(page.find("\\x1b[31mred"), std::string::npos) << format;
    // Every < begins a tag, and every quote in a tag is closed within it.
    for (std::size_t at = page.find('<'); at != std::string::npos; at = page.find('<', at + 1)) {
      const std::string tag = page.substr(at, page.find('>', at) - at);
      EXPECT_TRUE(tag.size() > 1 && (std::isalpha(tag[1]) || tag[1] == '/' || tag[1] == '!'))
          << tag;
      if (tag.starts_with("<!--")) continue;
      EXPECT_EQ(std::count(tag.begin(), tag.end(), '"') % 2, 0) << tag;
    }
  }
}

TEST_F(Hostile, JsonKeepsEveryLabel) {
  const Json json = parse_json(text("json"), "report");
  std::set<std::string> seen;
  for (const Json& cell : json["cells"]) seen.insert(cell["method"]);
  for (const std::string& label : hostile_labels()) EXPECT_TRUE(seen.contains(label));
}

TEST(Escape, JsonHasNoInvisibleCharacters) {
  const std::string text = "a\u202Eb\u200B\u2028c\U000E0041 é <&>";
  const std::string json = Json{{"text", text}}.dump(1), escaped = escape_json(json);
  EXPECT_NE(escaped.find("\"a\\u202eb\\u200b\\u2028c\\udb40\\udc41 é <&>\""), std::string::npos)
      << escaped;
  EXPECT_EQ(escaped.front(), '{');
  EXPECT_EQ(escaped[1], '\n') << "between values";
  EXPECT_EQ(Json::parse(escaped)["text"], text);
}

TEST(Escape, OrdinaryLabelsPass) {
  for (const char* label : {"snapkv:budget=64", "h2o:mode=prefill,budget=128", "R&P", "MF-en", "-",
                            "sablock:budget=96,block_max=1", "6000 words, depth 75", "20%"}) {
    EXPECT_EQ(escape_markdown(label), label);
    EXPECT_EQ(one_line(label), label);
  }
  for (const char* number : {"-1", "+1.5", "1e-3", "-0.25"}) EXPECT_EQ(csv_field(number), number);
  EXPECT_EQ(csv_field("-"), "-");
  EXPECT_EQ(csv_field("a,b"), "\"a,b\"");
  EXPECT_EQ(csv_field("-x"), "'-x");
  EXPECT_EQ(csv_field(" =x"), "' =x");
  EXPECT_EQ(csv_field("＝x"), "'＝x");
  EXPECT_EQ(csv_field("-2+3", /*guard_formulas=*/false), "-2+3");
  EXPECT_EQ(csv_field("=\"x\"", /*guard_formulas=*/false), "\"=\"\"x\"\"\"");
  EXPECT_EQ(escape_markup("R&P"), "R&amp;P");
  EXPECT_EQ(escape_latex("R&P_1 20%"), "R\\&P\\_1 20\\%");
  EXPECT_EQ(one_line("\xff"), "\\xff");
}

TEST(Escape, ParagraphsStartNoBlocks) {
  const std::pair<const char*, const char*> cases[] = {
      {"# x", "\\# x"},     {"- x", "\\- x"}, {"12. x", "12\\. x"}, {"1) x", "1\\) x"},
      {"1.5 x", "1\\.5 x"}, {"===", "\\==="}, {"12", "12"},         {"plain", "plain"}};
  for (const auto& [text, want] : cases) EXPECT_EQ(markdown_paragraph(text), want);
}

TEST(Escape, LinesAreBrokenAtSpaces) {
  EXPECT_EQ(wrapped("one two three", 8), (std::vector<std::string>{"one two", "three"}));
  EXPECT_EQ(wrapped("abcdefghij k", 4), (std::vector<std::string>{"abcd", "efgh", "ij k"}));
  EXPECT_EQ(wrapped("", 4), std::vector<std::string>{""});
  EXPECT_EQ(text_width("abc"), 3);
  EXPECT_EQ(text_width("中文"), 4);
}

}  // namespace
}  // namespace turnbench
