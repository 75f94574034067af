// Benchmarks of text code: scores per second of every metric on two texts of 500 words, and MB/s
// (10^6 bytes) of reading LongBench's files.

#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "common/error.h"
#include "common/file.h"
#include "common/json.h"
#include "common/random.h"
#include "datasets/filler.h"
#include "datasets/longbench.h"
#include "metrics/metric.h"
#include "metrics/segmenter.h"

namespace turnbench {
namespace {

namespace fs = std::filesystem;

/// `words` synthetic words of prose in sentences.  `shared` percent of the sentences occur, in the
/// same order, in every text with the same seed.
std::string prose(std::size_t words, std::uint64_t shared, std::uint64_t own_seed) {
  Random common(1), own(own_seed);
  const SentenceGenerator common_sentences = random_sentences(common);
  const SentenceGenerator own_sentences = random_sentences(own);
  std::string out;
  for (std::size_t n = 0; n < words; n = count_words_and_marks(out)) {
    const std::string sentence = common_sentences();
    out += (own.below(100) < shared ? sentence : own_sentences()) + " ";
  }
  return out;
}

/// A reference that the metric accepts.
std::string reference_for(std::string_view metric) {
  if (metric == "retrieval") return "Paragraph 4";
  if (metric == "retrieval_zh") return "段落4";
  for (std::string_view part : {"gsm8k", "length", "code_run", "math_", "_mf"}) {
    if (metric.find(part) != std::string_view::npos) return "500";
  }
  return prose(500, 50, 3);
}

void Score(benchmark::State& state, const Metric& metric) {
  const Segmenter segmenter =
      Segmenter::from_jieba(TURNBENCH_SOURCE_DIR "/tests/data/metrics/jieba");
  const std::string prediction = prose(500, 50, 2);
  std::vector<std::string> references = {reference_for(metric.name)};
  if (metric.name == "infinitebench_code_debug") references.push_back("A");
  const std::vector<std::string> classes = {"Food", "Date", "Location", "Other entity"};
  const ScoringInput scored{prediction, references, classes, &segmenter};
  try {
    metric.score(scored);
  } catch (const Error& error) {
    return state.SkipWithError(error.what());
  }
  for (auto _ : state) benchmark::DoNotOptimize(metric.score(scored));
  state.SetItemsProcessed(state.iterations());
}

/// 32 MB of records whose contexts, like LongBench's, are paragraphs with some line ends, quotes
/// and non-ASCII characters.
fs::path longbench_file() {
  const fs::path path = fs::temp_directory_path() / "turnbench_bench_hotpotqa.jsonl";
  std::string context;
  Random random(5);
  const SentenceGenerator sentences = random_sentences(random);
  while (context.size() < 50'000) {
    context += sentences();
    context += random.below(8) == 0   ? " He said: \"“Déjà vu”\".\n"
               : random.below(4) == 0 ? "\n"
                                      : " ";
  }
  OrderedJson record = {{"input", "Where was the old clock?"}, {"context", context}};
  record["answers"] = std::vector<std::string>{"at the market", "in the market square"};
  record.update(
      {{"length", 9000}, {"dataset", "hotpotqa"}, {"language", "en"}, {"all_classes", nullptr}});
  std::string out;
  for (int i = 0; out.size() < 32'000'000; ++i) {
    record["_id"] = fmt::format("record-{}", i);
    out += record.dump() + "\n";
  }
  write_file(path, out);
  return path;
}

void ReadLongBench(benchmark::State& state) {
  const fs::path path = longbench_file();
  const auto bytes = static_cast<double>(fs::file_size(path));
  for (auto _ : state) benchmark::DoNotOptimize(read_longbench(path, "hotpotqa"));
  state.counters["MB/s"] =
      benchmark::Counter(bytes * 1e-6, benchmark::Counter::kIsIterationInvariantRate);
  fs::remove(path);
}

BENCHMARK(ReadLongBench)->Unit(benchmark::kMillisecond);

const bool registered = [] {
  for (const Metric& metric : all_metrics()) {
    benchmark::RegisterBenchmark(fmt::format("Score/{}", metric.name).c_str(),
                                 [&metric](benchmark::State& state) { Score(state, metric); })
        ->Unit(benchmark::kMicrosecond);
  }
  return true;
}();

}  // namespace
}  // namespace turnbench
