// The HTML page in a browser: its script, its layout, and that nothing leaves it.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "browser.h"
#include "common/file.h"
#include "hand_made_store.h"
#include "reports/number_text.h"
#include "reports/render.h"

namespace turnbench::test {
namespace {

// A closing script tag, quotes, a tag, a mark that reverses text, and separators of lines.
const std::string kHostile =
    "</script><script>window.injected = 1</script><img src=x onerror=\"window.injected = 1\"> '\"` "
    "${window.injected = 1} \u202Egnp.exe \u2028 &amp; <!-- \xff end";

/// One browser and one page for all tests: starting them takes seconds.
class HtmlBrowser : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    if (Browser::program().empty()) return;
    store_ = new HandMadeStore();
    int i = 0;
    for (const Cell& cell : store_->store().cells("hand")) {
      for (const char* id : {"a", "b", "c", "d"}) {
        ++i;
        const bool fails = cell.method == "streamingllm" && id == std::string("d");
        if (fails)
          store_->add_failure(cell.key, id);
        else
          store_->add(cell.key, id, .1 * (i % 7), .1 * (i % 11), 100 + i, 0,
                      cell.method == "full" ? "The answer is here." : answer(i));
      }
    }
    StoredExperiment other;
    other.name = "other";
    other.environment = environment_card();
    other.manifest = kManifest;
    other.manifest.replace(other.manifest.find("\"hand\""), 6, "\"other\"");
    const std::string each = "[\"dataset\", \"position\"]";
    other.manifest.replace(other.manifest.find(each), each.size(),
                           "[\"method\", \"dataset\", \"position\"]");
    const std::string rows = "\"rows\": [\"method\"], \"columns\": [\"method\"";
    other.manifest.replace(other.manifest.find(rows), rows.size(),
                           "\"rows\": [\"turn\"], \"columns\": [\"method\"");
    other.manifest.insert(other.manifest.rfind("]}"),
                          R"(, {"rows": ["dataset", "method"], "columns": ["position"]})");
    other.directory = "/";
    other.models = {{"model-hash", "a model"}};
    other.cells = store_->store().cells("hand");
    store_->store().add_experiment(other);
    add_budgets(other);
    page_ = render_html(store_->store(), PageRequest{{"hand", "other", "lines"}});
    directory_ = new TemporaryDirectory();
    file_ = directory_->write("page.html", page_);
    browser_ = new Browser();
  }
  static void TearDownTestSuite() {
    delete browser_;
    delete directory_;
    delete store_;
  }
  /// An experiment "lines" with three budgets of a method.
  static void add_budgets(StoredExperiment experiment) {
    experiment.name = "lines";
    experiment.manifest = R"({"name": "lines", "models": ["tiny"], "datasets": ["tiny-fact"],
      "positions": ["begin", "end"],
      "methods": ["snapkv:budget=64", "snapkv:budget=128", "snapkv:budget=256"],
      "tables": [{"rows": ["method.budget"], "columns": ["position"]}]})";
    experiment.cells.clear();
    for (const Cell& cell : store_->store().cells("hand")) {
      if (cell.method != "full" || cell.dataset != "tiny-fact") continue;
      for (const int budget : {64, 128, 256}) {
        Cell& added = experiment.cells.emplace_back(cell);
        added.method = fmt::format("snapkv:budget={}", budget);
        added.method_canonical = HandMadeStore::canonical(added.method);
        added.key = HandMadeStore::key(cell.dataset, cell.position, "lines " + added.method);
      }
    }
    store_->store().add_experiment(experiment);
    int i = 0;
    for (const Cell& cell : experiment.cells) {
      for (const char* id : {"a", "b", "c", "d"}) {
        ++i;
        store_->add(cell.key, id, .1 * (i % 7), .1 * (i % 11));
      }
    }
  }
  static std::string answer(int i) {
    return i % 5 == 0   ? kHostile
           : i % 5 == 1 ? "The answer is " + std::string(1'000'000, 'x')
                        : "The answer was here.";
  }

  void SetUp() override {
    if (browser_ == nullptr) GTEST_SKIP() << "Chromium is not installed";
    open(1280);
  }
  void TearDown() override {
    if (browser_ == nullptr) return;
    for (const std::string& error : browser_->errors()) ADD_FAILURE() << error;
    for (const std::string& url : browser_->requests()) ADD_FAILURE() << url;
    EXPECT_EQ(js("window.injected"), Json());
  }

  static void open(int width, const char* scheme = "light") {
    browser_->open(file_, width, scheme);
    // Shorthands for the expressions of the tests.
    js(R"js(
      window.$ = (selector) => document.querySelector(selector);
      window.$$ = (selector) => [...document.querySelectorAll(selector)];
      window.texts = (selector) => $$(selector).map((node) => node.innerText.trim());
      window.set = (node, value) => {
        node.value = value;
        node.dispatchEvent(new Event(node.matches("select") ? "change" : "input"));
      };
      window.table = "section.result:has(#x-hand-table-1)";
      window.each = "section.result:has(#x-hand-table-2)";
      window.laidOut = document.createElement("style");  // only what is laid out has an innerText
      laidOut.textContent = ".experiment { content-visibility: visible !important; }";
      document.head.append(laidOut);
      null)js");
  }
  static Json js(const std::string& expression) { return browser_->evaluate(expression); }
  static void set_kind(const std::string& kind) {
    js("set($$('dialog select')[1], '" + kind + "')");
  }
  static void expect_no_overflow(const std::string& place) {
    EXPECT_EQ(js("document.documentElement.scrollWidth <= innerWidth"), Json(true)) << place;
  }

  static HandMadeStore* store_;
  static TemporaryDirectory* directory_;
  static Browser* browser_;
  static std::string page_, file_;
};
HandMadeStore* HtmlBrowser::store_ = nullptr;
TemporaryDirectory* HtmlBrowser::directory_ = nullptr;
Browser* HtmlBrowser::browser_ = nullptr;
std::string HtmlBrowser::page_, HtmlBrowser::file_;

TEST_F(HtmlBrowser, SortsByEveryColumn) {
  const Json original = js("texts(`${table} tbody th`)");
  const auto click = [](int column) {
    js(fmt::format("$$(`${{table}} thead .sort`)[{}].click()", column));
  };
  const auto numbers = [] {
    return js(
        "$$(`${table} tbody tr`).map((row) => row.cells[1].querySelector('data'))"
        ".map((data) => data ? Number(data.value) : null)");
  };
  click(1);
  EXPECT_EQ(js("$(`${table} th[aria-sort]`).ariaSort"), "ascending");
  Json want = numbers();
  std::sort(want.begin(), want.end());
  EXPECT_EQ(numbers(), want);
  click(1);
  std::reverse(want.begin(), want.end());
  EXPECT_EQ(numbers(), want);
  click(1);
  EXPECT_EQ(js("texts(`${table} tbody th`)"), original) << "the manifest's order again";
  click(0);
  EXPECT_EQ(js("texts(`${table} tbody th`)"), Json({"full", "snapkv", "streamingllm"}));
  js("$('#experiments .sort').click()");
  js("$('#experiments .sort').click()");
  EXPECT_EQ(js("texts('#experiments tbody th')"), Json({"other", "lines", "hand"}));
  js("$$(`${each} thead .sort`)[3].click()");  // the second head of two rows
  EXPECT_EQ(js("$(`${each} th[aria-sort]`).innerText.trim()"), "end");
}

TEST_F(HtmlBrowser, FiltersRowsAndColumns) {
  js("set($(`${table} input`), 'KV 64')");
  EXPECT_EQ(js("texts(`${table} tbody tr:not([hidden]) th`)"), Json({"snapkv"}));
  EXPECT_EQ(js("$(`${table} [role=status]`).textContent"), "1 of 3 rows");
  js("set($(`${table} input`), '')");
  EXPECT_EQ(js("$$(`${table} tbody tr:not([hidden])`).length"), 3);
  EXPECT_EQ(js("$$(`${each} input`).length"), 2) << "a wide table";
  js("set($$(`${each} input`)[1], 'hop begin')");
  EXPECT_EQ(js("texts(`${each} thead th:not([hidden])`)"), Json({"method", "tiny-hop", "begin"}));
  EXPECT_EQ(js("$$(`${each} tbody tr:first-child td:not([hidden])`).length"), 1);
  js("set($$(`${each} input`)[1], '')");
  EXPECT_EQ(js("$$(`${each} thead th[hidden]`).length"), 0);
}

// The numbers of another baseline are those of a report whose manifest names it.
TEST_F(HtmlBrowser, ChoosesTheBaseline) {
  const Json sorted = js("$$(`${table} thead .sort`)[1].click(), texts(`${table} tbody th`)");
  js("set($(`${table} select`), 'snapkv:budget=64')");
  EXPECT_EQ(js("texts(`${table} tbody th`)"), sorted) << "keeps the order";
  const Results results(store_->store(), "hand");
  TableSpec spec = results.tables()[0];
  spec.difference_to = {{"snapkv:budget=64"}};
  const Pivot p = make_pivot(results, spec);
  ASSERT_TRUE(p.entries[0][0]->differences[0]);
  const Difference& d = *p.entries[0][0]->differences[0];
  const std::string want = estimate_text(d.estimate, 1, /*sign=*/true) + ", " + tests_text(d);
  EXPECT_EQ(js("$$(`${table} tbody tr`).find((row) => row.innerText.startsWith('full'))"
               ".querySelector('.difference').textContent"),
            want);
  EXPECT_NE(
      std::string(js("$(`${table} .view`).innerText")).find("Differences to snapkv:budget=64."),
      std::string::npos);
  js("set($(`${table} select`), '')");
  EXPECT_EQ(js("$$(`${table} .view .difference`).filter((node) => node.innerText.includes('p '))"
               ".length"),
            0);
  js("set($(`${table} select`), 'full')");
  EXPECT_EQ(js("$$(`${table} .view`).length"), 1);
}

TEST_F(HtmlBrowser, OpensTheDialoguesOfAnEntry) {
  js("$(`${table} tbody tr:nth-child(2) .open`).focus()");
  browser_->press("ArrowRight");
  EXPECT_EQ(js("document.activeElement.closest('td').cellIndex"), 2);
  browser_->press("Enter");
  EXPECT_EQ(js("$('dialog').open"), Json(true));
  EXPECT_EQ(js("$('#dialogues-title').textContent"), "snapkv:budget=64, end");
  EXPECT_EQ(js("$('dialog [role=status]').textContent"), "16 of 16 turns")
      << "two datasets, four dialogues, two turns";
  EXPECT_EQ(js("texts('article:first-of-type tbody th')"),
            Json({"full", "snapkv:budget=64", "streamingllm"}));
  EXPECT_EQ(js("texts('article:first-of-type h3')"), Json({"tiny-fact, a, turn 1"}));
  EXPECT_EQ(js("$('article .text').textContent"), "Question 1 of a?");
  EXPECT_EQ(js("$('article .references').innerText"), "here");
  EXPECT_EQ(js("$('article .opened th').innerText"), "snapkv:budget=64");
  EXPECT_EQ(js("texts('article mark').includes('was')"), Json(true)) << "the first difference";
  set_kind("failures");
  EXPECT_EQ(js("$('dialog [role=status]').textContent"), "0 of 16 turns");
  browser_->press("Escape");
  EXPECT_EQ(js("$('dialog').open"), Json(false));
  // The failed records name the dialogue.
  js("$('section.result:has(#x-hand-failures) .open').click()");
  EXPECT_EQ(js("$('dialog [role=status]').textContent"), "1 of 1 turns");
  EXPECT_EQ(js("$('article .opened .alarm').textContent"), "out_of_memory: needs <more> memory");
}

TEST_F(HtmlBrowser, TextsOfModelsStayText) {
  js("$(`${table} tbody tr:nth-child(2) .open`).click()");
  set_kind("different answers");
  EXPECT_EQ(js("$$('dialog script, dialog img').length"), 0);
  const std::string shown = js("$('dialog').textContent");
  EXPECT_NE(shown.find("</script><script>window.injected = 1</script><img src=x"),
            std::string::npos);
  EXPECT_NE(shown.find("\\u202egnp.exe \\u2028 &amp; <!-- \uFFFD end"), std::string::npos) << shown;
  EXPECT_LT(shown.size(), 200'000u) << "long texts are shortened";
  js("$$('dialog .more').find((button) => button.textContent.includes('1,000,014')).click()");
  EXPECT_EQ(js("$$('dialog .text').some((node) => node.textContent.length === 1000014)"),
            Json(true));
}

TEST_F(HtmlBrowser, FollowsTheThemeOfTheSystemAndTheReader) {
  const auto ground = [] { return js("getComputedStyle(document.body).backgroundColor"); };
  const Json light = ground();
  open(1280, "dark");
  const Json dark = ground();
  EXPECT_NE(dark, light);
  js("set($('#theme'), 'light')");
  EXPECT_EQ(ground(), light);
  open(1280, "dark");
  EXPECT_EQ(ground(), light) << "the choice is kept";
  js("set($('#theme'), '')");
  EXPECT_EQ(ground(), dark);
}

TEST_F(HtmlBrowser, FitsTheWindow) {
  for (const int width : {1280, 768, 390}) {
    open(width);
    expect_no_overflow(std::to_string(width));
    js("$$('details').forEach((node) => { node.open = true; })");
    expect_no_overflow(fmt::format("{}, all open", width));
    js("$(`${table} .open`).click()");
    expect_no_overflow(fmt::format("{}, dialogues", width));
    EXPECT_EQ(js("$('dialog').scrollWidth <= $('dialog').clientWidth"), Json(true)) << width;
    js("$('dialog').close()");
    EXPECT_EQ(
        js("const box = $(`${each} .scroll`); box.scrollLeft = 400;"
           "$(`${each} tbody th`).getBoundingClientRect().left - box.getBoundingClientRect().left"
           " < 2"),
        Json(true))
        << width << ": the first column is fixed";
  }
}

TEST_F(HtmlBrowser, ShowsValuesOfCharts) {
  js("$('section.result:has(#x-hand-positions) .row[tabindex]').focus()");
  const std::string tip = js("$('#tip').textContent");
  EXPECT_TRUE(tip.starts_with("full\nbegin: ")) << tip;
  EXPECT_EQ(js("$('#tip').hidden"), Json(false));
  browser_->press("Escape");
  EXPECT_EQ(js("$('#tip').hidden"), Json(true));
}

// Only experiments near the window are laid out; links and print show the others.
TEST_F(HtmlBrowser, LaysOutWhatIsShown) {
  const auto visibility = [] { return js("getComputedStyle($('#x-lines')).contentVisibility"); };
  js("laidOut.remove()");
  EXPECT_EQ(visibility(), "auto");
  js("location.hash = '#x-lines'");
  EXPECT_EQ(js("Math.abs($('#x-lines').getBoundingClientRect().top) < innerHeight"), Json(true));
  EXPECT_EQ(js("$('#x-lines .area').getBoundingClientRect().height > 200"), Json(true));
  browser_->show_as_printed(true);
  EXPECT_EQ(visibility(), "visible");
  browser_->show_as_printed(false);
}

// The table of "lines" varies a budget: its plot has a line for each position.
TEST_F(HtmlBrowser, EmphasizesALineAndShowsItsValues) {
  js("window.plot = $('#x-lines section.of-table .lines')");
  EXPECT_EQ(js("texts('#x-lines section.of-table .legend li')"), Json({"begin", "end"}));
  const auto move = [](const char* type, const char* selector) {
    js(
        fmt::format("plot.querySelector('{}').dispatchEvent(new PointerEvent('{}', {{clientX: 200, "
                    "clientY: 200}}))",
                    selector, type));
  };
  move("pointermove", ".series:last-child .point");
  const std::string tip = js("$('#tip').textContent");
  EXPECT_TRUE(tip.starts_with("end, budget 64\n")) << tip;
  EXPECT_EQ(js("plot.querySelectorAll('.emphasized').length"), 1);
  move("pointerleave", ".series:last-child .point");
  EXPECT_EQ(js("$('#tip').hidden"), Json(true));
  move("pointerenter", ".legend li");
  EXPECT_EQ(js("plot.querySelector('.series').matches('.emphasized')"), Json(true));
  EXPECT_EQ(js("plot.querySelector('.area > svg').ariaLabel.includes('begin, budget 256: ')"),
            Json(true));
}

// Labels of several rows: in the order of the manifest, sorted, and without some rows.
TEST_F(HtmlBrowser, MergesRepeatedLabels) {
  js(R"js(
    window.rows = "section.result:has(#x-other-table-4)";
    window.spans = () => $$(`${rows} tbody tr:not([hidden])`).map((row) =>
        [...row.querySelectorAll("th:not([hidden])")].map((th) => `${th.innerText} ${th.rowSpan}`));
    null)js");
  const Json merged = {{"tiny-fact 3", "full 1"}, {"snapkv 1"}, {"streamingllm 1"},
                       {"tiny-hop 3", "full 1"},  {"snapkv 1"}, {"streamingllm 1"}};
  EXPECT_EQ(js("spans()"), merged);
  js("$$(`${rows} thead .sort`)[1].click()");  // by method
  EXPECT_EQ(js("spans()").size(), 6u);
  EXPECT_EQ(js("spans()")[0], Json({"tiny-fact 1", "full 1"}));
  EXPECT_EQ(js("spans()")[1], Json({"tiny-hop 1", "full 1"}));
  js("$$(`${rows} thead .sort`)[1].click(), $$(`${rows} thead .sort`)[1].click()");
  EXPECT_EQ(js("spans()"), merged) << "the manifest's order again";
  js("set($(`${rows} input`), 'snapkv:budget')");
  EXPECT_EQ(js("spans()"), Json::array({{"tiny-fact 1", "snapkv 1"}, {"tiny-hop 1", "snapkv 1"}}))
      << "found by its whole label";
  js("set($(`${rows} input`), '')");
  EXPECT_EQ(js("spans()"), merged);
  EXPECT_EQ(js("$$(`${rows} tbody tr`).every((row) => row.cells.length === 5)"), Json(true));
}

// Of a wide table, every column is in one of the printed parts.
TEST_F(HtmlBrowser, PrintsEveryColumn) {
  js("window.heads = () => texts('section.result:has(#x-other-table-2) table:not([hidden]) ' +"
     "'thead tr:last-child th')");
  const Json heads = js("heads()");
  ASSERT_EQ(heads.size(), 12u);
  browser_->show_as_printed(true);
  EXPECT_EQ(js("$$('section.result:has(#x-other-table-2) table:not([hidden])').length"), 2);
  EXPECT_EQ(js("heads()"), heads);
  EXPECT_EQ(js("$$('.scroll').every((box) => box.scrollWidth <= box.clientWidth)"), Json(true));
  EXPECT_EQ(js("$$('.scroll > table:not([hidden]) button').length"), 0)
      << "repeated heads lack the text of buttons";
  browser_->show_as_printed(false);
  EXPECT_EQ(js("heads()"), heads);
}

TEST_F(HtmlBrowser, ServedPageOffersNewResults) {
  PageRequest request{{"hand"}};
  request.version = "1";
  const std::string served =
      directory_->write("served.html", render_html(store_->store(), request));
  const auto answer_with = [&](const std::string& version) {
    js("window.fetch = async () => ({ok: true, json: async () => ({version: '" + version +
       "'})}); window.marker = 1; 0");
  };
  const auto wait = [] { std::this_thread::sleep_for(std::chrono::milliseconds(2600)); };
  const auto is_offered = [&] { return js("!document.querySelector('.update').hidden"); };
  browser_->open(served, 1280);
  answer_with("1");
  wait();
  EXPECT_EQ(js("window.marker"), 1) << "nothing has changed";
  EXPECT_EQ(is_offered(), false);
  // A reader who has scrolled keeps the place.
  js("scrollTo(0, 50); 0");
  answer_with("2");
  wait();
  EXPECT_EQ(js("window.marker"), 1);
  EXPECT_EQ(js("scrollY"), 50);
  EXPECT_EQ(is_offered(), true);
  browser_->open(served, 1280);
  answer_with("2");
  wait();
  EXPECT_EQ(js("window.marker"), Json()) << "loaded again";
  // A file makes no requests.
  open(1280);
  EXPECT_EQ(js("document.querySelector('.update')"), Json());
}

}  // namespace
}  // namespace turnbench::test
