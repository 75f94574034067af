#include <algorithm>
#include <memory>
#include <numeric>
#include <utility>

#include "harness/bench/bench.h"
#include "harness/bench/numbers.h"
#include "harness/bench/planted_kv.h"
#include "inference/policy/joint_selection.h"
#include "inference/policy/selection_capabilities.h"
#include "methods/parts/selection_recall.h"

namespace turnbench {
namespace {

constexpr int kRound = 256;       // tokens of each round of the dialogue
constexpr int kSteps = 8;         // per repeat
constexpr int kRecallSteps = 4;   // steps in which selections are compared with exact scores
constexpr int kObservedRows = 1;  // query rows that the exact scores need

double bytes_of(MatrixView<const float> m) {
  return static_cast<double>(m.rows * m.columns) * sizeof(float);
}

/// The bytes that jobs read to score candidates, without queries.
double bytes_read(const SelectionJobs& jobs) {
  double out = 0;
  for (const KeyScoreJob& job : jobs.keys) {
    const PageLayout& layout = job.set->layout();
    out +=
        static_cast<double>(job.out.columns) * static_cast<double>(layout.row_bytes(KvRow::kKey));
  }
  for (const PageScoreJob& job : jobs.pages) {
    const double bounds = job.bounds.low == job.bounds.high ? 1 : 2;
    out += bounds * static_cast<double>(job.out.columns * job.q.columns) *
           static_cast<double>(size_of(job.dtype));
  }
  for (const VectorScoreJob& job : jobs.vectors) out += bytes_of(job.vectors);
  for (const CodeScoreJob& job : jobs.codes)
    out += bytes_of(job.centroids) + static_cast<double>(job.parts * job.out.columns);
  for (const DimensionScoreJob& job : jobs.dimensions) {
    out += static_cast<double>(std::ssize(job.dims) * job.out.columns) *
           static_cast<double>(size_of(job.dtype));
  }
  return out;
}

/// Records how many tokens the selections of a sequence read, their recall, and what their scores
/// read.
struct Observed : LayerObserver {
  std::vector<double> tokens;       ///< by layer, over sets and steps
  double recall = 0;                ///< of the last layer, over steps
  std::vector<double> index_bytes;  ///< by layer, of the last step
  const SelectionPolicy* policy = nullptr;

  void selection(const LayerView& view, const Selection& selection) override {
    tokens.resize(static_cast<std::size_t>(view.shape.layers));
    index_bytes.resize(tokens.size());
    if (capability<JointSelection>(policy) != nullptr) {
      const std::unique_ptr<SelectionPolicy> copy = policy->clone();
      SelectionJobs jobs;
      capability<JointSelection>(copy.get())->begin_selection(view, jobs);
      index_bytes[view.layer] = bytes_read(jobs);
    }
    double& sum = tokens[view.layer];
    const std::size_t sets = view.sets.size(), lists = selection.slots.size();
    for (std::size_t s = 0; s < sets; ++s) {
      std::vector<std::int32_t> read;
      for (std::size_t i = s * lists / sets; i < (s + 1) * lists / sets; ++i)
        read.insert(read.end(), selection.slots[i].begin(), selection.slots[i].end());
      std::sort(read.begin(), read.end());
      read.erase(std::unique(read.begin(), read.end()), read.end());
      sum += static_cast<double>(selection.all() ? view.sets[s].size() : std::ssize(read));
    }
    if (view.layer == view.shape.layers - 1) recall += selection_recall(view, selection);
  }
};

/// A model with the same attention and at most `layers` layers (0: all).  Its other sizes do not
/// matter.
Checkpoint stand_in(const ModelConfig& config, int layers) {
  Checkpoint out;
  out.name = "stand-in";
  out.config = config;
  if (layers > 0) out.config.layers = std::min(config.layers, layers);
  out.config.sliding_window.resize(static_cast<std::size_t>(out.config.layers));
  out.config.hidden = out.config.ffn = out.config.vocab = 64;
  return out;
}

/// The sum over all layers of a model; the last measured layer is used for the remaining ones.
double whole(const std::vector<double>& by_layer, int layers) {
  return std::accumulate(by_layer.begin(), by_layer.end(), 0.0) +
         by_layer.back() * (layers - static_cast<int>(by_layer.size()));
}

class SelectionBench {
 public:
  SelectionBench(const ModelConfig& config, Backend& backend, const BenchOptions& options)
      : layers_(config.layers),
        repeats_(options.repeats),
        model_(stand_in(config, options.layers), backend, DType::kF32, Math::kF32),
        engine_(model_, backend, {.kv_dtype = options.kv_dtype}),
        source_(engine_.shape()) {
    dialogue_.seed = 1;
    dialogue_.token_text = [](int token) { return token % 16 == 0 ? "." : " word"; };
  }

  std::vector<SelectionRow> rows(int depth, const std::vector<Method>& methods) {
    for (int i = 0; i < depth; ++i) tokens_.push_back(i % 64);
    for (int begin = 0; begin < depth; begin += kRound) {
      spans_.push_back(
          {SpanKind::kQuestion, begin / kRound, begin, std::min(begin + kRound, depth)});
    }
    dialogue_.spans = spans_;
    Sequence dense = filled({});
    std::vector<SelectionRow> out(1);
    for (int i = 0; i < repeats_; ++i) out[0].seconds.push_back(seconds(dense));
    out[0].method = "full";
    out[0].bytes_read =
        whole(std::vector<double>(measured(), depth * sets()), layers_) * bytes_of_token(dense);
    for (const Method& method : methods) {
      if (method.canonical() != "full") out.push_back(row(method, dense));
    }
    for (SelectionRow& row : out) row.depth = depth;
    return out;
  }

 private:
  SelectionRow row(const Method& method, Sequence& dense) {
    SelectionRow out;
    out.method = method.label();
    Sequence sequence = filled(method.make());
    std::vector<double> ratios;
    for (int i = 0; i < repeats_; ++i) {
      const double beside = seconds(dense);
      out.seconds.push_back(seconds(sequence));
      ratios.push_back(out.seconds.back() / beside);
    }
    out.of_full = median(ratios);
    std::vector<double> moved(measured());
    const Ledger& ledger = sequence.counters.ledger;
    for (std::size_t l = 0; l < measured() && ledger.steps() > 0; ++l) {
      for (std::size_t s = 2; s < ledger.steps(); ++s)  // without the prompt and the first step
        moved[l] += static_cast<double>(ledger.at(s, static_cast<int>(l)).bytes());
      moved[l] /= static_cast<double>(ledger.steps() - 2);
    }
    out.bytes_moved = whole(moved, layers_);
    observe(method, out);
    return out;
  }

  void observe(const Method& method, SelectionRow& out) {
    Sequence sequence = filled(method.make());
    const double token_bytes = bytes_of_token(sequence);
    std::vector<double> tokens(measured());
    if (sequence.policies.selection == nullptr) {
      for (std::size_t l = 0; l < measured(); ++l) {
        for (const KvHeadCache& set : sequence.sets(static_cast<int>(l))) tokens[l] += set.size();
      }
      out.recall.reset();  // recall of evicted tokens is unknown
    } else {
      Observed observed;
      observed.policy = sequence.policies.selection.get();
      for (int i = 0; i < kRecallSteps; ++i) step(sequence, &observed);
      for (std::size_t l = 0; l < measured(); ++l) tokens[l] = observed.tokens[l] / kRecallSteps;
      out.recall = observed.recall / kRecallSteps;
      if (capability<JointSelection>(observed.policy) != nullptr)
        out.index_bytes = whole(observed.index_bytes, layers_);
    }
    out.bytes_read = whole(tokens, layers_) * token_bytes;
  }

  Sequence filled(Policies policies) {
    Sequence out = engine_.make_sequence(std::move(policies), kObservedRows);
    engine_.fill_kv(out, tokens_, dialogue_, source_, 1);
    step(out);  // touches all memory once, and waits for indices that are built after the prompt
    return out;
  }

  std::vector<double> step(Sequence& sequence, LayerObserver* observer = nullptr) {
    const Pass pass{.sequence = &sequence,
                    .tokens = {tokens_.data(), 1},
                    .kind = Pass::Kind::kDecode,
                    .dialogue = &dialogue_,
                    .observer = observer};
    return engine_.attend_synthetic(pass, source_);
  }

  /// Time of a step: the median of a few, for each layer.
  double seconds(Sequence& sequence) {
    std::vector<std::vector<double>> by_layer(measured());
    for (int i = 0; i < kSteps; ++i) {
      const std::vector<double> one = step(sequence);
      for (std::size_t l = 0; l < one.size(); ++l) by_layer[l].push_back(one[l]);
    }
    std::vector<double> medians;
    for (const std::vector<double>& layer : by_layer) medians.push_back(median(layer));
    return whole(medians, layers_);
  }

  std::size_t measured() const { return static_cast<std::size_t>(engine_.shape().layers); }
  int sets() const { return engine_.shape().kv_heads; }
  /// Bytes of a key and a value in one KV set as the sequence stores them, as a mean over its
  /// tokens.
  double bytes_of_token(const Sequence& sequence) const {
    double tokens = 0;
    for (std::size_t l = 0; l < measured(); ++l) {
      for (const KvHeadCache& set : sequence.sets(static_cast<int>(l))) tokens += set.size();
    }
    return static_cast<double>(sequence.logical_bytes()) / tokens;
  }

  int layers_, repeats_;
  Model model_;
  Engine engine_;
  PlantedKv source_;
  DialogueView dialogue_;
  std::vector<int> tokens_;
  std::vector<Span> spans_;
};

}  // namespace

double SelectionRow::median_seconds() const {
  return median(seconds);
}

std::vector<SelectionRow> bench_selection(const ModelConfig& config, Backend& backend,
                                          const BenchOptions& options) {
  std::vector<SelectionRow> out;
  for (const int depth : options.tokens) {
    SelectionBench bench(config, backend, options);
    const std::vector<SelectionRow> rows = bench.rows(depth, options.methods);
    out.insert(out.end(), rows.begin(), rows.end());
  }
  return out;
}

}  // namespace turnbench
