// fit-costs: times of prefill and clustering on this machine, for pqcache's number of iterations.

#include <fmt/format.h>

#include <Eigen/Dense>
#include <array>
#include <nlohmann/json.hpp>
#include <set>

#include "cli/cli.h"
#include "cli/input_output.h"
#include "cli/shared_options.h"
#include "common/clock.h"
#include "common/error.h"
#include "common/file.h"
#include "common/random.h"
#include "common/text.h"
#include "harness/bench/numbers.h"
#include "methods/parts/cluster_costs.h"
#include "methods/parts/kmeans.h"

namespace turnbench {
namespace {

constexpr int kFewIterations = 3, kManyIterations = 9;  // as in PQCache's official measurement
constexpr std::array kShown = {4096, 8192, 16384,
                               32768};  // lengths for which iterations are printed

struct FitOptions {
  ModelOptions model;
  std::string tokens = "512,1024,2048,4096", out;
  int parts = 2, bits = 6, repeats = 3;
};

/// The x that minimizes the squared error of a x = b.
std::vector<double> least_squares(const std::vector<std::vector<double>>& a,
                                  const std::vector<double>& b) {
  Eigen::MatrixXd matrix(a.size(), a.front().size());
  for (std::size_t r = 0; r < a.size(); ++r) {
    for (std::size_t c = 0; c < a[r].size(); ++c)
      matrix(static_cast<Eigen::Index>(r), static_cast<Eigen::Index>(c)) = a[r][c];
  }
  const Eigen::Map<const Eigen::VectorXd> right(b.data(), static_cast<Eigen::Index>(b.size()));
  const Eigen::VectorXd x = matrix.colPivHouseholderQr().solve(right);
  return {x.begin(), x.end()};
}

double layer_prefill_seconds(Engine& engine, int tokens) {
  Random random(1);
  const auto vocab = static_cast<std::uint64_t>(engine.model().config().vocab);
  std::vector<int> ids;
  for (int i = 0; i < tokens; ++i) ids.push_back(static_cast<int>(random.below(vocab)));
  Sequence sequence = engine.make_sequence({});
  const Pass pass{.sequence = &sequence, .tokens = ids, .prompt_end = true};
  const auto start = Clock::now();
  engine.prefill({&pass, 1});
  return seconds_since(start) / engine.shape().layers;
}

struct Clustering {
  double seconds = 0;
  int iterations = 0;  ///< iterations performed
};

/// Clusters all parts of a layer's keys, with the engine's number of threads for such work.
Clustering cluster_layer(const Engine& engine, const FitOptions& o, int tokens, int iterations) {
  const int dim = engine.shape().head_dim / o.parts;
  Random random(1);
  std::vector<float> keys(static_cast<std::size_t>(tokens * dim));
  for (float& x : keys) x = static_cast<float>(normal(random));
  const std::vector<std::int32_t> first = draw_rows(random, tokens, 1 << o.bits);
  BackgroundTasks background(engine.options().background_threads);
  std::vector<int> taken(static_cast<std::size_t>(o.parts * engine.shape().kv_heads));
  const auto start = Clock::now();
  background
      .start(taken.size(),
             [&](std::size_t i) {
               taken[i] = k_means({keys.data(), tokens, dim}, first, iterations).iterations;
             })
      ->wait();
  return {seconds_since(start), taken.front()};
}

void fit_costs(const FitOptions& o, bool json) {
  const LoadedModel loaded = load_model(o.model);
  Engine& engine = *loaded.engine;
  if (engine.shape().head_dim % o.parts != 0) {
    throw input_error("-m: found {} parts, expected a divisor of the {} dimensions of a head",
                      o.parts, engine.shape().head_dim);
  }
  std::vector<std::vector<double>> prefill_terms, cluster_terms;
  std::vector<double> prefill_seconds, cluster_seconds;
  const std::vector<int> lengths = number_list(o.tokens, "--tokens", 1 << o.bits);
  if (std::set(lengths.begin(), lengths.end()).size() < 3)
    throw input_error("--tokens: found \"{}\", expected at least three lengths", o.tokens);
  for (const int tokens : lengths) {
    const double s = tokens;
    for (int i = 0; i < o.repeats; ++i) {
      prefill_terms.push_back({1, s, s * s});
      prefill_seconds.push_back(layer_prefill_seconds(engine, tokens));
      for (const int iterations : {kFewIterations, kManyIterations}) {
        const Clustering c = cluster_layer(engine, o, tokens, iterations);
        cluster_terms.push_back({1, s * c.iterations});
        cluster_seconds.push_back(c.seconds);
      }
    }
  }
  const std::vector<double> prefill = least_squares(prefill_terms, prefill_seconds),
                            cluster = least_squares(cluster_terms, cluster_seconds);
  const ClusterCosts costs{prefill[0], prefill[1], prefill[2], cluster[0], cluster[1]};
  if (!(costs.cluster_token > 0)) {
    throw runtime_error(
        "--tokens: found times of clustering that do not grow with the tokens of {}, expected "
        "longer lengths, with differences above the noise",
        o.tokens);
  }
  write_file(o.out, costs.json());
  if (json) {
    OrderedJson iterations;
    for (const int tokens : kShown) iterations[std::to_string(tokens)] = costs.iterations(tokens);
    fmt::print("{}\n", dump({{"iterations", iterations}, {"file", o.out}}));
    return;
  }
  for (const int tokens : kShown)
    fmt::print("{:>6} tokens: {} iterations\n", tokens, costs.iterations(tokens));
}

}  // namespace

void add_fit_costs_command(CLI::App& app, const CommonOptions& common) {
  auto o = std::make_shared<FitOptions>();
  CLI::App* command = app.add_subcommand("fit-costs",
                                         "Measure prefill and clustering, and write the file from "
                                         "which pqcache derives its iterations");
  command->footer(
      "Example: turnbench fit-costs --model DIR -o costs.json\n"
      "then: turnbench generate --model DIR --method pqcache:max_iter=0,costs=costs.json");
  o->model.add_to(*command);
  command->add_option("-o,--output", o->out, "file of coefficients to write")->required();
  command->add_option("--tokens", o->tokens, "prompt lengths to measure, at least three");
  command->add_option("-m", o->parts, "PQ sub-vectors per key")->transform(whole_number(1, 16));
  command->add_option("-b", o->bits, "bits per code")->transform(whole_number(1, 8));
  command->add_option("--repeats", o->repeats, "measurements per length")
      ->transform(whole_number(1, 100));
  command->callback([o, &common] { fit_costs(*o, common.json); });
}

}  // namespace turnbench
