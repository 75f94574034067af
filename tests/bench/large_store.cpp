// Writes a store of synthetic results of any size, for tests/bench/report.sh and store.sh:
//   turnbench_large_store FILE [cells [dialogues [turns [shard shards]]]]
// The cells are methods by four datasets; each has all dialogues of its dataset, or those of one
// shard.  Each record has three scores, six counters and two timings.  Scores are between 0 and 1,
// differ by dialogue and method, and are the same in every run.
//   turnbench_large_store --scan FILE
// measures the time in which a run with nothing to do reads the store.

#include <fmt/format.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "common/json.h"
#include "common/random.h"
#include "harness/store/shard.h"
#include "harness/store/stale.h"
#include "harness/store/store.h"

namespace {

using namespace turnbench;  // NOLINT: a program, not a header

constexpr int kDatasets = 4;

std::string method_name(int method) {
  return method == 0 ? "full" : fmt::format("snapkv:budget={}", 16 * method);
}

std::string dataset_name(int dataset) {
  return fmt::format("set{}", dataset);
}

/// A cell's key: 16 hexadecimal digits without an apparent order.
std::string key_of(std::string_view what, int number) {
  return fmt::format("{:016x}",
                     Random::from({seed_of(what), static_cast<std::uint64_t>(number)}).next());
}

StoredExperiment make_experiment(int cells, int dialogues, int turns) {
  StoredExperiment out;
  out.name = "large";
  out.title = "Made up";
  OrderedJson manifest = {{"name", "large"}, {"models", {"tiny"}}};
  for (int d = 0; d < kDatasets; ++d)
    manifest["datasets"].push_back({{"name", "tiny-fact"}, {"label", dataset_name(d)}});
  for (int m = 0; m < cells / kDatasets; ++m) manifest["methods"].push_back(method_name(m));
  manifest["tables"] = {
      {{"rows", {"method"}}, {"columns", {"dataset"}}, {"difference_to", "full"}}};
  out.manifest = manifest.dump();
  out.directory = "/";
  out.environment = environment_card();
  out.models = {{"model", "made up"}};
  for (int d = 0; d < kDatasets; ++d) {
    out.datasets.emplace_back(dataset_name(d), "made up");
    for (int i = 0; i < dialogues; ++i)
      out.dialogues.push_back({dataset_name(d), key_of(dataset_name(d), i), turns, "{}"});
  }
  for (int c = 0; c < cells; ++c) {
    Cell cell;
    cell.key = key_of("cell", c);
    cell.model = "tiny";
    cell.dataset = cell.dataset_hash = dataset_name(c % kDatasets);
    cell.task = "qa";
    cell.position = "end";
    cell.method = cell.method_canonical = method_name(c / kDatasets);
    cell.history = "reprefill";
    cell.answers = "own";
    cell.metric = "qa_f1";
    cell.postprocess = "none";
    cell.model_hash = "model";
    cell.protocol = cell.dataset;
    cell.protocol_text = "{}";
    out.cells.push_back(cell);
  }
  return out;
}

void write_results(Store& store, const StoredExperiment& experiment, int dialogues, int turns,
                   Shard shard) {
  for (std::size_t c = 0; c < experiment.cells.size(); ++c) {
    const Cell& cell = experiment.cells[c];
    std::vector<Record> records;
    std::vector<ScoreValue> scores;
    for (int d = shard.index - 1; d < dialogues; d += shard.count) {
      Random of_dialogue = Random::from({seed_of(cell.dataset), static_cast<std::uint64_t>(d)});
      Random own = Random::from({seed_of(cell.key), static_cast<std::uint64_t>(d)});
      for (int t = 0; t < turns; ++t) {
        Record r;
        r.cell = cell.key;
        r.dialogue = key_of(cell.dataset, d);
        r.turn = t;
        r.answer = "the answer that a method gave, in some words";
        r.answer_tokens = {11, 223, 45, 6, 1780, 91, 2};
        r.prompt_hash = key_of("prompt", d);
        r.prompt_tokens = 1024;
        r.counters = {{"attended_tokens", 256.5}, {"kv_tokens", 256.},
                      {"kv_bytes", 1 << 20},      {"prefill_pairs_share", .875},
                      {"resident_kv_bytes", 1e6}, {"rounds", 2.}};
        r.timings = {{"prefill_share", own.uniform()}, {"decode_share", own.uniform()}};
        const double base = of_dialogue.uniform();
        const double level = own.below(4) == 0 ? own.uniform() : base;
        for (const char* metric : {"qa_f1", "exact_match", "rouge_l"}) {
          scores.push_back({cell.key, r.dialogue, t, metric, "none",
                            level < .3   ? 0
                            : level > .6 ? 1
                                         : level});
        }
        records.push_back(std::move(r));
      }
    }
    store.add_records(records, scores);
  }
}

/// Prints the seconds that `read` takes.
template <typename Read>
void time_of(const char* what, const Read& read) {
  const auto begin = std::chrono::steady_clock::now();
  read();
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  fmt::print("{}: {:.2f} s\n", what, took.count());
}

void scan(const char* file) {
  const Store store = Store::open(file);
  time_of("stale results", [&] { stale_cells(store, "large"); });
  time_of("failures", [&] { store.failures("large"); });
  time_of("stored results", [&] {
    for (const Cell& cell : store.cells("large")) store.stored_results(cell.key);
  });
}

int number(int argc, char** argv, int index, int fallback) {
  const int out = argc > index ? std::atoi(argv[index]) : fallback;
  return out > 0 ? out : fallback;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    fmt::print(stderr, "turnbench_large_store FILE [cells [dialogues [turns [shard shards]]]]\n");
    return 2;
  }
  if (argc == 3 && std::string_view(argv[1]) == "--scan") {
    scan(argv[2]);
    return 0;
  }
  const int cells = number(argc, argv, 2, 2000), dialogues = number(argc, argv, 3, 500),
            turns = number(argc, argv, 4, 1);
  const Shard shard = {number(argc, argv, 5, 1), number(argc, argv, 6, 1)};
  std::filesystem::remove(argv[1]);
  Store store = Store::create(argv[1]);
  const StoredExperiment experiment = make_experiment(cells, dialogues, turns);
  store.add_experiment(experiment);
  write_results(store, experiment, dialogues, turns, shard);
  store.summaries(experiment.name);  // as a run does at its end
  return 0;
}
