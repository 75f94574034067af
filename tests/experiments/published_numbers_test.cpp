// Tests of the papers' numbers next to the manifests: all are present, belong to a cell, and agree
// with each other.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <regex>
#include <set>

#include "common/file.h"
#include "common/text.h"
#include "tests/experiments/experiment_files.h"

namespace turnbench::test {
namespace {

const std::string kLlama = "llama-3.1-8b-instruct", kQwen = "qwen2.5-7b-instruct",
                  kMistral = "mistral-7b-instruct-v0.3";

std::string text_of(const NamedCell& cell) {
  std::vector<std::string> values;
  for (const auto& [dimension, value] : cell) values.push_back(value);
  return join(values, ", ");
}

/// The number of a cell with these values of its dimensions; the value "mean" matches averaged
/// dimensions.
std::optional<double> number(const std::vector<PublishedNumber>& rows, const NamedCell& cell) {
  std::optional<double> out;
  for (const PublishedNumber& row : rows) {
    const bool same = std::all_of(cell.begin(), cell.end(), [&](const auto& field) {
      const auto& [dimension, value] = field;
      if (value == "mean") {
        const auto& averaged = row.averaged_over;
        return std::find(averaged.begin(), averaged.end(), dimension) != averaged.end();
      }
      const auto named = row.dimensions.find(dimension);
      return named != row.dimensions.end() &&
             std::find(named->second.begin(), named->second.end(), value) != named->second.end();
    });
    if (!same) continue;
    EXPECT_FALSE(out) << "two numbers for " << text_of(cell);
    out = row.value;
  }
  return out;
}

std::vector<PublishedNumber> numbers(const std::string& manifest) {
  return published_of(load_experiment(manifest));
}

// A number without a cell would never be shown, and two numbers for one cell contradict each other.
TEST(PublishedNumbers, EveryNumberHasACell) {
  std::set<std::string> files;
  for (const std::string& name : paper_manifests()) {
    const Manifest manifest = load_experiment(name);
    const std::vector<PublishedNumber> rows = published_of(manifest);
    if (rows.empty()) continue;
    files.insert(manifest.path.parent_path() / manifest.published);
    const bool own = manifest.path.stem() == std::filesystem::path(manifest.published).stem();
    const std::vector<NamedCell> cells = named_cells(manifest);
    std::vector<int> uses(rows.size(), 0);
    for (const NamedCell& cell : cells) {
      int of_cell = 0;
      for (std::size_t i = 0; i < rows.size(); ++i) {
        if (!agrees(rows[i], cell)) continue;
        ++uses[i];
        of_cell += rows[i].averaged_over.empty();
      }
      EXPECT_LE(of_cell, 1) << name << ": " << text_of(cell);
    }
    const auto used = std::count_if(uses.begin(), uses.end(), [](int n) { return n > 0; });
    EXPECT_GT(used, 0) << name;
    if (own) {
      EXPECT_EQ(used, static_cast<std::ptrdiff_t>(rows.size())) << name;
    }
  }
  // Each file of numbers belongs to a manifest.  Exceptions: numbers of commands (turnbench method
  // round watershed, bench throughput), and of a method whose retrieval head is not available.
  for (const char* other :
       {"round-attention/table5.csv", "specontext/table3.csv", "specontext/table4-ours.csv"})
    files.insert(std::string(TURNBENCH_SOURCE_DIR "/experiments/") + other);
  for (const char* paper : {"loopserve", "pqcache", "round-attention", "sablock", "specontext"}) {
    for (const auto& entry : std::filesystem::directory_iterator(
             std::string(TURNBENCH_SOURCE_DIR "/experiments/") + paper)) {
      if (entry.path().extension() != ".csv") continue;
      EXPECT_TRUE(files.contains(entry.path())) << entry.path();
    }
  }
}

// Tables that are printed completely have a number for every cell, in every reading.
TEST(PublishedNumbers, CompleteTablesHaveAllNumbers) {
  for (const char* name :
       {"loopserve/table4.json", "loopserve/table4-readings.json", "loopserve/table4-history.json",
        "sablock/table2.json", "sablock/table2-readings.json", "pqcache/table2.json",
        "pqcache/table2-readings.json", "pqcache/table3.json", "pqcache/table4.json",
        "pqcache/table5.json", "pqcache/table6.json"}) {
    const Manifest manifest = load_experiment(name);
    const std::vector<PublishedNumber> rows = published_of(manifest);
    for (const NamedCell& cell : named_cells(manifest)) {
      const bool found = std::any_of(rows.begin(), rows.end(), [&](const PublishedNumber& row) {
        return row.averaged_over.empty() && agrees(row, cell);
      });
      EXPECT_TRUE(found) << name << ": " << text_of(cell);
    }
  }
  EXPECT_EQ(numbers("loopserve/table4.json").size(), 2u * 8 * 11 * 3);
  EXPECT_EQ(numbers("sablock/table2.json").size(), 2u * 15 * 17);
  EXPECT_EQ(numbers("pqcache/table2.json").size(), 15u * 15);
  EXPECT_EQ(numbers("pqcache/table3.json").size(), 3u * 7);
  EXPECT_EQ(numbers("pqcache/table4.json").size(), 15u * 10);
  EXPECT_EQ(numbers("pqcache/table5.json").size(), 4u * 10);
  EXPECT_EQ(numbers("pqcache/table6.json").size(), 3u * 15);
}

// Tables of averages have an average for every model and method.
TEST(PublishedNumbers, CompleteTablesOfAveragesHaveAllNumbers) {
  for (const char* name :
       {"sablock/table1.json", "sablock/table1-readings.json", "sablock/table2.json",
        "sablock/table2-readings.json", "sablock/table3.json", "sablock/table4.json",
        "sablock/figure3.json", "pqcache/table2.json", "pqcache/table2-readings.json",
        "pqcache/table3.json", "pqcache/table4.json", "pqcache/table5.json",
        "pqcache/table6.json"}) {
    const Manifest manifest = load_experiment(name);
    const std::vector<PublishedNumber> rows = published_of(manifest);
    for (const NamedCell& cell : named_cells(manifest)) {
      if (manifest.name == "sablock-figure3" && cell.at("task") != "Few-shot Learning") continue;
      const auto means = std::count_if(rows.begin(), rows.end(), [&](const PublishedNumber& row) {
        return row.averaged_over == std::vector<std::string>{"dataset"} && agrees(row, cell);
      });
      EXPECT_EQ(means, 1) << name << ": " << text_of(cell);
    }
  }
  EXPECT_EQ(numbers("sablock/table1.json").size(), 10u * 5);
}

// Figures without printed numbers use those of Table 4.
TEST(PublishedNumbers, LoopServeFiguresUseNumbersOfTable4) {
  const std::vector<PublishedNumber> table = numbers("loopserve/table4.json");
  std::size_t count = 0;
  for (const char* name :
       {"loopserve/figure7.json", "loopserve/figure9.json", "loopserve/figure10.json"}) {
    for (const PublishedNumber& row : numbers(name)) {
      NamedCell cell;
      for (const auto& [dimension, values] : row.dimensions) cell[dimension] = values.front();
      EXPECT_EQ(number(table, cell), row.value) << name << ": " << text_of(cell);
      ++count;
    }
  }
  EXPECT_EQ(count, 18u + 12 + 12);
}

TEST(PublishedNumbers, LoopServeTable4) {
  const std::vector<PublishedNumber> rows = numbers("loopserve/table4.json");
  const std::string ours = "loopserve:alpha=0.955,budget=1024,n_d=16";
  const struct {
    std::string model, position, dataset, method;
    double value;
  } typed[] = {
      {kLlama, "begin", "MFQA-en", "full", 45.70},
      {kLlama, "begin", "MFQA-en", ours, 46.82},
      {kQwen, "begin", "MFQA-en", "full", 44.24},
      {kLlama, "begin", "Musique", "a-shape:n_init=128,n_local=896", 4.22},
      {kQwen, "begin", "GovReport", "tri-shape:n_init=128,n_local=896", 21.90},
      {kLlama, "begin", "SAMSUM", "minference", 17.46},
      {kQwen, "middle", "Musique", "full", 10.05},
      {kLlama, "middle", "TREC", ours, 56.03},
      {kQwen, "middle", "TREC", "tri-shape:n_init=128,n_local=896", 40.71},
      {kLlama, "middle", "NrtvQA", "adakv:budget=1024", 10.64},
      {kLlama, "end", "HotpotQA", "snapkv:budget=1024", 52.38},
      {kLlama, "end", "NrtvQA", "streamingllm:budget=1024", 19.28},
      {kQwen, "end", "QMSum", "snapkv:budget=1024", 20.15},
      {kQwen, "end", "SAMSUM", "minference", 39.57},
      {kQwen, "end", "SAMSUM", ours, 39.85},
  };
  for (const auto& t : typed) {
    const NamedCell cell = {
        {"model", t.model}, {"position", t.position}, {"dataset", t.dataset}, {"method", t.method}};
    EXPECT_EQ(number(rows, cell), t.value) << text_of(cell);
  }
}

TEST(PublishedNumbers, SaBlockTable2) {
  const std::vector<PublishedNumber> rows = numbers("sablock/table2.json");
  const struct {
    std::string model, method, dataset;
    double value;
  } typed[] = {
      {kLlama, "full", "NrtQA", 21.0},
      {kLlama, "full", "mean", 37.11},
      {kLlama, "streamingllm:budget=128,rolling=false", "PR-en", 71.47},
      {kLlama, "h2o:mode=prefill,budget=128", "TREC", 62.00},
      {kLlama, "sablock:budget=128", "mean", 33.10},
      {kLlama, "chunkkv:budget=2048,window=8", "R&P", 56.51},
      {kLlama, "sablock:budget=2048", "QMSum", 23.97},
      {kMistral, "full", "PR-en", 98.5},
      {kMistral, "sentencekv:budget=128", "TREC", 47.50},
      {kMistral, "snapkv:budget=128,window=8", "Lcc", 55.70},
      {kMistral, "pyramidkv:budget=2048", "PCount", 4.00},
      {kMistral, "sablock:budget=2048", "mean", 48.01},
  };
  for (const auto& t : typed) {
    const NamedCell cell = {{"model", t.model}, {"method", t.method}, {"dataset", t.dataset}};
    EXPECT_EQ(number(rows, cell), t.value) << text_of(cell);
  }
}

// The printed averages equal those of the printed numbers, except for six rows of the paper.
TEST(PublishedNumbers, SaBlockTable2Averages) {
  const Manifest manifest = load_experiment("sablock/table2.json");
  const std::vector<PublishedNumber> rows = published_of(manifest);
  std::set<std::string> deviating;
  for (const ModelEntry& model : manifest.models) {
    for (const Method& method : manifest.methods) {
      double sum = 0;
      for (const DatasetEntry& dataset : manifest.datasets)
        sum +=
            number(rows,
                   {{"model", model.name}, {"method", method.label()}, {"dataset", dataset.label}})
                .value();
      const double mean =
          number(rows, {{"model", model.name}, {"method", method.label()}, {"dataset", "mean"}})
              .value();
      EXPECT_NEAR(sum / 16, mean, 0.07) << model.name << " " << method.label();
      if (std::abs(sum / 16 - mean) > 0.0051) deviating.insert(model.name + " " + method.label());
    }
  }
  EXPECT_EQ(deviating, (std::set<std::string>{
                           kLlama + " streamingllm:budget=128,rolling=false",
                           kLlama + " pyramidkv:budget=128", kLlama + " sentencekv:budget=128",
                           kLlama + " streamingllm:budget=2048,rolling=false",
                           kLlama + " pyramidkv:budget=2048", kMistral + " sablock:budget=2048"}));
}

// The paper states the best block size for every budget.
TEST(PublishedNumbers, SaBlockTable1) {
  const std::vector<PublishedNumber> rows = numbers("sablock/table1.json");
  const std::pair<int, int> best[] = {{16, 1},  {32, 3},  {64, 5},   {96, 7},   {128, 9},
                                      {256, 7}, {512, 9}, {1024, 9}, {2048, 9}, {4096, 9}};
  const auto value = [&](int budget, int block) {
    const std::string method = fmt::format("chunkkv:budget={},window=8,chunk={}", budget, block);
    return number(rows, {{"method", method}, {"dataset", "mean"}}).value();
  };
  for (const auto& [budget, block] : best) {
    for (int other : {1, 3, 5, 7, 9}) EXPECT_GE(value(budget, block), value(budget, other));
  }
  EXPECT_EQ(value(16, 1), 22.74);
  EXPECT_EQ(value(128, 3), 26.08);
  EXPECT_EQ(value(4096, 5), 31.02);
}

TEST(PublishedNumbers, SaBlockAblations) {
  const std::string base = "sablock:budget=96";
  const struct {
    const char* manifest;
    std::string method;
    double value, drop;
  } typed[] = {{"sablock/table3.json", base + ",lambda=0", 33.03, 2.22},
               {"sablock/table3.json", base + ",block_max=1", 33.36, 1.24},
               {"sablock/table4.json", base + ",lambda=0,block_max=1", 32.15, 4.83},
               {"sablock/table4.json", base + ",block_max=1", 33.36, 1.24},
               {"sablock/table4.json", base + ",blocks=fixed,block_max=5", 32.81, 2.87},
               {"sablock/table4.json", base + ",blocks=fixed,block_max=10", 32.20, 4.68}};
  for (const auto& t : typed) {
    const std::vector<PublishedNumber> rows = numbers(t.manifest);
    EXPECT_EQ(number(rows, {{"method", base}, {"dataset", "mean"}}), 33.78);
    EXPECT_EQ(number(rows, {{"method", t.method}, {"dataset", "mean"}}), t.value);
    EXPECT_NEAR(100 * (33.78 - t.value) / 33.78, t.drop, 0.0051) << "as the paper prints it";
    const std::string csv = read_file(load_experiment(t.manifest).path.replace_extension(".csv"));
    EXPECT_NE(csv.find(fmt::format("relative drop {:.2f}%", t.drop)), std::string::npos);
  }
}

// The methods of the figures are those of Table II with other budgets.
TEST(PaperManifests, SaBlockFiguresRunTheMethodsOfTable2) {
  const auto without_budget = [](const Method& method) {
    return std::regex_replace(method.canonical(), std::regex("budget=[0-9.]+"), "budget=B");
  };
  std::set<std::string> methods;
  for (const Method& method : load_experiment("sablock/table2.json").methods)
    methods.insert(without_budget(method));
  ASSERT_EQ(methods.size(), 8u);
  const std::pair<const char*, std::size_t> figures[] = {
      {"sablock/figure6.json", 8}, {"sablock/figure7.json", 6}, {"sablock/figure8.json", 8}};
  for (const auto& [figure, count] : figures) {
    std::set<std::string> own;
    for (const Method& method : load_experiment(figure).methods) own.insert(without_budget(method));
    EXPECT_EQ(own.size(), count) << figure;
    EXPECT_TRUE(std::includes(methods.begin(), methods.end(), own.begin(), own.end())) << figure;
  }
}

TEST(PublishedNumbers, SaBlockFigures) {
  const auto needles = numbers("sablock/figure7.json");
  ASSERT_EQ(needles.size(), 4u);
  EXPECT_EQ(number(needles, {{"method", "full"}, {"dataset", "mean"}}), 100);
  EXPECT_EQ(number(needles, {{"method", "h2o:mode=prefill,budget=96"}, {"dataset", "mean"}}), 44.6);
  EXPECT_EQ(number(needles, {{"method", "sablock:budget=96"}, {"dataset", "mean"}}), 99.9);
  const auto figure = numbers("sablock/figure3.json");
  ASSERT_EQ(figure.size(), 3u);
  EXPECT_EQ(figure[0].value, 52.0);
  EXPECT_EQ(figure[1].value, 61.3);
  EXPECT_EQ(figure[2].value, 69.7);
}

TEST(PublishedNumbers, PqCacheTables) {
  const std::string fifth = "budget=1/5", tenth = "budget=1/10",
                    sparq = ",mean_v=off,sinks=32,local=0.5";
  const struct {
    const char* manifest;
    std::string method, dataset;
    double value;
  } typed[] = {
      {"table2", "full", "NarrativeQA", 29.91},
      {"table2", "oracle:" + fifth, "mean", 47.40},
      {"table2", "h2o:" + fifth + ",sinks=32,comp=index", "NarrativeQA", 30.94},
      {"table2", "sparq:" + fifth + ",r=1" + sparq, "Qasper", 35.11},
      {"table2", "pqcache:" + fifth + ",m=2,b=6", "Retrieval", 99},
      {"table2", "oracle:" + tenth, "NarrativeQA", 30.92},
      {"table2", "snapkv:" + tenth + ",comp=index", "TREC", 66.50},
      {"table2", "pyramidkv:" + tenth + ",comp=index", "TriviaQA", 92.34},
      {"table2", "infllm:" + tenth + ",init=32,repr=1", "Retrieval", 55},
      {"table2", "pqcache:" + tenth + ",m=2,b=6", "Retrieval", 100},
      {"table3", "snapkv:" + tenth + ",comp=index", "NarrativeQA", 19.39},
      {"table3", "pqcache:" + tenth + ",m=2,b=6", "Qasper", 25.76},
      {"table4", "full", "Retr.KV", 55.60},
      {"table4", "infllm:" + fifth + ",init=32,repr=2", "mean", 28.17},
      {"table4", "infllm:" + tenth + ",init=32,repr=2", "mean", 39.19},
      {"table4", "oracle:" + tenth, "En.Dia", 18.50},
      {"table4", "h2o:" + tenth + ",sinks=32,comp=index,comm=1/64", "Retr.Number", 77.97},
      {"table4", "sparq:" + tenth + ",r=2" + sparq, "En.MC", 67.69},
      {"table4", "pqcache:" + tenth + ",m=4,b=8", "En.Dia", 21.50},
      {"table5", "minference", "Retr.KV", 13.60},
      {"table5", "minference+pqcache:" + fifth + ",m=4,b=8", "Zh.QA", 11.93},
      {"table6", "full", "2WikiMQA", 67.85},
      {"table6", "pqcache:" + fifth + ",m=2,b=6,max_iter=10", "SAMSum", 47.67},
      {"table6", "pqcache:" + fifth + ",m=2,b=6,max_iter=20", "QMSum", 24.37},
  };
  for (const auto& t : typed) {
    const NamedCell cell = {{"method", t.method}, {"dataset", t.dataset}};
    const auto rows = numbers(fmt::format("pqcache/{}.json", t.manifest));
    EXPECT_EQ(number(rows, cell), t.value) << t.manifest << ": " << text_of(cell);
  }
}

TEST(PublishedNumbers, PqCacheFigures) {
  const auto hits = numbers("pqcache/figure11d.json");
  ASSERT_EQ(hits.size(), 1u);
  EXPECT_EQ(hits[0].value, 0.6);
  EXPECT_EQ(hits[0].dimensions.at("metric"), std::vector<std::string>{"hit_rate"});
}

// All printed averages equal those of the printed numbers.
TEST(PublishedNumbers, PqCacheAverages) {
  for (const char* name : {"pqcache/table2.json", "pqcache/table3.json", "pqcache/table4.json",
                           "pqcache/table5.json", "pqcache/table6.json"}) {
    const Manifest manifest = load_experiment(name);
    const std::vector<PublishedNumber> rows = published_of(manifest);
    for (const Method& method : manifest.methods) {
      const auto value = [&](const std::string& dataset) {
        return number(rows, {{"method", method.label()}, {"dataset", dataset}}).value();
      };
      double sum = 0;
      for (const DatasetEntry& dataset : manifest.datasets) {
        EXPECT_GE(value(dataset.label), 0) << name << " " << method.label();
        EXPECT_LE(value(dataset.label), 100) << name << " " << method.label();
        sum += value(dataset.label);
      }
      EXPECT_NEAR(sum / static_cast<double>(manifest.datasets.size()), value("mean"), 0.0051)
          << name << " " << method.label();
    }
  }
}

// The stated improvements of PQCache over the best baseline follow from the averages.
TEST(PublishedNumbers, PqCacheImprovements) {
  const struct {
    const char* manifest;
    std::string ours, best;
    double percent;
  } stated[] = {
      {"table2", "pqcache:budget=1/5,m=2,b=6", "pyramidkv:budget=1/5,comp=index", 1.74},
      {"table2", "pqcache:budget=1/10,m=2,b=6", "snapkv:budget=1/10,comp=index", 3.90},
      {"table3", "pqcache:budget=1/10,m=2,b=6", "snapkv:budget=1/10,comp=index", 7.10},
      {"table4", "pqcache:budget=1/5,m=4,b=8", "pyramidkv:budget=1/5,comp=index,comm=1/64", 1.50},
      {"table4", "pqcache:budget=1/10,m=4,b=8", "pyramidkv:budget=1/10,comp=index,comm=1/64",
       4.60}};
  for (const auto& s : stated) {
    const auto rows = numbers(fmt::format("pqcache/{}.json", s.manifest));
    const auto mean = [&](const std::string& method) {
      return number(rows, {{"method", method}, {"dataset", "mean"}}).value();
    };
    EXPECT_NEAR(100 * (mean(s.ours) / mean(s.best) - 1), s.percent, 0.0051) << s.ours;
  }
}

// The first two columns of Table 5 repeat numbers of Table 4.
TEST(PublishedNumbers, PqCacheTable5RepeatsTable4) {
  const auto table4 = numbers("pqcache/table4.json"), table5 = numbers("pqcache/table5.json");
  for (const char* method : {"full", "pqcache:budget=1/5,m=4,b=8"}) {
    for (const DatasetEntry& dataset : load_experiment("pqcache/table5.json").datasets) {
      const NamedCell cell = {{"method", method}, {"dataset", dataset.label}};
      EXPECT_EQ(number(table5, cell), number(table4, cell)) << text_of(cell);
    }
  }
}

// Other readings of Table 2 concern its methods only.
TEST(PaperManifests, PqCacheReadingsAreOfTheMethodsOfTable2) {
  std::set<std::string> methods, read_otherwise;
  for (const Method& method : load_experiment("pqcache/table2.json").methods)
    methods.insert(std::string(method.parts().front().info->name));
  EXPECT_EQ(methods.size(), 8u);
  for (const Method& method : load_experiment("pqcache/table2-readings.json").methods)
    read_otherwise.insert(std::string(method.parts().front().info->name));
  EXPECT_TRUE(
      std::includes(methods.begin(), methods.end(), read_otherwise.begin(), read_otherwise.end()));
}

}  // namespace
}  // namespace turnbench::test
