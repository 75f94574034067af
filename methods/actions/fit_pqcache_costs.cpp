// Times prefill and clustering on this machine, from which pqcache takes its number of iterations.

#include <fmt/format.h>

#include <Eigen/Dense>
#include <algorithm>
#include <array>
#include <set>
#include <string>
#include <vector>

#include "common/clock.h"
#include "common/error.h"
#include "common/file.h"
#include "common/normal.h"
#include "common/random.h"
#include "common/thread_pool.h"
#include "methods/actions/action.h"
#include "methods/parts/cluster_costs.h"
#include "methods/parts/kmeans.h"
#include "methods/parts/scores.h"

namespace turnbench {
namespace {

constexpr int kFewIterations = 3, kManyIterations = 9;  // as in PQCache's official measurement
// Lengths for which iterations are printed.
constexpr std::array kShownLengths = {4096, 8192, 16384, 32768};

/// The x without negative elements that minimizes the squared error of a x = b: the best of the
/// solutions on all sets of columns.
std::vector<double> least_squares(const std::vector<std::vector<double>>& a,
                                  const std::vector<double>& b) {
  const auto rows = static_cast<Eigen::Index>(a.size()),
             columns = static_cast<Eigen::Index>(a.front().size());
  Eigen::MatrixXd matrix(rows, columns);
  for (Eigen::Index r = 0; r < rows; ++r)
    matrix.row(r) = Eigen::Map<const Eigen::RowVectorXd>(a[r].data(), columns);
  const Eigen::Map<const Eigen::VectorXd> right(b.data(), rows);
  Eigen::VectorXd best = Eigen::VectorXd::Zero(columns);
  double least = right.squaredNorm();
  for (unsigned set = 1; set < 1U << columns; ++set) {
    std::vector<Eigen::Index> chosen;
    for (Eigen::Index c = 0; c < columns; ++c) {
      if ((set >> c & 1U) != 0) chosen.push_back(c);
    }
    const Eigen::MatrixXd part = matrix(Eigen::all, chosen);
    const Eigen::VectorXd x = part.colPivHouseholderQr().solve(right);
    const double error = (part * x - right).squaredNorm();
    if (x.minCoeff() < 0 || error >= least) continue;
    least = error;
    best.setZero();
    best(chosen) = x;
  }
  return {best.begin(), best.end()};
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

struct TimedClustering {
  double seconds = 0;
  int iterations = 0;  ///< iterations performed
};

/// Clusters the `parts` parts of a layer's keys into 2^bits clusters, with the engine's number of
/// threads for such work.
TimedClustering cluster_layer(const Engine& engine, int parts, int bits, int tokens,
                              int iterations) {
  const int dim = engine.shape().head_dim / parts;
  Random random(1);
  std::vector<float> keys(static_cast<std::size_t>(tokens * dim));
  for (float& x : keys) x = static_cast<float>(normal(random));
  const std::vector<std::int32_t> first = draw_rows(random, tokens, 1 << bits);
  BackgroundTasks background(engine.options().background_threads);
  std::vector<int> taken(static_cast<std::size_t>(parts * engine.shape().kv_heads));
  const auto start = Clock::now();
  background
      .start(taken.size(),
             [&](std::size_t i) {
               taken[i] = k_means({keys.data(), tokens, dim}, first, iterations).iterations;
             })
      ->wait();
  return {seconds_since(start), taken.front()};
}

ActionResult fit_costs(ActionContext& context) {
  const std::string& out = context.option("output");
  require_own_file(out, "file of costs",
                   [&] { return read_file(out).starts_with("{\n  \"prefill_base\""); });
  const int parts = context.integer("m"), bits = context.integer("b");
  Engine& engine = context.engine();
  if (engine.shape().head_dim % parts != 0) {
    throw input_error("-m: found {} parts, expected a divisor of the {} dimensions of a head",
                      parts, engine.shape().head_dim);
  }
  std::vector<std::vector<double>> prefill_terms, cluster_terms;
  std::vector<double> prefill_seconds, cluster_seconds;
  const std::string& given = context.option("tokens");
  const std::vector<int> lengths = context.numbers("tokens", 1 << bits);
  if (std::set(lengths.begin(), lengths.end()).size() < 3)
    throw input_error("--tokens: found \"{}\", expected at least three lengths", given);
  const double positions = engine.model().config().longest_prompt();
  if (const int longest = *std::max_element(lengths.begin(), lengths.end());
      positions > 0 && longest > positions) {
    throw input_error("--tokens: found {}, expected at most the model's {:.0f} positions", longest,
                      positions);
  }
  for (const int tokens : lengths) {
    const double s = tokens;
    for (int i = 0; i < context.integer("repeats"); ++i) {
      prefill_terms.push_back({1, s, s * s});
      prefill_seconds.push_back(layer_prefill_seconds(engine, tokens));
      for (const int iterations : {kFewIterations, kManyIterations}) {
        const TimedClustering c = cluster_layer(engine, parts, bits, tokens, iterations);
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
        given);
  }
  write_file(out, costs.json());
  ActionResult result;
  OrderedJson iterations;
  for (const int tokens : kShownLengths) {
    iterations[std::to_string(tokens)] = costs.iterations(tokens);
    result.text += fmt::format("{:>6} tokens: {} iterations\n", tokens, costs.iterations(tokens));
  }
  result.json = {{"iterations", iterations}, {"file", out}};
  return result;
}

}  // namespace

MethodAction fit_pqcache_costs() {
  using Kind = ActionOption::Kind;
  return {
      .name = "fit-costs",
      .summary =
          "Measure prefill and clustering, and write the file from which pqcache derives its "
          "iterations",
      .example = "--model DIR -o costs.json",
      .notes = "then: turnbench generate --model DIR --method pqcache:max_iter=0,costs=costs.json",
      .options = {{.name = "output",
                   .letter = 'o',
                   .required = true,
                   .description = "file of coefficients to write"},
                  {.name = "tokens",
                   .fallback = "512,1024,2048,4096",
                   .description = "prompt lengths to measure, at least three"},
                  {.name = "m",
                   .kind = Kind::kInteger,
                   .fallback = "2",
                   .description = "PQ sub-vectors per key",
                   .min = 1,
                   .max = 16},
                  {.name = "b",
                   .kind = Kind::kInteger,
                   .fallback = "6",
                   .description = "bits per code",
                   .min = 1,
                   .max = 8},
                  {.name = "repeats",
                   .kind = Kind::kInteger,
                   .fallback = "3",
                   .description = "measurements per length",
                   .min = 1,
                   .max = 100}},
      .run = fit_costs};
}

}  // namespace turnbench
