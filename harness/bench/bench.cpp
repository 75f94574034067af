#include "harness/bench/bench.h"

#include <algorithm>
#include <functional>
#include <new>
#include <numeric>
#include <utility>

#include "common/clock.h"
#include "common/error.h"
#include "common/random.h"
#include "harness/bench/numbers.h"
#include "harness/bench/planted_layer.h"
#include "inference/engine/sampler.h"

namespace turnbench {
namespace {

constexpr int kAnswerLimit = 256;  // tokens of synthetic answers without a given length

std::vector<int> random_tokens(int count, int vocab) {
  Random random(1);
  std::vector<int> out;
  for (int i = 0; i < count; ++i)
    out.push_back(static_cast<int>(random.below(static_cast<std::uint64_t>(vocab))));
  return out;
}

/// Synthetic text with sentence ends, for methods that need sentences.
DialogueView synthetic_dialogue(int answer_limit = kAnswerLimit) {
  DialogueView out;
  out.seed = 1;
  out.answer_limit = answer_limit;
  out.token_text = [](int token) { return token % 16 == 0 ? "." : " word"; };
  return out;
}

/// One timed run.
struct Run {
  double seconds = 0;
  double flops = 0, bf16_flops = 0;  ///< operations, as Ceilings counts them
  double pairs = 1;                  ///< share of dense attention's (query, key) pairs

  /// The least time at these ceilings.
  double least_seconds(const Ceilings& c) const {
    return flops / c.flops + (bf16_flops > 0 ? bf16_flops / c.bf16_flops : 0);
  }
};

/// Dense if `method` is null.
Run prefill(Engine& engine, const Method* method, const std::vector<int>& tokens, int batch) {
  const DialogueView dialogue = synthetic_dialogue();
  std::vector<Sequence> sequences;
  std::vector<Pass> passes;
  for (int i = 0; i < batch; ++i)
    sequences.push_back(engine.make_sequence(method == nullptr ? Policies{} : method->make()));
  for (Sequence& s : sequences) {
    passes.push_back({.sequence = &s, .tokens = tokens, .dialogue = &dialogue, .prompt_end = true});
  }
  const Operations before = engine.operations();
  const auto start = Clock::now();
  engine.prefill(passes);
  Run out{seconds_since(start)};
  double pairs = 0, dense_pairs = 0;
  for (const Sequence& s : sequences) {
    pairs += s.counters.prefill_pairs;
    dense_pairs += s.counters.prefill_pairs_dense;
  }
  const auto flops_by = [&](bool bf16) -> double& { return bf16 ? out.bf16_flops : out.flops; };
  const Operations& after = engine.operations();
  flops_by(engine.model().math() != Math::kF32) += after.linear - before.linear;
  flops_by(engine.math() == Math::kBF16) += after.attention - before.attention;
  out.pairs = pairs / dense_pairs;
  return out;
}

/// Adds repeats of `run` to a row: each right after `dense`, if given, and between two measurements
/// of the ceilings, if a `backend` is given.
void repeat(BenchRow& row, int repeats, Backend* backend, const std::function<Run()>& dense,
            const std::function<Run()>& run) {
  const auto measure = [&] {
    return backend == nullptr ? Ceilings{} : backend->measure_ceilings();
  };
  std::vector<double> shares, ratios;
  for (int i = 0; i < repeats; ++i) {
    const double beside = dense ? dense().seconds : 0;
    const Ceilings before = measure();
    const Run one = run();
    const Ceilings after = measure();
    row.seconds.push_back(one.seconds);
    row.pair_share = one.pairs;
    if (backend != nullptr) {
      const double least = std::min(one.least_seconds(before), one.least_seconds(after));
      shares.push_back(least / one.seconds);
    }
    if (beside > 0) ratios.push_back(one.seconds / beside);
  }
  row.ceiling_share = median(shares);
  row.ratio_to_dense = median(ratios);
}

/// Measures the phases of `repeats` further runs, which return their seconds.
void profile(BenchRow& row, Engine& engine, int repeats, const std::function<double()>& run) {
  row.profile.emplace(engine.shape().layers);
  engine.measure_phases(&*row.profile);
  for (int i = 0; i < repeats; ++i) row.profiled_seconds += run();
  engine.measure_phases(nullptr);
}

/// The times of requests that are served together.
struct Served {
  double seconds = 0;
  double decode_seconds = 0;  ///< the part after the first token of every answer
};

/// Answers `batch` prompts greedily with `new_tokens` tokens each.
Served serve(Engine& engine, const Method& method, const std::vector<int>& tokens, int batch,
             int new_tokens) {
  const DialogueView dialogue = synthetic_dialogue(new_tokens);
  std::vector<Sequence> sequences;
  std::vector<Pass> prompts, steps;
  std::vector<int> newest(static_cast<std::size_t>(batch));
  for (int i = 0; i < batch; ++i) sequences.push_back(engine.make_sequence(method.make()));
  for (std::size_t i = 0; i < sequences.size(); ++i) {
    prompts.push_back(
        {.sequence = &sequences[i], .tokens = tokens, .dialogue = &dialogue, .prompt_end = true});
    steps.push_back({.sequence = &sequences[i],
                     .tokens = {&newest[i], 1},
                     .kind = Pass::Kind::kDecode,
                     .dialogue = &dialogue});
  }
  const auto sample = [&](const std::vector<std::vector<float>>& logits) {
    for (std::size_t i = 0; i < newest.size(); ++i) newest[i] = argmax(logits[i]);
  };
  const auto start = Clock::now();
  sample(engine.prefill(prompts));
  const auto first_tokens = Clock::now();
  for (int k = 1; k < new_tokens; ++k) sample(engine.forward(steps));
  return {seconds_since(start), seconds_since(first_tokens)};
}

/// Prefill attention of one layer with a method that selects in prompts, block by block of rows.
/// Runs in an engine whose model consists of this layer.
class SelectingPrefill {
 public:
  SelectingPrefill(const ModelShape& shape, Backend& backend, DType kv_dtype)
      : model_(one_layer(shape), backend, DType::kF32, Math::kF32),
        engine_(model_, backend, {.kv_dtype = kv_dtype}) {}

  Run run(const Method& method, PlantedLayer& layer, int count) {
    Policies policies = method.make();
    policies.placement = {};  // transfers are not part of the attention
    Sequence sequence = engine_.make_sequence(std::move(policies));
    const std::vector<int> tokens(static_cast<std::size_t>(count));
    const DialogueView dialogue = synthetic_dialogue();
    const Pass pass{.sequence = &sequence, .tokens = tokens, .dialogue = &dialogue};
    const double seconds = engine_.attend_synthetic(pass, layer).front();
    const double pairs = sequence.counters.prefill_pairs;
    return {.seconds = seconds,
            .flops = 4.0 * engine_.shape().head_dim * pairs,
            .pairs = pairs / sequence.counters.prefill_pairs_dense};
  }

 private:
  static Checkpoint one_layer(const ModelShape& shape) {
    Checkpoint out;
    out.name = "one layer";
    ModelConfig& c = out.config;
    c.layers = 1;
    c.heads = shape.heads;
    c.kv_heads = shape.kv_heads;
    c.head_dim = shape.head_dim;
    c.hidden = c.ffn = c.vocab = 64;
    c.sliding_window.resize(1);
    return out;
  }

  Model model_;
  Engine engine_;
};

BenchRow row_of(const char* what, const Method& method, int tokens, int batch) {
  BenchRow row;
  row.benchmark = what;
  row.method = method.label();
  row.tokens = tokens;
  row.batch = batch;
  return row;
}

}  // namespace

double BenchRow::median_seconds() const {
  return median(seconds);
}

double BenchRow::decode_rate() const {
  return static_cast<double>(batch) * (new_tokens - 1) / median(decode_seconds);
}

std::vector<BenchRow> bench_prefill(Engine& engine, Backend& backend, const BenchOptions& options) {
  const std::string full = Method::parse("full").canonical();
  std::vector<BenchRow> out;
  for (int n : options.tokens) {
    const std::vector<int> tokens = random_tokens(n, engine.model().config().vocab);
    for (int batch : options.batches) {
      const auto dense = [&] { return prefill(engine, nullptr, tokens, batch); };
      dense();  // touches all memory once
      for (const Method& method : options.methods) {
        BenchRow& row = out.emplace_back(row_of("prefill", method, n, batch));
        row.tokens_per_run = static_cast<double>(n) * batch;
        repeat(row, options.repeats, options.ceilings ? &backend : nullptr,
               method.canonical() == full ? std::function<Run()>() : dense,
               [&] { return prefill(engine, &method, tokens, batch); });
        if (options.profile) {
          profile(row, engine, options.repeats,
                  [&] { return prefill(engine, &method, tokens, batch).seconds; });
        }
      }
    }
  }
  return out;
}

std::vector<BenchRow> bench_decode(Engine& engine, Backend& backend, const BenchOptions& options) {
  const ModelConfig& c = engine.model().config();
  const DialogueView dialogue = synthetic_dialogue();
  std::vector<BenchRow> out;
  for (int depth : options.tokens) {
    const std::vector<int> tokens = random_tokens(std::max(depth, 1), c.vocab);
    for (int batch : options.batches) {
      for (const Method& method : options.methods) {
        BenchRow row = row_of("decode", method, depth, batch);
        row.tokens_per_run = batch;
        std::vector<Sequence> sequences;
        for (int i = 0; i < batch; ++i) {
          sequences.push_back(engine.make_sequence(method.make()));
          engine.fill_random_kv(sequences.back(), tokens, dialogue,
                                static_cast<std::uint64_t>(i) + 1);
        }
        const auto step = [&] {
          std::vector<Pass> passes;
          for (Sequence& s : sequences) {
            passes.push_back({.sequence = &s,
                              .tokens = {tokens.data(), 1},
                              .kind = Pass::Kind::kDecode,
                              .dialogue = &dialogue});
          }
          const auto start = Clock::now();
          engine.forward(passes);
          return seconds_since(start);
        };
        step();  // touches all memory once
        std::vector<double> shares;
        for (int i = 0; i < options.repeats; ++i) {
          const auto peak = [&] {
            return options.ceilings ? backend.measure_ceilings().read_bytes : 0;
          };
          const double before = peak();
          std::vector<double> steps;
          double attended = 0;
          for (const Sequence& s : sequences) attended -= s.counters.attended_tokens;
          for (int k = 0; k < options.decode_steps; ++k) steps.push_back(step());
          for (const Sequence& s : sequences) attended += s.counters.attended_tokens;
          const double bandwidth = std::max(before, peak());
          const double kv_bytes = attended / options.decode_steps * 2.0 * c.head_dim *
                                  static_cast<double>(size_of(engine.options().kv_dtype));
          row.seconds.push_back(median(steps));
          row.mean_seconds.push_back(std::accumulate(steps.begin(), steps.end(), 0.0) /
                                     options.decode_steps);
          if (bandwidth > 0)
            shares.push_back(
                (static_cast<double>(engine.model().decode_step_weight_bytes()) + kv_bytes) /
                row.seconds.back() / bandwidth);
        }
        row.ceiling_share = median(shares);
        if (options.profile) profile(row, engine, options.repeats * options.decode_steps, step);
        out.push_back(std::move(row));
      }
    }
  }
  return out;
}

std::vector<BenchRow> bench_throughput(Engine& engine, const BenchOptions& options) {
  std::vector<BenchRow> out;
  for (int n : options.tokens) {
    const std::vector<int> tokens = random_tokens(n, engine.model().config().vocab);
    for (int new_tokens : options.new_tokens) {
      for (const Method& method : options.methods) {
        std::size_t best = out.size();
        for (int batch : options.batches) {
          BenchRow& row = out.emplace_back(row_of("throughput", method, n, batch));
          row.new_tokens = new_tokens;
          row.tokens_per_run = static_cast<double>(new_tokens) * batch;
          try {
            for (int i = 0; i < options.repeats; ++i) {
              const Served served = serve(engine, method, tokens, batch, new_tokens);
              row.seconds.push_back(served.seconds);
              row.decode_seconds.push_back(served.decode_seconds);
            }
          } catch (const Error& error) {
            if (error.kind() != ErrorKind::kMemory) throw;
            row.failure = error.what();
          } catch (const std::bad_alloc&) {
            row.failure = "the system has no more memory";
          }
          const auto rate = [](const BenchRow& r) {
            return r.failure.empty() ? r.tokens_per_run / r.median_seconds() : 0;
          };
          if (rate(row) > rate(out[best])) best = out.size() - 1;
        }
        out[best].best = out[best].failure.empty();
      }
    }
  }
  return out;
}

std::vector<BenchRow> bench_attention(const ModelShape& shape, Backend& backend,
                                      const BenchOptions& options) {
  std::vector<BenchRow> out;
  for (int n : options.tokens) {
    PlantedLayer layer(backend, shape, n, options.kv_dtype);
    const auto time = [&](PrefillPolicy* policy) {
      const auto start = Clock::now();
      layer.run(policy);
      const double seconds = seconds_since(start);
      return Run{.seconds = seconds,
                 .flops = 4.0 * shape.head_dim * layer.pairs(),
                 .pairs = layer.pairs() / layer.dense_pairs()};
    };
    const auto dense = [&] { return time(nullptr); };
    dense();  // touches all memory once
    for (const Method& method : options.methods) {
      const Policies policies = method.make();
      BenchRow& row = out.emplace_back(row_of("attention", method, n, 1));
      row.tokens_per_run = n;
      if (policies.selects_in_prefill()) {
        SelectingPrefill selecting(shape, backend, options.kv_dtype);
        selecting.run(method, layer, n);  // touches all memory once
        repeat(row, options.repeats, options.ceilings ? &backend : nullptr, dense,
               [&] { return selecting.run(method, layer, n); });
        continue;
      }
      repeat(row, options.repeats, options.ceilings ? &backend : nullptr,
             policies.prefill == nullptr ? std::function<Run()>() : dense,
             [&] { return time(policies.prefill.get()); });
    }
  }
  return out;
}

std::vector<BenchRow> bench_statistics(Engine& engine, const BenchOptions& options) {
  std::vector<BenchRow> out;
  for (int n : options.tokens) {
    const std::vector<int> tokens = random_tokens(n, engine.model().config().vocab);
    const auto dense = [&] { return prefill(engine, nullptr, tokens, 1); };
    dense();  // touches all memory once
    for (const Method& method : options.methods) {
      BenchRow& row = out.emplace_back(row_of("statistics", method, n, 1));
      row.tokens_per_run = n;
      repeat(row, options.repeats, nullptr, dense,
             [&] { return prefill(engine, &method, tokens, 1); });
    }
  }
  return out;
}

}  // namespace turnbench
