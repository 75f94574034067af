// What is to be reached on a card, one part a run, for tests/gpu.sh:
//   turnbench_gpu_measures PART RESULTS [seconds of PyTorch's attention]
// Prints lines of the table as they are measured and appends the same to RESULTS, one JSON object a
// line.  Exit code 1: something is not reached.

#include <fmt/format.h>

#include <cmath>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>

#include "common/error.h"
#include "harness/bench/bench.h"
#include "harness/bench/planted_layer.h"
#include "inference/cuda/cuda_backend.h"

namespace turnbench {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kAllLayers = 32;
constexpr int kFewLayers = 8;  // where time is compared with time, and 128K tokens must be made up

/// The lines of the table.
class Table {
 public:
  explicit Table(const std::string& path) : file_(path, std::ios::app) {}

  /// `wanted` is empty where something is only measured.
  void add(const std::string& measure, const std::string& wanted, const std::string& got,
           bool reached, const Json& facts) {
    fmt::print("{:<62} {:>12} {:>12}  {}\n", measure, wanted, got,
               wanted.empty() ? "measured"
               : reached      ? "reached"
                              : "NOT REACHED");
    std::fflush(stdout);
    Json line = {{"measure", measure}, {"wanted", wanted}, {"got", got}};
    line["reached"] = wanted.empty() ? Json(nullptr) : Json(reached);
    line["facts"] = facts;
    file_ << line.dump() << std::endl;
    all_reached_ = all_reached_ && (wanted.empty() || reached);
  }
  void at_least(const std::string& measure, double wanted, double got, const Json& facts) {
    add(measure, fmt::format(">= {:.2f}", wanted), fmt::format("{:.3f}", got), got >= wanted,
        facts);
  }
  bool all_reached() const { return all_reached_; }

 private:
  std::ofstream file_;
  bool all_reached_ = true;
};

Json facts_of(const BenchRow& row) {
  return {{"method", row.method},
          {"tokens", row.tokens},
          {"batch", row.batch},
          {"seconds", row.seconds},
          {"of_ceiling", row.ceiling_share},
          {"of_dense", row.ratio_to_dense},
          {"pairs", row.pair_share}};
}

BenchOptions options_of(std::vector<int> tokens, const std::vector<std::string>& methods) {
  BenchOptions out;
  out.tokens = std::move(tokens);
  out.batches = {1};
  out.kv_dtype = DType::kBF16;
  for (const std::string& method : methods) out.methods.push_back(Method::parse(method));
  return out;
}

ModelConfig geometry() {
  return Checkpoint::open("random:" TURNBENCH_SOURCE_DIR "/tests/bench/llama-3.1-8b.json").config;
}

/// Llama-3.1-8B with some of its layers and random weights, all in bfloat16.
struct Machine {
  explicit Machine(int layers)
      : backend(cuda::make_backend(0, 0)),
        model(checkpoint(layers), *backend, DType::kBF16),
        engine(model, *backend, {.kv_dtype = DType::kBF16}) {}
  static Checkpoint checkpoint(int layers) {
    Checkpoint out;
    out.config = geometry();
    out.config.layers = layers;
    return out;
  }
  std::unique_ptr<Backend> backend;
  Model model;
  Engine engine;
};

std::string thousands(int tokens) {
  return fmt::format("{}K", tokens / 1024);
}

void measure_prefill(Table& table) {
  Machine m(kAllLayers);
  for (const auto& [tokens, wanted] : {std::pair(8192, 0.65), std::pair(32768, 0.55)}) {
    const BenchRow row = bench_prefill(m.engine, *m.backend, options_of({tokens}, {"full"}))[0];
    table.at_least(fmt::format("prefill of {} tokens, share of matrix rate", thousands(tokens)),
                   wanted, row.ceiling_share, facts_of(row));
  }
}

void measure_decode(Table& table) {
  Machine m(kAllLayers);
  const BenchRow row = bench_decode(m.engine, *m.backend, options_of({4096}, {"full"}))[0];
  table.at_least("decode at 4K, batch 1, share of bandwidth", 0.8, row.ceiling_share,
                 facts_of(row));
}

/// With one sequence the weights are half of what a step of full attention reads: no method can
/// take less than their share.
void measure_long_decode(Table& table) {
  constexpr int kDepth = 131072;
  Machine m(kFewLayers);
  const ModelConfig& c = m.model.config();
  for (int batch : {1, 4}) {
    BenchOptions options = options_of({kDepth}, {"full", "snapkv:budget=1024"});
    options.batches = {batch};
    const std::vector<BenchRow> rows = bench_decode(m.engine, *m.backend, options);
    const double ratio = rows[1].median_seconds() / rows[0].median_seconds();
    const auto weights = static_cast<double>(m.model.decode_step_weight_bytes());
    const double kv = 2.0 * static_cast<double>(size_of(DType::kBF16)) * c.head_dim * c.kv_heads *
                      c.layers * kDepth * batch;
    const Json facts = {{"full", facts_of(rows[0])},
                        {"snapkv", facts_of(rows[1])},
                        {"layers", c.layers},
                        {"least_possible", weights / (weights + kv)}};
    table.add(
        fmt::format("decode at 128K, {} layers, batch {}: snapkv of 1K / full", c.layers, batch),
        batch == 1 ? "" : "<= 0.33", fmt::format("{:.3f}", ratio), ratio <= 1.0 / 3, facts);
  }
}

ModelShape shape() {
  const ModelConfig c = geometry();
  return {c.layers, c.heads, c.kv_heads, c.head_dim};
}

void measure_attention(Table& table, double torch_seconds) {
  const auto backend = cuda::make_backend(0, 0);
  const BenchRow row = bench_attention(shape(), *backend, options_of({32768}, {"full"}))[0];
  Json facts = facts_of(row);
  facts["torch_seconds"] = torch_seconds;
  const std::string measure = "dense attention of 32K, D 128, speed / PyTorch's SDPA";
  if (torch_seconds > 0) {
    table.at_least(measure, 0.7, torch_seconds / row.median_seconds(), facts);
  } else {
    table.add(measure + " (no PyTorch)", "", fmt::format("{:.2f} ms", 1e3 * row.median_seconds()),
              false, facts);
  }
}

/// The most lines of which the planted layer's pairs are 5% or less.
std::string five_percent(Backend& backend, int tokens) {
  PlantedLayer layer(backend, shape(), tokens, DType::kBF16);
  std::string best;
  for (int lines = 125; lines <= 8000; lines += lines / 4) {
    const std::string method = fmt::format("minference:vertical={},slash={}", lines, lines);
    const Policies policies = Method::parse(method).make();
    layer.run(policies.prefill.get());
    const double pairs = layer.pairs() / layer.dense_pairs();
    if (pairs > 0.05) break;
    best = method;
  }
  if (best.empty()) throw runtime_error("found no lines with 5% of the pairs");
  return best;
}

void measure_sparse(Table& table) {
  constexpr int kTokens = 131072;
  const auto backend = cuda::make_backend(0, 0);
  const std::string method = five_percent(*backend, kTokens);
  const BenchRow row = bench_attention(shape(), *backend, options_of({kTokens}, {method}))[0];
  table.at_least(
      fmt::format("vertical+slash at 128K, {:.1f}% of pairs: dense / sparse", 100 * row.pair_share),
      8, 1 / row.ratio_to_dense, facts_of(row));
}

/// LoopServe's Figure 6: time of the prefill and of a decode step, by length.
void measure_loopserve(Table& table) {
  Machine m(kFewLayers);
  for (int tokens : {4096, 8192, 16384, 32768, 65536}) {
    BenchOptions options = options_of({tokens}, {"full", "loopserve"});
    options.repeats = 1;
    for (const auto& [what, rows] :
         {std::pair("prefill", bench_prefill(m.engine, *m.backend, options)),
          std::pair("decode", bench_decode(m.engine, *m.backend, options))}) {
      const Json facts = {{"full", facts_of(rows[0])},
                          {"loopserve", facts_of(rows[1])},
                          {"layers", m.model.config().layers}};
      table.add(fmt::format("{} at {}, {} layers: loopserve / full, ms", what, thousands(tokens),
                            m.model.config().layers),
                "",
                fmt::format("{:.1f}/{:.1f}", 1e3 * rows[1].median_seconds(),
                            1e3 * rows[0].median_seconds()),
                false, facts);
    }
  }
}

int run(const std::vector<std::string>& arguments) {
  if (arguments.size() < 2) throw input_error("found no PART and RESULTS, expected both");
  const std::string& part = arguments[0];
  Table table(arguments[1]);
  if (part == "prefill") {
    measure_prefill(table);
  } else if (part == "decode") {
    measure_decode(table);
  } else if (part == "long-decode") {
    measure_long_decode(table);
  } else if (part == "attention") {
    measure_attention(table, arguments.size() > 2 ? std::stod(arguments[2]) : 0);
  } else if (part == "sparse") {
    measure_sparse(table);
  } else if (part == "loopserve") {
    measure_loopserve(table);
  } else {
    throw input_error(
        "PART: found {}, expected prefill, decode, long-decode, attention, sparse or loopserve",
        part);
  }
  return table.all_reached() ? 0 : 1;
}

}  // namespace
}  // namespace turnbench

int main(int argc, char** argv) {
  try {
    return turnbench::run({argv + 1, argv + argc});
  } catch (const std::exception& e) {
    fmt::print(stderr, "turnbench_gpu_measures: {}\n", e.what());
    return 1;
  }
}
