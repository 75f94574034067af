// The performance targets on a GPU, one measure per process, for tests/gpu.sh:
//   turnbench_gpu_measures MEASURE RESULTS [--small] [BACKEND=SECONDS of PyTorch's attention]...
//   turnbench_gpu_measures --list     names and limits in seconds, in the order to run them
// Prints lines of the table as they are measured and appends the same to RESULTS, one JSON object a
// line.  Exit code 3: measured, and a target is missed; 1: not measured.  --small measures a small
// model at few tokens, for a test of this program.

#include <cuda_runtime.h>
#include <fmt/format.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "common/error.h"
#include "harness/bench/bench.h"
#include "harness/bench/numbers.h"
#include "harness/bench/planted_layer.h"
#include "inference/cuda/cuda_backend.h"

namespace turnbench {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kAllLayers = 32;
constexpr int kFewLayers = 8;  // at 128K, and for comparisons of two times
// Device memory, for a GPU with 80 GB: weights, layers and lengths are chosen so that measures stay
// below this limit, which is checked before a measure and while it runs.
constexpr double kMostBytes = 60e9;
constexpr double kReservedBytes = 8e9;  // for activations, scratch memory and methods' indices

double free_bytes() {
  std::size_t free = 0, total = 0;
  const cudaError_t error = cudaMemGetInfo(&free, &total);
  if (error != cudaSuccess) throw runtime_error("cudaMemGetInfo: {}", cudaGetErrorString(error));
  return static_cast<double>(free);
}

/// Samples how much device memory has been allocated since its construction.  Ends the process if
/// this is too much: a GPU whose memory is full may hang.
class PeakMemory {
 public:
  PeakMemory()
      : free_at_first_(free_bytes()), watch_([this](const std::stop_token& stop) {
          while (!stop.stop_requested()) {
            sample();
            std::this_thread::sleep_for(std::chrono::milliseconds(200));
          }
        }) {}
  double bytes() const { return peak_; }

 private:
  void sample() {
    std::size_t free = 0, total = 0;
    if (cudaMemGetInfo(&free, &total) != cudaSuccess) return;  // the failing call reports it
    const double taken = free_at_first_ - static_cast<double>(free);
    if (taken > peak_) peak_ = taken;
    if (taken <= kMostBytes) return;
    fmt::print("device memory: found {:.1f} GB in use, expected {:.0f} GB at most\n", 1e-9 * taken,
               1e-9 * kMostBytes);
    std::fflush(stdout);
    std::_Exit(1);
  }

  const double free_at_first_;
  std::atomic<double> peak_ = 0;
  std::jthread watch_;
};

/// The lines of the table.
class Table {
 public:
  explicit Table(const std::string& path) : file_(path, std::ios::app) {
    if (!file_) throw input_error("{}: cannot be written", path);
  }

  /// `wanted` is empty if the measure has no target.
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
  void at_most(const std::string& measure, double wanted, double got, const Json& facts) {
    add(measure, fmt::format("<= {:.2f}", wanted), fmt::format("{:.3f}", got), got <= wanted,
        facts);
  }
  bool all_reached() const { return all_reached_; }

 private:
  std::ofstream file_;
  bool all_reached_ = true;
};

/// The model of a measure: a geometry, and the number of its tokens that represent 1K.
struct Setting {
  ModelConfig config;
  int tokens_of_1k = 1024;
  bool ceilings = true;            ///< whether the machine's limits are measured
  std::vector<std::string> torch;  ///< BACKEND=SECONDS

  int tokens(int thousands) const { return thousands * tokens_of_1k; }
  ModelShape shape() const {
    return {config.layers, config.heads, config.kv_heads, config.head_dim};
  }
  BenchOptions options(int tokens, const std::vector<std::string>& methods, int batch = 1) const {
    BenchOptions out;
    out.tokens = {tokens};
    out.batches = {batch};
    out.kv_dtype = DType::kBF16;
    out.ceilings = ceilings;
    for (const std::string& method : methods) out.methods.push_back(Method::parse(method));
    return out;
  }
  double kv_bytes(int layers, double tokens) const {
    return 2.0 * static_cast<double>(size_of(DType::kBF16)) * config.head_dim * config.kv_heads *
           layers * tokens;
  }
};

void check_plan(double bytes) {
  if (bytes + kReservedBytes <= kMostBytes) return;
  throw runtime_error("found a measure of {:.1f} GB, expected {:.0f} GB at most",
                      1e-9 * (bytes + kReservedBytes), 1e-9 * kMostBytes);
}

Json facts_of(const BenchRow& row) {
  return {{"method", row.method},
          {"tokens", row.tokens},
          {"batch", row.batch},
          {"seconds", row.seconds},
          {"mean_seconds", row.mean_seconds},
          {"of_ceiling", row.ceiling_share},
          {"of_dense", row.ratio_to_dense},
          {"pairs", row.pair_share}};
}

/// Some layers of a geometry, with random weights, all in bfloat16, for up to `tokens` cached
/// tokens.
struct Machine {
  Machine(const Setting& setting, int most_layers, double tokens)
      : checkpoint(first_layers(setting, most_layers, tokens)),
        backend(cuda::make_backend(0, 0)),
        model(checkpoint, *backend, DType::kBF16, Math::kF32),
        engine(model, *backend, {.kv_dtype = DType::kBF16}) {}
  static Checkpoint first_layers(const Setting& setting, int most_layers, double tokens) {
    Checkpoint out;
    out.config = setting.config;
    ModelConfig& c = out.config;
    c.layers = std::min(c.layers, most_layers);
    const double weights = c.linear_flops_per_token() / 2 + 2.0 * c.vocab * c.hidden;
    check_plan(weights * static_cast<double>(size_of(DType::kBF16)) +
               setting.kv_bytes(c.layers, tokens));
    return out;
  }
  int layers() const { return model.config().layers; }

  Checkpoint checkpoint;
  std::unique_ptr<Backend> backend;
  Model model;
  Engine engine;
};

void measure_prefill(Table& table, const Setting& s, int thousands, double wanted) {
  const int n = s.tokens(thousands);
  Machine m(s, kAllLayers, n);
  const BenchRow row = bench_prefill(m.engine, *m.backend, s.options(n, {"full"}))[0];
  table.at_least(fmt::format("prefill of {}K tokens, share of matrix rate", thousands), wanted,
                 row.ceiling_share, facts_of(row));
}

void measure_decode(Table& table, const Setting& s, int thousands, int layers) {
  const int n = s.tokens(thousands);
  Machine m(s, layers, n);
  const BenchRow row = bench_decode(m.engine, *m.backend, s.options(n, {"full"}))[0];
  table.at_least(
      fmt::format("decode at {}K, {} layers, batch 1, share of bandwidth", thousands, m.layers()),
      0.8, row.ceiling_share, facts_of(row));
}

/// How a method is compared with full attention.
struct Comparison {
  std::string method;
  int layers = kFewLayers;
  int batch = 1;
  int steps = 8;        ///< of a repeat; the mean step counts
  double wanted = 1.0;  ///< as a share of full attention's time, at most
};

/// Decode at 128K: keys and values are half of the bytes that a step of full attention reads with
/// one sequence.  No method can take a smaller share of the time than that of the weights.
void measure_method(Table& table, const Setting& s, const Comparison& what) {
  const int n = s.tokens(128);
  const double all_tokens = static_cast<double>(n) * what.batch;
  Machine m(s, what.layers, all_tokens);
  BenchOptions options = s.options(n, {"full", what.method}, what.batch);
  options.decode_steps = what.steps;
  options.repeats = 2;
  const std::vector<BenchRow> rows = bench_decode(m.engine, *m.backend, options);
  const auto weights = static_cast<double>(m.model.decode_step_weight_bytes());
  const Json facts = {{"full", facts_of(rows[0])},
                      {"method", facts_of(rows[1])},
                      {"layers", m.layers()},
                      {"least_possible", weights / (weights + s.kv_bytes(m.layers(), all_tokens))}};
  table.at_most(fmt::format("decode at 128K, {} layers, batch {}: {} / full", m.layers(),
                            what.batch, what.method),
                what.wanted, median(rows[1].mean_seconds) / median(rows[0].mean_seconds), facts);
}

void measure_attention(Table& table, const Setting& s) {
  const int n = s.tokens(32);
  check_plan(s.kv_bytes(1, n));
  const auto backend = cuda::make_backend(0, 0);
  const BenchRow row = bench_attention(s.shape(), *backend, s.options(n, {"full"}))[0];
  table.add("dense attention of 32K", "", fmt::format("{:.2f} ms", 1e3 * row.median_seconds()),
            false, facts_of(row));
  for (const std::string& torch : s.torch) {
    const std::size_t equals = torch.find('=');
    if (equals == std::string::npos) throw input_error("found {}, expected BACKEND=SECONDS", torch);
    const std::string name = torch.substr(0, equals), seconds = torch.substr(equals + 1);
    const std::string measure = fmt::format("dense attention of 32K, speed / PyTorch's {}", name);
    if (seconds.empty()) {
      table.add(measure, "", "unavailable", false, Json::object());
    } else {
      Json facts = facts_of(row);
      facts["torch_backend"] = name;
      facts["torch_seconds"] = std::stod(seconds);
      table.at_least(measure, 0.7, std::stod(seconds) / row.median_seconds(), facts);
    }
  }
}

/// The largest number of lines that covers at most 5% of the pairs of the planted layer.
std::string five_percent(Backend& backend, const Setting& s, int tokens) {
  PlantedLayer layer(backend, s.shape(), tokens, DType::kBF16);
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

void measure_sparse(Table& table, const Setting& s) {
  const int n = s.tokens(128);
  check_plan(s.kv_bytes(1, n));
  const auto backend = cuda::make_backend(0, 0);
  const std::string method = five_percent(*backend, s, n);
  const BenchRow row = bench_attention(s.shape(), *backend, s.options(n, {method}))[0];
  table.at_least(
      fmt::format("vertical+slash at 128K, {:.1f}% of pairs: dense / sparse", 100 * row.pair_share),
      8, 1 / row.ratio_to_dense, facts_of(row));
}

/// LoopServe's Figure 6: time of the prefill and of a decode step, by length.
void measure_loopserve(Table& table, const Setting& s, int thousands) {
  const int n = s.tokens(thousands);
  Machine m(s, kFewLayers, n);
  BenchOptions options = s.options(n, {"full", "loopserve"});
  options.repeats = 1;
  options.decode_steps = 16;  // its interval between selections
  const auto add = [&](const char* what, const std::vector<BenchRow>& rows, double of_loopserve,
                       double of_full) {
    const Json facts = {
        {"full", facts_of(rows[0])}, {"loopserve", facts_of(rows[1])}, {"layers", m.layers()}};
    table.add(
        fmt::format("{} at {}K, {} layers: loopserve / full, ms", what, thousands, m.layers()), "",
        fmt::format("{:.1f}/{:.1f}", 1e3 * of_loopserve, 1e3 * of_full), false, facts);
  };
  std::vector<BenchRow> rows = bench_prefill(m.engine, *m.backend, options);
  add("prefill", rows, rows[1].median_seconds(), rows[0].median_seconds());
  rows = bench_decode(m.engine, *m.backend, options);
  add("decode", rows, median(rows[1].mean_seconds), median(rows[0].mean_seconds));
}

struct Measure {
  const char* name;
  int seconds;  ///< limit on a GPU, for tests/gpu.sh
  void (*run)(Table&, const Setting&);
};

/// In descending order of importance.
constexpr std::array kMeasures = {
    Measure{"decode-4k", 60,
            [](Table& t, const Setting& s) { measure_decode(t, s, 4, kAllLayers); }},
    Measure{"prefill-8k", 60, [](Table& t, const Setting& s) { measure_prefill(t, s, 8, 0.65); }},
    Measure{"attention-32k", 40, measure_attention},
    Measure{"decode-128k", 60,
            [](Table& t, const Setting& s) { measure_decode(t, s, 128, kFewLayers); }},
    Measure{"quest-128k", 60, [](Table& t, const Setting& s) { measure_method(t, s, {"quest"}); }},
    Measure{"snapkv-128k", 60,
            [](Table& t, const Setting& s) { measure_method(t, s, {"snapkv"}); }},
    // Clustering takes long, and steps transfer the tokens that they read from the host.
    Measure{"pqcache-128k", 60,
            [](Table& t, const Setting& s) {
              measure_method(t, s, {.method = "pqcache", .layers = 4, .steps = 4});
            }},
    Measure{"loopserve-128k", 60,
            [](Table& t, const Setting& s) {
              measure_method(t, s, {.method = "loopserve", .steps = 16});
            }},
    Measure{"prefill-32k", 60, [](Table& t, const Setting& s) { measure_prefill(t, s, 32, 0.55); }},
    // Keys and values are four fifths of the bytes that a step of full attention reads.
    Measure{"snapkv-128k-batch-4", 60,
            [](Table& t, const Setting& s) {
              measure_method(t, s, {.method = "snapkv", .batch = 4, .wanted = 0.33});
            }},
    Measure{
        "quest-128k-batch-4", 60,
        [](Table& t, const Setting& s) { measure_method(t, s, {.method = "quest", .batch = 4}); }},
    Measure{"sparse-128k", 60, measure_sparse},
    Measure{"loopserve-4k", 30, [](Table& t, const Setting& s) { measure_loopserve(t, s, 4); }},
    Measure{"loopserve-8k", 30, [](Table& t, const Setting& s) { measure_loopserve(t, s, 8); }},
    Measure{"loopserve-16k", 30, [](Table& t, const Setting& s) { measure_loopserve(t, s, 16); }},
    Measure{"loopserve-32k", 30, [](Table& t, const Setting& s) { measure_loopserve(t, s, 32); }},
    Measure{"loopserve-64k", 30, [](Table& t, const Setting& s) { measure_loopserve(t, s, 64); }},
};

ModelConfig geometry(const char* file) {
  return Checkpoint::open(fmt::format("random:{}/{}", TURNBENCH_SOURCE_DIR, file)).config;
}

int run(const std::vector<std::string>& arguments) {
  if (arguments == std::vector<std::string>{"--list"}) {
    for (const Measure& measure : kMeasures) fmt::print("{} {}\n", measure.name, measure.seconds);
    return 0;
  }
  if (arguments.size() < 2) throw input_error("found no MEASURE and RESULTS, expected both");
  const auto measure = std::find_if(kMeasures.begin(), kMeasures.end(),
                                    [&](const Measure& m) { return m.name == arguments[0]; });
  if (measure == kMeasures.end())
    throw input_error("MEASURE: found {}, expected one of those of --list", arguments[0]);
  Setting setting;
  const bool small = arguments.size() > 2 && arguments[2] == "--small";
  setting.config = geometry(small ? "models/tiny/config.json" : "tests/bench/llama-3.1-8b.json");
  if (small) {
    setting.tokens_of_1k = 2;
    setting.ceilings = false;  // measuring them takes hours on the emulation
  }
  setting.torch.assign(arguments.begin() + (small ? 3 : 2), arguments.end());

  Table table(arguments[1]);
  const PeakMemory peak;
  measure->run(table, setting);
  const double bytes = peak.bytes();
  table.add(fmt::format("{}: device memory, at most", measure->name),
            fmt::format("<= {:.0f} GB", 1e-9 * kMostBytes), fmt::format("{:.1f} GB", 1e-9 * bytes),
            bytes <= kMostBytes, {{"bytes", bytes}});
  return table.all_reached() ? 0 : 3;
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
