#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>

#include "cli/cli.h"
#include "cli/input_output.h"
#include "cli/shared_options.h"
#include "common/error.h"
#include "common/text.h"
#include "harness/bench/bench.h"
#include "inference/cpu/simd.h"

namespace turnbench {
namespace {

struct Options {
  std::string what;
  ModelOptions model;
  std::string tokens, depth, new_tokens, batch = "1", simd;
  std::vector<std::string> methods;
  int repeats = 3, layers = 0;
  bool profile = false;
};

std::vector<int> lengths(const Options& o) {
  const bool decodes = o.what == "decode" || o.what == "selection";
  if (decodes ? !o.tokens.empty() : !o.depth.empty()) {
    throw input_error("{}: found it with {}, expected {}", decodes ? "--tokens" : "--depth", o.what,
                      decodes ? "--depth, the tokens in the cache" : "--tokens");
  }
  if (o.what == "selection") {
    if (o.batch != "1")
      throw input_error("--batch: found \"{}\" with selection, expected none: it is one sequence",
                        o.batch);
    return number_list(o.depth.empty() ? "2048,8192" : o.depth, "--depth", 1);
  }
  if (decodes) return number_list(o.depth.empty() ? "0,2048,8192" : o.depth, "--depth", 0);
  return number_list(o.tokens.empty() ? "512,2048" : o.tokens, "--tokens", 1);
}

/// Lengths of answers for throughput.
std::vector<int> answer_lengths(const Options& o) {
  if (o.what != "throughput") {
    if (!o.new_tokens.empty())
      throw input_error("--new-tokens: found it with {}, expected it with throughput", o.what);
    return {};
  }
  return number_list(o.new_tokens.empty() ? "64" : o.new_tokens, "--new-tokens", 2);
}

OrderedJson throughput_to_json(const BenchRow& row) {
  OrderedJson out;
  out["what"] = row.benchmark;
  out["method"] = row.method;
  out["tokens"] = row.tokens;
  out["new_tokens"] = row.new_tokens;
  out["batch"] = row.batch;
  if (!row.failure.empty()) {
    out["error"] = row.failure;
    return out;
  }
  const auto [fastest, slowest] = std::minmax_element(row.seconds.begin(), row.seconds.end());
  out["seconds"] = {{"median", row.median_seconds()}, {"min", *fastest}, {"max", *slowest}};
  out["tokens_per_s"] = {{"median", row.tokens_per_run / row.median_seconds()},
                         {"min", row.tokens_per_run / *slowest},
                         {"max", row.tokens_per_run / *fastest}};
  out["decode_tokens_per_s"] = row.decode_rate();
  out["best"] = row.best;
  return out;
}

/// The time outside of all phases.
double other_seconds(const BenchRow& row) {
  const PhaseSeconds phases = row.profile->total();
  return row.profiled_seconds - std::accumulate(phases.begin(), phases.end(), 0.0);
}

OrderedJson to_json(const PhaseSeconds& phases) {
  OrderedJson out;
  for (std::size_t i = 0; i < phases.size(); ++i) out[kPhaseNames[i]] = phases[i];
  return out;
}

OrderedJson profile_to_json(const BenchRow& row) {
  OrderedJson out;
  out["seconds"] = row.profiled_seconds;
  out["phases"] = to_json(row.profile->total());
  out["phases"]["other"] = other_seconds(row);
  out["layers"] = OrderedJson::array();
  for (const PhaseSeconds& layer : row.profile->layers()) out["layers"].push_back(to_json(layer));
  return out;
}

OrderedJson to_json(const BenchRow& row) {
  if (row.benchmark == "throughput") return throughput_to_json(row);
  const auto [fastest, slowest] = std::minmax_element(row.seconds.begin(), row.seconds.end());
  const auto share = [](double x) { return x > 0 ? OrderedJson(x) : OrderedJson(nullptr); };
  OrderedJson out;
  out["what"] = row.benchmark;
  out["method"] = row.method;
  out[row.benchmark == "decode" ? "depth" : "tokens"] = row.tokens;
  out["batch"] = row.batch;
  out["seconds"] = {{"median", row.median_seconds()}, {"min", *fastest}, {"max", *slowest}};
  out["tokens_per_s"] = {{"median", row.tokens_per_run / row.median_seconds()},
                         {"min", row.tokens_per_run / *slowest},
                         {"max", row.tokens_per_run / *fastest}};
  out["of_ceiling"] = share(row.ceiling_share);
  out["of_dense"] = share(row.ratio_to_dense);
  out["pairs"] = row.pair_share;
  if (row.profile) out["profile"] = profile_to_json(row);
  return out;
}

void print(const std::vector<BenchRow>& rows, const Options& o) {
  const auto percent = [](double x) {
    return x > 0 ? fmt::format("{:.1f}%", 100 * x) : std::string("-");
  };
  const std::string ceiling = o.what == "decode"       ? "of bandwidth"
                              : o.what == "statistics" ? "of peak"
                                                       : "of FMA peak";
  fmt::print("{:<11} {:<36} {:>7} {:>5} {:>11} {:>10} {:>10} {:>12} {:>8} {:>8}\n", "what",
             "method", o.what == "decode" ? "depth" : "tokens", "batch", "tokens/s", "median ms",
             "min ms", ceiling, "of dense", "pairs");
  for (const BenchRow& row : rows) {
    fmt::print("{:<11} {:<36} {:>7} {:>5} {:>11.1f} {:>10.3f} {:>10.3f} {:>12} {:>8} {:>8}\n",
               row.benchmark, row.method, row.tokens, row.batch,
               row.tokens_per_run / row.median_seconds(), 1e3 * row.median_seconds(),
               1e3 * *std::min_element(row.seconds.begin(), row.seconds.end()),
               percent(row.ceiling_share), percent(row.ratio_to_dense), percent(row.pair_share));
  }
}

/// The share of each phase in the time of a run.
void print_profiles(const std::vector<BenchRow>& rows, const Options& o) {
  fmt::print("\nshare of each phase in %\n{:<11} {:<36} {:>7} {:>5}", "what", "method",
             o.what == "decode" ? "depth" : "tokens", "batch");
  for (const char* phase : kPhaseNames) fmt::print(" {:>7}", phase);
  fmt::print(" {:>7}\n", "other");
  for (const BenchRow& row : rows) {
    fmt::print("{:<11} {:<36} {:>7} {:>5}", row.benchmark, row.method, row.tokens, row.batch);
    const auto share = [&](double seconds) {
      fmt::print(" {:>7.1f}", 100 * seconds / row.profiled_seconds);
    };
    for (double seconds : row.profile->total()) share(seconds);
    share(other_seconds(row));
    fmt::print("\n");
  }
}

void print_throughput(const std::vector<BenchRow>& rows) {
  fmt::print("{:<11} {:<36} {:>7} {:>7} {:>5} {:>11} {:>15} {:>10} {:>10}\n", "what", "method",
             "tokens", "answer", "batch", "tokens/s", "decode tokens/s", "median s", "min s");
  for (const BenchRow& row : rows) {
    fmt::print("{:<11} {:<36} {:>7} {:>7} {:>5} ", row.benchmark, row.method, row.tokens,
               row.new_tokens, row.batch);
    if (!row.failure.empty()) {
      fmt::print("{:>11}: {}\n", "no room", row.failure);
      continue;
    }
    fmt::print("{:>11.1f} {:>15.1f} {:>10.3f} {:>10.3f}{}\n",
               row.tokens_per_run / row.median_seconds(), row.decode_rate(), row.median_seconds(),
               *std::min_element(row.seconds.begin(), row.seconds.end()),
               row.best ? "  best batch" : "");
  }
}

void print_selection(const std::vector<SelectionRow>& rows, const std::string& model, int layers,
                     int measured, const Backend& backend, bool json) {
  if (!json) {
    fmt::print("attention of a decode step of {} on {}: {} layers{}\n", model,
               backend.description(), layers,
               measured == layers
                   ? ""
                   : fmt::format(", {} measured; the last of these represents the remaining ones",
                                 measured));
    fmt::print("{:<44} {:>7} {:>13} {:>8} {:>10} {:>10} {:>10} {:>7}\n", "method", "depth",
               "attention ms", "of full", "MB read", "MB index", "MB moved", "recall");
    for (const SelectionRow& row : rows) {
      fmt::print("{:<44} {:>7} {:>13.3f} {:>8.3f} {:>10.2f} {:>10} {:>10.2f} {:>7}\n", row.method,
                 row.depth, 1e3 * row.median_seconds(), row.of_full, row.bytes_read / 1e6,
                 row.index_bytes ? fmt::format("{:.2f}", *row.index_bytes / 1e6) : "-",
                 row.bytes_moved / 1e6, row.recall ? fmt::format("{:.3f}", *row.recall) : "-");
    }
    return;
  }
  OrderedJson out;
  out["model"] = model;
  out["backend"] = backend.description();
  out["layers"] = layers;
  out["layers_measured"] = measured;
  out["rows"] = OrderedJson::array();
  for (const SelectionRow& row : rows) {
    out["rows"].push_back(
        {{"method", row.method},
         {"depth", row.depth},
         {"attention_ms", 1e3 * row.median_seconds()},
         {"of_full", row.of_full},
         {"bytes_read", row.bytes_read},
         {"index_bytes", row.index_bytes ? OrderedJson(*row.index_bytes) : nullptr},
         {"bytes_moved", row.bytes_moved},
         {"recall", row.recall ? OrderedJson(*row.recall) : nullptr}});
  }
  fmt::print("{}\n", dump(out));
}

/// Refuses methods in which a layer selects for others: their layers cannot represent each other.
void refuse_shared_selections(const Method& method, const ModelConfig& c) {
  const auto* ahead = capability<SelectsAhead>(method.policies().selection.get());
  for (int l = 0; ahead != nullptr && l < c.layers; ++l) {
    if (ahead->known_after(l, {c.layers, c.heads, c.kv_heads, c.head_dim}).end == 0) continue;
    throw input_error(
        "--layers: found it with {}, in which layer {} selects for others: expected all layers",
        method.name(), l);
  }
}

void bench(const Options& o, bool json) {
  if (!o.simd.empty()) cpu::limit_simd(o.simd);
  BenchOptions options;
  options.tokens = lengths(o);
  options.new_tokens = answer_lengths(o);
  options.batches = number_list(o.batch, "--batch", 1);
  options.repeats = o.repeats;
  options.layers = o.layers;
  if (o.layers != 0 && o.what != "selection")
    throw input_error("--layers: found it with {}, expected it with selection", o.what);
  if (o.profile && o.what != "prefill" && o.what != "decode")
    throw input_error("--profile: found it with {}, expected it with prefill or decode", o.what);
  options.profile = o.profile;
  options.kv_dtype = o.model.kv_type();
  for (const std::string& spec : o.methods.empty() ? std::vector<std::string>{"full"} : o.methods) {
    options.methods.push_back(Method::parse(spec, "--method"));
    refuse_compression_within_prompts(options.methods.back(), "--method");
  }
  std::vector<BenchRow> rows;
  Ceilings ceilings;
  std::string machine;
  if (o.what == "attention" || o.what == "selection") {  // need a shape, no weights
    const std::vector<Device> devices = parse_devices(o.model.device, "--device");
    if (devices.size() > 1) {
      throw input_error("--device: found {} devices, expected one: attention is of one layer",
                        devices.size());
    }
    if (o.model.math != "f32") {
      throw input_error("--math: found \"{}\", expected f32: {} has no other arithmetic",
                        printable(o.model.math), o.what);
    }
    const ModelConfig c = Checkpoint::open(locate_model(o.model.model)).config;
    const std::unique_ptr<Backend> backend = make_backend(devices[0], o.model.threads);
    if (o.what == "selection") {
      const int measured = o.layers > 0 ? std::min(o.layers, c.layers) : c.layers;
      for (const Method& method : options.methods) {
        if (measured < c.layers) refuse_shared_selections(method, c);
      }
      return print_selection(bench_selection(c, *backend, options), o.model.model, c.layers,
                             measured, *backend, json);
    }
    rows = bench_attention({c.layers, c.heads, c.kv_heads, c.head_dim}, *backend, options);
    ceilings = backend->measure_ceilings();
    machine = backend->description();
  } else {
    LoadedModel loaded = load_model(o.model);
    Engine& engine = *loaded.engine;
    // Stages run one after another, so the ceilings of one backend apply.
    Backend& backend = *loaded.backends[0];
    rows = o.what == "prefill"      ? bench_prefill(engine, backend, options)
           : o.what == "decode"     ? bench_decode(engine, backend, options)
           : o.what == "throughput" ? bench_throughput(engine, options)
                                    : bench_statistics(engine, options);
    ceilings = backend.measure_ceilings();
    machine = description_of(loaded.backends);
  }
  if (!json) {
    fmt::print("{} on {}: {:.1f} GFLOP/s of multiply-adds, {}{:.1f} GB/s read\n", o.model.model,
               machine, ceilings.flops / 1e9,
               ceilings.bf16_flops > ceilings.flops
                   ? fmt::format("{:.1f} GFLOP/s of bf16 products, ", ceilings.bf16_flops / 1e9)
                   : "",
               ceilings.read_bytes / 1e9);
    if (o.what == "throughput") return print_throughput(rows);
    print(rows, o);
    if (o.profile) print_profiles(rows, o);
    return;
  }
  OrderedJson out;
  out["model"] = o.model.model;
  out["backend"] = machine;
  out["peak_flops"] = ceilings.flops;
  if (ceilings.bf16_flops > 0) out["peak_bf16_flops"] = ceilings.bf16_flops;
  out["read_bytes_per_s"] = ceilings.read_bytes;
  out["rows"] = OrderedJson::array();
  for (const BenchRow& row : rows) out["rows"].push_back(to_json(row));
  fmt::print("{}\n", dump(out));
}

}  // namespace

void add_bench_command(CLI::App& app, const CommonOptions& common) {
  auto o = std::make_shared<Options>();
  CLI::App* command =
      app.add_subcommand("bench",
                         "Measure prefill, decoding, complete requests, one layer's attention, the "
                         "cost of statistics, or decode attention with token selection");
  command->footer(
      "Examples:\n"
      "  turnbench bench prefill --model random:config.json --tokens 512,8192\n"
      "  turnbench bench decode --model random:config.json --depth 0,8192 --batch 1,8\n"
      "  turnbench bench decode --model random:config.json --depth 8192 --method quest --profile\n"
      "  turnbench bench throughput --model random:config.json --tokens 2048 --new-tokens 512 "
      "--batch 1,2,4,6,8\n"
      "  turnbench bench attention --model random:config.json --tokens 16384 --method minference\n"
      "  turnbench bench statistics --model random:config.json --tokens 8192 --method h2o\n"
      "  turnbench bench selection --model random:config.json --depth 32768 --kv-dtype bf16 "
      "--method pqcache:budget=1024");
  command
      ->add_option("what", o->what, "prefill, decode, throughput, attention, statistics, selection")
      ->required()
      ->check(one_of({"prefill", "decode", "throughput", "attention", "statistics", "selection"}));
  o->model.add_to(*command);
  command->add_option("--tokens", o->tokens, "prompt lengths: 512,2048");
  command->add_option("--depth", o->depth,
                      "decode, selection: numbers of synthetic tokens in the cache: 0,8192");
  command->add_option("--new-tokens", o->new_tokens, "throughput: answer lengths: 64,512");
  command->add_option("--batch", o->batch, "sequences per batch: 1,8");
  command
      ->add_option("--method", o->methods,
                   "a method, e.g. snapkv:budget=1024; several: repeat the option")
      ->allow_extra_args(false);
  command->add_option("--simd", o->simd, "highest SIMD level to use: AVX2");
  command
      ->add_option(
          "--layers", o->layers,
          "selection: measure only this many layers, for models with a large cache; default: all")
      ->transform(whole_number(1, 1000));
  command->add_flag("--profile", o->profile,
                    "prefill, decode: also the share of each phase, and with --json its seconds in "
                    "each layer");
  command->add_option("--repeats", o->repeats, "measurements per row")
      ->transform(whole_number(1, 1000));
  command->callback([o, &common] { bench(*o, common.json); });
}

}  // namespace turnbench
