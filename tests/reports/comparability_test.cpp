// Remarks on differences between the methods of a table, from the registry and the records.

#include "reports/comparability.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "common/json.h"
#include "hand_made_store.h"
#include "reports/render.h"

namespace turnbench {
namespace {

using test::HandMadeStore;
using Lines = std::vector<std::string>;

/// The cells of some methods and the counters of their answers.
class Table {
 public:
  /// `spec`: a method, or "LABEL = METHOD".  `kept` and `read` are means over ten answers of six
  /// tokens to prompts of 1,000 tokens.
  Table& add(const std::string& spec, double kept = 0, double read = 0) {
    const std::size_t equals = spec.find(" = ");
    Cell cell;
    cell.key = spec;
    cell.method = spec.substr(0, equals);
    cell.method_canonical =
        Method::parse(equals == spec.npos ? spec : spec.substr(equals + 3)).canonical();
    CellUsage usage;
    for (int i = 0; i < 10; ++i) {
      usage.answers += 1;
      usage.prompt.add(1000);
      usage.kept.add(kept);
      usage.read.add(read);
      usage.answered.add(3);
    }
    cells_.push_back(cell);
    usages_[cell.key] = usage;
    return *this;
  }

  std::vector<ComparabilityRemark> remarks() const {
    std::vector<const Cell*> cells;
    for (const Cell& cell : cells_) cells.push_back(&cell);
    return comparability(cells, usages_);
  }

  const Cell* cell(std::size_t i) const { return &cells_[i]; }

  /// The remarks about one subject, or about all.
  Lines lines(const std::string& subject = "") const {
    Lines out;
    for (const ComparabilityRemark& remark : remarks()) {
      if (subject.empty() || remark.subject == subject) out.push_back(describe(remark));
    }
    return out;
  }

 private:
  std::vector<Cell> cells_;
  std::map<std::string, CellUsage> usages_;
};

TEST(Comparability, DefaultsOfTheSameNameDiffer) {
  EXPECT_EQ(Table()
                .add("full")
                .add("snapkv:budget=512")
                .add("adakv:budget=512")
                .add("pyramidkv:budget=512")
                .add("sablock:budget=512")
                .lines("window"),
            Lines{"window: 32 in snapkv, adakv; 8 in pyramidkv, sablock"});
}

TEST(Comparability, LabelsNamePartsOfAFamily) {
  EXPECT_EQ(Table()
                .add("snapkv:budget=512")
                .add("snapkv:budget=512,window=8")
                .add("pyramidkv:budget=512")
                .lines("window"),
            Lines{"window: 32 in snapkv:budget=512; 8 in snapkv:budget=512,window=8, pyramidkv"});
}

// In a sweep of one method, the labels already show the varied parameters.
TEST(Comparability, ReportsSettingsThatLabelsOfAFamilyHide) {
  EXPECT_EQ(Table().add("snapkv:budget=64").add("snapkv:budget=128,window=8").lines(), Lines());
  EXPECT_EQ(Table().add("a = snapkv:budget=64").add("b = snapkv:budget=64,window=8").lines(),
            Lines{"window: 32 in a; 8 in b"});
}

TEST(Comparability, EqualMethodsHaveNoRemark) {
  EXPECT_EQ(Table().add("full").add("snapkv:budget=64,window=8").lines(), Lines());
  EXPECT_EQ(Table().lines(), Lines());
}

TEST(Comparability, ParametersOfOtherNamesAreCompared) {
  const Table table = Table()
                          .add("quest:budget=100")
                          .add("round:lw=5")
                          .add("specontext-self:budget=100")
                          .add("pqcache:budget=100")
                          .add("infllm:budget=100,local=50,block=16");
  EXPECT_EQ(table.lines("dense layers"),
            Lines{"dense layers: 2 in quest; 5 in round (lw); a quarter of the layers, rounded up "
                  "in specontext-self (d); none in pqcache, infllm"});
  EXPECT_EQ(table.lines("sinks"), Lines{"sinks: none in quest, round, specontext-self; 32 in "
                                        "pqcache; 128 in infllm (init)"});
}

// clusterkv's window counts answer tokens, infllm's chunk is another parameter than shadowkv's, and
// h2o's window has no effect with mode=dynamic.
TEST(Comparability, MethodsWithoutPoolingAreNamed) {
  EXPECT_EQ(Table()
                .add("snapkv:budget=100")
                .add("sablock:budget=100")
                .add("pqcache:budget=100")
                .lines("pooling of scores"),
            Lines{"pooling of scores: max in snapkv; none in sablock"});
}

// The pooling of adakv does not apply to the scores of other methods.
TEST(Comparability, PoolingIsThatOfTheScorer) {
  EXPECT_EQ(Table()
                .add("rkv:budget=100")
                .add("adakv:budget=100,scorer=rkv")
                .add("adakv:budget=100,scorer=h2o")
                .lines("pooling of scores"),
            Lines{"pooling of scores: max in rkv, adakv:budget=100,scorer=rkv; none in "
                  "adakv:budget=100,scorer=h2o"});
}

// rocketkv evicts and selects: the comparison with both other methods replaces those of one kind.
TEST(Comparability, AParameterIsNamedOnceForMethodsOfTwoKinds) {
  const std::string rocketkv = "rocketkv:budget=100,answer=32";
  EXPECT_EQ(Table()
                .add("first = " + rocketkv + ",page=1")
                .add("second = " + rocketkv + ",page=2")
                .add("quest:budget=100")
                .lines("page"),
            Lines{"page: 1 in first; 2 in second; 16 in quest"});
  EXPECT_EQ(Table()
                .add("first = " + rocketkv + ",kernel=1")
                .add("second = " + rocketkv + ",kernel=3")
                .add("snapkv:budget=100")
                .add("quest:budget=100")
                .lines("kernel"),
            Lines{"kernel: 1 in first; 3 in second; 7 in snapkv"});
}

// Labels may be shortened in a table, so they do not replace the remark.
TEST(Comparability, MethodsThatEvictBeforeTheQuestionAreNamed) {
  const std::string before = ":budget=100,compress=before_question";
  EXPECT_EQ(Table().add("snapkv" + before).add("sablock:budget=100").lines("compress"),
            Lines{"compress: before_question in snapkv; prompt in sablock"});
  EXPECT_EQ(Table()
                .add("snapkv:budget=100,compress_block=512")
                .add("sablock:budget=100")
                .lines("compress_block"),
            Lines{"compress_block: 512 in snapkv; no blocks in sablock"});
  // A value that both methods have is compared at equal settings; labels show which is which.
  Table both;
  for (const char* method : {"snapkv", "sablock"}) {
    both.add(method + std::string(":budget=100")).add(method + before);
  }
  EXPECT_EQ(both.lines("compress"), Lines{});
  EXPECT_EQ(both.add("h2o:budget=100,mode=prefill").lines("compress").size(), 1u);
  EXPECT_EQ(Table().add("ours = snapkv" + before).add("sablock:budget=100").lines("compress"),
            Lines{"compress: before_question in ours; prompt in sablock"});
}

TEST(Comparability, DoesNotCompareOtherParametersOfTheSameName) {
  EXPECT_EQ(Table().add("clusterkv:budget=100").add("sentencekv:budget=100").lines("window"),
            Lines());
  EXPECT_EQ(
      Table().add("shadowkv:budget=100").add("infllm:budget=100,local=50,block=16").lines("chunk"),
      Lines());
  EXPECT_EQ(Table().add("snapkv:budget=100").add("h2o:budget=100").lines("window"), Lines());
  EXPECT_EQ(Table().add("snapkv:budget=100").add("h2o:budget=100,mode=prefill").lines("window"),
            Lines{"window: 32 in snapkv; 8 in h2o"});
}

TEST(Comparability, UnitsOfBudgetsAreQuoted) {
  const Lines lines = Table().add("snapkv:budget=64").add("quest:budget=64").lines("budget counts");
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_EQ(
      lines[0],
      "budget counts: \"prompt tokens kept per set, window included; generated tokens "
      "are not counted\" in snapkv; \"tokens read per query head and step, in whole pages, at "
      "least three, the last page included\" in quest");
}

// Tokens of the answer are not counted, and deviations by rounding are not reported.
TEST(Comparability, ExceededBudgetsAreNamed) {
  EXPECT_EQ(Table()
                .add("quest:budget=100", 1000, 250)
                .add("oracle:budget=100", 1000, 104)
                .add("pqcache:budget=1/5", 1000, 236)
                .lines("read more than the budget, as a mean over turns"),
            (Lines{"read more than the budget, as a mean over turns: 250 tokens of 100 in quest; "
                   "236 tokens of 200 in "
                   "pqcache"}));
  EXPECT_EQ(Table()
                .add("h2o:budget=100,comp=all", 180)
                .lines("kept more than the budget, as a mean over turns"),
            (Lines{"kept more than the budget, as a mean over turns: 180 tokens of 100 in h2o"}));
  EXPECT_EQ(Table()
                .add("snapkv:budget=20%", 230)
                .add("adakv:budget=20%,compress=before_question", 230)
                .lines("kept more than the budget, as a mean over turns"),
            (Lines{"kept more than the budget, as a mean over turns: 230 tokens of 200 in snapkv"}))
      << "adakv's share is one of the text before the question";
  EXPECT_EQ(Table()
                .add("snapkv:budget=100", 101, 104)
                .lines("kept more than the budget, as a mean over turns"),
            Lines());
}

TEST(Comparability, DeviceCachesDiffer) {
  const std::string bytes =
      " (bytes over the link and on the device are not comparable between these)";
  const Table table = Table()
                          .add("pqcache:budget=100")
                          .add("quest:budget=100,placement=host")
                          .add("snapkv:budget=100");
  EXPECT_EQ(
      table.lines("keys and values"),
      Lines{"keys and values: host memory in pqcache, quest; device memory in snapkv" + bytes});
  EXPECT_EQ(
      table.lines("device cache of a KV head and layer"),
      Lines{"device cache of a KV head and layer: 4096 tokens in pqcache; none in quest" + bytes});
  EXPECT_EQ(Table().add("full").add("pqcache:budget=128").add("pqcache:budget=256").lines(),
            Lines());
  const Table same =
      Table().add("oracle:budget=100,placement=host").add("quest:budget=100,placement=host");
  EXPECT_EQ(same.lines("keys and values"), Lines());
  EXPECT_EQ(same.lines("device cache of a KV head and layer"), Lines());
}

TEST(Comparability, CodecsAreNamed) {
  const std::string subject = "stored form of keys and values";
  EXPECT_EQ(Table().add("snapkv:budget=64").add("int8+snapkv:budget=64").add("ggml").lines(subject),
            Lines{subject + ": floating-point numbers in snapkv; int8 in "
                            "int8+snapkv:budget=64; ggml in ggml"});
  EXPECT_EQ(Table().add("snapkv:budget=64").add("h2o:budget=64").lines(subject), Lines());
}

// The methods offer different numbers of bits.
TEST(Comparability, ChoicesOfNumbersAreCompared) {
  EXPECT_EQ(Table().add("kivi:bits=2").add("turboquant:bits=4").lines("bits"),
            Lines{"bits: 2 in kivi; 4 in turboquant"});
}

TEST(Comparability, GroupsTheValuesOfOneMethod) {
  const Table table = Table().add("full").add("snapkv:budget=64").add("pyramidkv:budget=64");
  const std::string text = comparability_of(table.remarks(), {table.cell(2)});
  EXPECT_TRUE(text.starts_with("window: 8; budget counts: \"")) << text;
  EXPECT_EQ(comparability_of(table.remarks(), {table.cell(0)}), "");
  EXPECT_TRUE(comparability_of(table.remarks(), {table.cell(2), table.cell(1), table.cell(2)})
                  .starts_with(text + " | window: 32; budget"));
}

/// Two methods with different windows.
class TwoWindows : public testing::Test {
 protected:
  TwoWindows() {
    for (const Cell& cell : hand_.store().cells("hand")) hand_.add(cell.key, "a", 1, 1);
  }
  Results results() { return Results(hand_.store(), "hand"); }

 private:
  static constexpr const char* kMethods = R"({
    "name": "hand", "models": ["tiny"], "datasets": ["tiny-fact", "tiny-hop"],
    "positions": ["begin", "end"],
    "methods": ["full", "snapkv:budget=64", "pyramidkv:budget=64"],
    "tables": [{"rows": ["method"], "columns": ["position"]}]})";
  HandMadeStore hand_{kMethods, "", {"full", "snapkv:budget=64", "pyramidkv:budget=64"}};
};

TEST_F(TwoWindows, AreNamedInEveryFormat) {
  const std::string line = "window: 32 in snapkv; 8 in pyramidkv";
  EXPECT_NE(render_markdown(results()).find(std::string(kNotAlike) + "\n\n- " + line + "\n"),
            std::string::npos);
  EXPECT_NE(render_html(results()).find("<li>" + line + "</li>"), std::string::npos);
  EXPECT_NE(render_latex(results()).find(line), std::string::npos);
  EXPECT_NE(render_csv(results()).find(",comparability\n"), std::string::npos);
  EXPECT_NE(render_csv(results()).find(",\"window: 32; budget"), std::string::npos)
      << render_csv(results());
  EXPECT_NE(render_csv_long(results()).find(",comparability\n"), std::string::npos);
  const Json table = Json::parse(render_json(results()))["tables"][0];
  ASSERT_TRUE(table.contains("comparability")) << table.dump();
  EXPECT_EQ(table["comparability"][0],
            Json::parse(R"({"subject": "window", "values": [{"value": "32", "methods": ["snapkv"]},
                           {"value": "8", "methods": ["pyramidkv"]}]})"));
}

}  // namespace
}  // namespace turnbench
