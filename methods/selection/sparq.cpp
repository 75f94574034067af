#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <numeric>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "inference/backend/backend.h"
#include "methods/method.h"
#include "methods/parts/budget_parameters.h"
#include "methods/parts/rows_on_device.h"
#include "methods/parts/scores.h"

namespace turnbench {
namespace {

constexpr std::int64_t kMoreColumns = 256;  // columns of an answer before the buffer grows

/// The smallest number of elements, at least `tokens`, whose bytes are an odd number of cache
/// lines: rows at a power-of-two distance would use only a small part of a CPU cache.
constexpr std::int64_t row_elements(std::int64_t tokens, std::int64_t element) {
  constexpr std::int64_t kLine = 64;
  const std::int64_t lines = (tokens * element + kLine - 1) / kLine;
  return (lines | 1) * kLine / element;
}

/// Transposed keys of a layer, in a backend's or host memory: one row per set and dimension, with
/// one element per token.
class KeyColumns {
 public:
  KeyColumns() = default;
  KeyColumns(const LayerView& view, std::int64_t tokens, std::shared_ptr<Memory> memory)
      : sets_(std::ssize(view.sets)),
        dims_(view.shape.head_dim),
        element_(static_cast<std::int64_t>(size_of(view.sets.front().layout().dtype))),
        tokens_(row_elements(tokens, element_)),
        bytes_(static_cast<std::size_t>(sets_ * dims_ * tokens_ * element_), std::move(memory)),
        data_(bytes_.data()) {}

  /// Capacity in tokens per set, which is also the distance of rows in elements.
  std::int64_t tokens() const { return tokens_; }
  std::int64_t element_bytes() const { return element_; }
  std::byte* row(std::size_t set, int dim) const {
    return data_ + (static_cast<std::int64_t>(set) * dims_ + dim) * tokens_ * element_;
  }

  /// In host memory only: writes the keys of slots [first, size of the set) to the columns from
  /// first - first_column on.
  void write_from_host(std::size_t s, const KvHeadCache& set, int first, int first_column) {
    const auto element = static_cast<std::size_t>(element_);
    for (int slot = first; slot < set.size(); ++slot) {
      const std::byte* key =
          set.page_data()[static_cast<std::size_t>(slot / kPageTokens)] +
          static_cast<std::size_t>(slot % kPageTokens) * set.layout().row_bytes();
      std::byte* to = row(s, 0) + (slot - first_column) * element_;
      for (std::int64_t d = 0; d < dims_; ++d, key += element, to += tokens_ * element_)
        std::memcpy(to, key, element);
    }
  }

 private:
  std::int64_t sets_ = 0, dims_ = 0, element_ = 0, tokens_ = 0;
  Buffer bytes_;
  std::byte* data_ = nullptr;
};

/// The transposed keys of a prompt, in host memory if the layer is offloaded.
struct PromptColumns {
  explicit PromptColumns(const LayerView& view) {
    const std::shared_ptr<Memory>& memory = view.backend->memory();
    const bool moves = view.goes_to_host && !memory->is_host();
    columns = KeyColumns(view, longest_set(view), view.goes_to_host ? host_memory() : memory);
    const std::size_t set_bytes =
        static_cast<std::size_t>(view.shape.head_dim * columns.tokens() * columns.element_bytes());
    float* transposed = moves ? view.scratch->get(set_bytes / sizeof(float) + 1) : nullptr;
    for (std::size_t s = 0; s < view.sets.size(); ++s) {
      std::byte* to = moves ? reinterpret_cast<std::byte*>(transposed) : columns.row(s, 0);
      const TransposeKeysJob job{&view.sets[s], 0, to, columns.tokens()};
      view.backend->transpose_keys({&job, 1});
      if (moves) memory->copy(std::array{Copy{columns.row(s, 0), to, set_bytes}});
    }
    if (moves) memory->synchronize();
  }
  KeyColumns columns;
};

/// Sums of the values of a prompt: [sets, head_dim].
struct PromptSums {
  explicit PromptSums(const LayerView& view) {
    const std::int64_t dim = view.shape.head_dim, all = std::ssize(view.sets) * dim;
    const std::shared_ptr<Memory>& memory = view.backend->memory();
    const std::vector<double> zeros(static_cast<std::size_t>(all));
    sums = Buffer(zeros.size() * sizeof(double), memory);
    memory->copy(std::array{
        Copy{sums.data(), reinterpret_cast<const std::byte*>(zeros.data()), sums.size()}});
    std::vector<AddValuesJob> jobs;
    for (std::size_t s = 0; s < view.sets.size(); ++s) {
      jobs.push_back({&view.sets[s], 0, sums.as<double>() + static_cast<std::int64_t>(s) * dim,
                      view.sets[s].size()});
    }
    view.backend->add_values(jobs);
  }
  Buffer sums;
};

/// The part of a sequence after the shared prompt.
struct OwnColumns {
  OwnColumns() = default;
  OwnColumns(const OwnColumns&) {}  // a fork computes its own
  OwnColumns(OwnColumns&&) = default;
  OwnColumns& operator=(OwnColumns&&) = default;
  OwnColumns& operator=(const OwnColumns&) { return *this = OwnColumns(); }

  KeyColumns columns;
  Buffer sums, mean, weights;  ///< of values, in double and float; weights: of the blend
  std::vector<int> tokens;     ///< of each set, covered by these
};

class SparQ : public SelectionPolicy {
 public:
  enum class MeanValue { kAuto, kOn, kOff };
  struct Settings {
    Budget budget;
    int sinks;     ///< tokens
    double local;  ///< share of the budget
    int dims;      ///< dimensions of a query that are read
    bool of_softmax;
    MeanValue mean;
  };
  explicit SparQ(const Settings& s) : s_(s) {}

  std::unique_ptr<SelectionPolicy> clone() const override { return std::make_unique<SparQ>(*this); }

  void after_prefill(const LayerView& view) override {
    layers_.resize(static_cast<std::size_t>(view.shape.layers));
    Layer& layer = layers_[static_cast<std::size_t>(view.layer)] = {};
    std::tie(layer.local, layer.chosen) = local_and_chosen(view.prompt_tokens);
    for (const KvHeadCache& set : view.sets) layer.prompt.push_back(set.size());
    layer.columns =
        view.memo->get<PromptColumns>(fmt::format("sparq, host {}", view.goes_to_host),
                                      [&] { return std::make_shared<PromptColumns>(view); });
    if (blends(view)) {
      layer.sums =
          view.memo->get<PromptSums>("sparq", [&] { return std::make_shared<PromptSums>(view); });
    }
  }

  /// The index: a transposed copy of the keys.
  DeviceNeeds demand(const PromptSize& size, const LayerView*) const override {
    const auto [local, chosen] = local_and_chosen(size.prompt_tokens);
    // Sinks and window are gathered like the others: no token stays on the device.
    const int tokens = s_.sinks + local + chosen;
    return {.everything = size.tokens <= tokens,
            .step_tokens = tokens,
            .index_bytes = size.key_elements(size.tokens) * size_of(size.dtype)};
  }

  /// The largest dimensions of the queries of a set -> scores from these dimensions, summed over
  /// the heads -> top-k between the sinks and the local window.
  Selection select(const LayerView& view) override {
    Layer& layer = layers_[static_cast<std::size_t>(view.layer)];
    // Otherwise an eviction policy has removed slots since, or the sequence was truncated.
    for (std::size_t s = 0; s < view.sets.size(); ++s)
      layer.stale |= view.sets[s].size() - layer.prompt[s] != view.generated;
    bool reads_all = true;
    for (const KvHeadCache& set : view.sets) reads_all &= fits(layer, set);
    if (reads_all) return {};
    update_own(view, layer);
    const std::vector<Query> queries = read_queries(view);
    const Scratches memory = scratch_of(view, queries);
    score(view, layer, queries, memory);
    Selection out = best_slots(view, layer, memory);
    if (blends(view)) out.blend = blend(view, layer, memory, out);
    return out;
  }

 private:
  struct Layer {
    int local = 0, chosen = 0;  ///< tokens
    std::shared_ptr<const PromptColumns> columns;
    std::shared_ptr<const PromptSums> sums;
    std::vector<int> prompt;  ///< tokens of each set at the end of the prompt
    bool stale = false;       ///< `prompt` is outdated: each step recomputes everything
    OwnColumns own;
  };

  /// The dimensions of a set's queries that are read: one row per head, or one for their sum.
  struct Query {
    std::vector<int> dims;       ///< ascending
    std::vector<float> rows;     ///< [rows, width_of(view, *this)]
    std::vector<float> factors;  ///< [rows]; empty: all 1
  };

  /// Scratch memory of each set, on the backend.
  struct Scratches {
    std::vector<MatrixView<float>> scores;   ///< [rows of the query, tokens]
    std::vector<MatrixView<float>> summed;   ///< [1, tokens]; the scores if there is one row
    std::vector<MatrixView<float>> queries;  ///< [rows, width]
    std::vector<std::byte*> columns;         ///< [dims, tokens], if the layer is offloaded
  };

  /// Sizes of the parts in a turn, which depend on the length of its prompt.
  std::pair<int, int> local_and_chosen(int prompt_tokens) const {
    const double tokens = s_.budget.is_ratio ? prompt_tokens * s_.budget.value
                                             : std::max(0, s_.budget.tokens(0) - s_.sinks);
    const int local = static_cast<int>(tokens * s_.local);
    return {local, static_cast<int>(tokens) - local};
  }

  /// Whether all tokens of a set are read.
  bool fits(const Layer& layer, const KvHeadCache& set) const {
    return set.size() - 1 <= s_.sinks + layer.local + layer.chosen;
  }

  bool blends(const LayerView& view) const {
    return s_.mean == MeanValue::kOn || (s_.mean == MeanValue::kAuto && view.heads_per_set() == 1);
  }

  /// Whether only scores summed over heads are needed: they equal the scores of the summed queries.
  bool sums_queries(const LayerView& view) const { return !s_.of_softmax && !blends(view); }

  static bool on_host(const LayerView& view) { return view.index_path.link != nullptr; }
  /// Only the chosen dimensions of columns in host memory are transferred to the device.
  static std::size_t width_of(const LayerView& view, const Query& query) {
    return on_host(view) ? query.dims.size() : static_cast<std::size_t>(view.shape.head_dim);
  }

  static int first_own(const Layer& layer, std::size_t set) {
    return layer.stale ? 0 : layer.prompt[set];
  }

  /// Adds the step's token to the transposed keys and the mean of the values.
  void update_own(const LayerView& view, Layer& layer) {
    OwnColumns& own = layer.own;
    std::int64_t columns = 0;
    bool goes_on = !own.tokens.empty() && !layer.stale;
    for (std::size_t s = 0; s < view.sets.size(); ++s) {
      const int n = view.sets[s].size();
      columns = std::max<std::int64_t>(columns, n - first_own(layer, s));
      goes_on = goes_on && own.tokens[s] == n - 1;
    }
    const std::shared_ptr<Memory>& memory = view.backend->memory();
    if (columns > own.columns.tokens()) {
      own.columns =
          KeyColumns(view, 2 * columns + kMoreColumns, on_host(view) ? host_memory() : memory);
      goes_on = false;
    }
    if (!goes_on) begin_own(view, layer);
    std::vector<RowsOnDevice> rows;
    rows.reserve(view.sets.size());
    std::vector<TransposeKeysJob> transposing;
    std::vector<AddValuesJob> adding;
    const std::int64_t dim = view.shape.head_dim;
    for (std::size_t s = 0; s < view.sets.size(); ++s) {
      const KvHeadCache& set = view.sets[s];
      const int known = std::exchange(own.tokens[s], set.size()), first = first_own(layer, s);
      if (on_host(view)) {
        own.columns.write_from_host(s, set, known, first);
      } else {
        transposing.push_back({&set, known, own.columns.row(s, 0), own.columns.tokens(), first});
      }
      if (!blends(view)) continue;
      rows.emplace_back(view, set, known, copies_);
      const std::int64_t at = static_cast<std::int64_t>(s) * dim;
      adding.push_back({&rows[s].set(), known - rows[s].origin(), own.sums.as<double>() + at,
                        set.size(), own.mean.as<float>() + at});
    }
    if (!transposing.empty()) view.backend->transpose_keys(transposing);
    if (!adding.empty()) view.backend->add_values(adding);
  }

  /// The state at the end of the prompt, or before it.
  void begin_own(const LayerView& view, Layer& layer) const {
    OwnColumns& own = layer.own;
    own.tokens.clear();
    for (std::size_t s = 0; s < view.sets.size(); ++s) own.tokens.push_back(first_own(layer, s));
    if (!blends(view)) return;
    const std::shared_ptr<Memory>& memory = view.backend->memory();
    const std::size_t floats = view.sets.size() * static_cast<std::size_t>(view.shape.head_dim);
    if (own.sums.size() == 0) {
      own.sums = Buffer(floats * sizeof(double), memory);
      own.mean = Buffer(floats * sizeof(float), memory);
      own.weights = Buffer(static_cast<std::size_t>(view.shape.heads) * sizeof(float), memory);
    }
    const std::vector<double> zeros(layer.stale ? floats : 0);
    const std::byte* from =
        layer.stale ? reinterpret_cast<const std::byte*>(zeros.data()) : layer.sums->sums.data();
    memory->copy(std::array{Copy{own.sums.data(), from, floats * sizeof(double)}});
  }

  /// Chooses the dimensions of each set: those with the largest sums of absolute values over its
  /// heads.  The factor of a head compensates for the omitted part of its query.
  std::vector<Query> read_queries(const LayerView& view) const {
    const std::int64_t heads = view.heads_per_set(), dim = view.shape.head_dim;
    std::vector<float> all(static_cast<std::size_t>(view.shape.heads * dim));
    view.backend->memory()->copy_floats(view.queries.data, all.data(), all.size());
    std::vector<Query> out;
    for (std::size_t s = 0; s < view.sets.size(); ++s) {
      const MatrixView<const float> q(all.data() + static_cast<std::int64_t>(s) * heads * dim,
                                      heads, dim);
      std::vector<float> sums(static_cast<std::size_t>(dim));
      for (std::int64_t h = 0; h < heads; ++h) {
        for (std::int64_t d = 0; d < dim; ++d)
          sums[static_cast<std::size_t>(d)] += std::abs(q(h, d));
      }
      Query& query = out.emplace_back();
      for (const std::int32_t d : top_k(sums, std::min<int>(s_.dims, static_cast<int>(dim))))
        query.dims.push_back(d);
      for (std::int64_t h = 0; h < heads; ++h) {
        double chosen = 0, whole = 0;
        for (const int d : query.dims) chosen += std::abs(q(h, d));
        for (std::int64_t d = 0; d < dim; ++d) whole += std::abs(q(h, d));
        // A query that is zero in these dimensions has zero scores for any factor.
        query.factors.push_back(chosen == 0 ? 1.0f : static_cast<float>(std::sqrt(whole / chosen)));
      }
      add_rows(view, q, query);
    }
    return out;
  }

  /// Adds the rows of a set's queries q [heads, head_dim] in the columns that are read.
  void add_rows(const LayerView& view, MatrixView<const float> q, Query& query) const {
    const std::size_t width = width_of(view, query);
    const auto column = [&](std::size_t i) {
      return on_host(view) ? query.dims[i] : static_cast<std::int64_t>(i);
    };
    if (!sums_queries(view)) {
      for (std::int64_t h = 0; h < q.rows; ++h) {
        for (std::size_t i = 0; i < width; ++i) query.rows.push_back(q(h, column(i)));
      }
      return;
    }
    for (std::size_t i = 0; i < width; ++i) {
      double sum = 0;
      for (std::int64_t h = 0; h < q.rows; ++h)
        sum += double{query.factors[static_cast<std::size_t>(h)]} * q(h, column(i));
      query.rows.push_back(static_cast<float>(sum));
    }
    query.factors.clear();
  }

  Scratches scratch_of(const LayerView& view, std::span<const Query> queries) const {
    const bool sums = sums_queries(view);
    const std::int64_t rows = sums ? 1 : view.heads_per_set(), reduced = sums ? 0 : 1;
    const auto element = static_cast<std::int64_t>(size_of(view.sets.front().layout().dtype));
    const auto column_floats = [&](std::size_t s) {
      const std::int64_t elements = std::ssize(queries[s].dims) * view.sets[s].size();
      return on_host(view) ? (elements * element + 3) / 4 : 0;
    };
    std::int64_t floats = 0;
    for (std::size_t s = 0; s < queries.size(); ++s) {
      floats +=
          (rows + reduced) * view.sets[s].size() + std::ssize(queries[s].rows) + column_floats(s);
    }
    float* at = view.scratch->get(static_cast<std::size_t>(floats));
    const auto matrix = [&at](std::int64_t rows, std::int64_t columns) {
      const MatrixView<float> out(at, rows, columns);
      at += rows * columns;
      return out;
    };
    Scratches out;
    for (std::size_t s = 0; s < queries.size(); ++s) {
      out.scores.push_back(matrix(rows, view.sets[s].size()));
      out.summed.push_back(sums ? out.scores[s] : matrix(1, view.sets[s].size()));
      out.queries.push_back(matrix(rows, std::ssize(queries[s].rows) / rows));
      out.columns.push_back(reinterpret_cast<std::byte*>(matrix(1, column_floats(s)).data));
    }
    return out;
  }

  void score(const LayerView& view, const Layer& layer, std::span<const Query> queries,
             const Scratches& memory) const {
    const DType dtype = view.sets.front().layout().dtype;
    std::vector<DimensionScoreJob> scoring;
    std::vector<ReduceHeadsJob> reducing;
    std::vector<int> counted(static_cast<std::size_t>(view.shape.head_dim));
    std::iota(counted.begin(), counted.end(), 0);
    std::vector<Copy> rows;
    for (std::size_t s = 0; s < queries.size(); ++s)
      rows.push_back(
          copy_of(queries[s].rows.data(), memory.queries[s].data, queries[s].rows.size()));
    view.backend->memory()->copy(rows);
    if (on_host(view)) bring_columns(view, layer, queries, memory);
    for (std::size_t s = 0; s < view.sets.size(); ++s) {
      const Query& query = queries[s];
      const MatrixView<float> scores = memory.scores[s];
      const std::int64_t n = scores.columns, prompt = first_own(layer, s);
      if (!sums_queries(view)) {
        reducing.push_back({scores,
                            s_.of_softmax ? HeadReduction::kSumOfSoftmax : HeadReduction::kSum,
                            memory.summed[s]});
      }
      if (on_host(view)) {
        scoring.push_back({memory.queries[s], std::span(counted).first(query.dims.size()),
                           query.factors, memory.columns[s], n, dtype, scores});
        continue;
      }
      const auto add = [&](const KeyColumns& columns, std::int64_t first, std::int64_t count) {
        if (count == 0) return;
        scoring.push_back({memory.queries[s], query.dims, query.factors, columns.row(s, 0),
                           columns.tokens(), dtype, scores.columns_at(first, count)});
      };
      add(layer.columns->columns, 0, prompt);
      add(layer.own.columns, prompt, n - prompt);
    }
    view.backend->score_dimensions(view.scale, scoring);
    view.backend->reduce_heads(reducing);
  }

  /// Transfers the rows of the chosen dimensions to the device and waits: the dimensions are known
  /// only with the queries.
  void bring_columns(const LayerView& view, const Layer& layer, std::span<const Query> queries,
                     const Scratches& memory) const {
    std::vector<Copy> copies;
    std::int64_t bytes = 0;
    for (std::size_t s = 0; s < view.sets.size(); ++s) {
      const std::int64_t prompt = first_own(layer, s), own = view.sets[s].size() - prompt;
      std::byte* to = memory.columns[s];
      for (const int d : queries[s].dims) {
        for (const auto& [columns, count] :
             {std::pair(&layer.columns->columns, prompt), std::pair(&layer.own.columns, own)}) {
          const std::int64_t part = count * columns->element_bytes();
          if (part == 0) continue;
          copies.push_back({to, columns->row(s, d), static_cast<std::size_t>(part)});
          to += part;
          bytes += part;
        }
      }
    }
    view.index_path.link->wait(view.index_path.submit(copies, 8 * bytes));
  }

  Selection best_slots(const LayerView& view, const Layer& layer, const Scratches& memory) const {
    std::vector<TopKJob> choosing;
    std::vector<std::vector<std::int32_t>> chosen(view.sets.size());
    const auto end_of = [&](const KvHeadCache& set) { return set.size() - 1 - layer.local; };
    for (std::size_t s = 0; s < view.sets.size(); ++s) {
      if (fits(layer, view.sets[s])) continue;
      const auto count = static_cast<std::size_t>(end_of(view.sets[s]) - s_.sinks);
      choosing.push_back({{memory.summed[s].data + s_.sinks, count}, layer.chosen, &chosen[s]});
    }
    view.backend->top_k(choosing);
    Selection out;
    for (std::size_t s = 0; s < view.sets.size(); ++s) {
      const int n = view.sets[s].size();
      if (fits(layer, view.sets[s])) {
        out.slots.push_back(all_slots(n));
        continue;
      }
      std::vector<std::int32_t> slots = all_slots(s_.sinks);
      for (const std::int32_t j : chosen[s]) slots.push_back(s_.sinks + j);
      out.slots.push_back(with_tail(std::move(slots), end_of(view.sets[s]), n));
    }
    return out;
  }

  /// Weights attention by the estimated mass of its tokens; the mean value approximates the others.
  static Blend blend(const LayerView& view, Layer& layer, const Scratches& memory,
                     const Selection& selection) {
    std::vector<SlotMassJob> jobs;
    float* weights = layer.own.weights.as<float>();
    for (std::size_t s = 0; s < view.sets.size(); ++s) {
      jobs.push_back({memory.scores[s], selection.slots[s],
                      weights + static_cast<std::int64_t>(s) * view.heads_per_set()});
    }
    view.backend->slot_mass(jobs);
    return {weights, MatrixView<const float>(layer.own.mean.as<float>(), std::ssize(view.sets),
                                             view.shape.head_dim)};
  }

  Settings s_;
  std::vector<Layer> layers_;
  std::shared_ptr<KvPool> copies_;  ///< for values of offloaded layers
};

}  // namespace

/// SparQ (Ribar et al., 2024): scores from the largest dimensions of a query and transposed keys;
/// attention to the best tokens is blended with the mean value (section 3, algorithm 1).
MethodInfo sparq() {
  using Kind = ParameterInfo::Kind;
  return {
      .name = "sparq",
      .summary = "estimates scores from a query's largest dimensions and reads the best tokens",
      .paper = "Ribar et al., SparQ Attention: Bandwidth-Efficient LLM Inference, 2024",
      .budget_unit =
          "tokens read per KV head and step, recent ones included: a ratio refers to the prompt "
          "and excludes the sinks, a number includes them; the current token is not counted",
      .deviations =
          "agg=logits is the sum over the heads of a group in the official code, agg=softmax that "
          "of the paper's text; local is the value of the paper's text for H2O; the mean value is "
          "that of all cached tokens, summed in double precision; PQCache's comparison has sinks, "
          "a ratio budget, local=0.5, mean_v=off and placement=host; ties go to the lower position",
      .parameters = {{"budget", Kind::kBudget, "128", "tokens or share", "tokens read per step"},
                     {"sinks", Kind::kInteger, "0", "tokens", "first tokens, always read"},
                     {"local", Kind::kNumber, "0.25", "share",
                      "share of the budget for the most recent tokens", 0, 1},
                     {"r", Kind::kInteger, "32", "dimensions",
                      "dimensions of a query that are read", 1},
                     {"agg", Kind::kChoice, "logits", "logits|softmax",
                      "values that are summed over the heads of a group"},
                     {"mean_v", Kind::kChoice, "auto", "auto|on|off",
                      "blend with the mean value; auto: if each query head has its own keys"}},
      .make = [](const Parameters& p) {
        using Mean = SparQ::MeanValue;
        const std::string& mean = p.choice("mean_v");
        check_room("sparq", p.budget("budget"), p.integer("sinks"),
                   fmt::format("{} sinks", p.integer("sinks")));
        Policies out;
        out.selection =
            std::make_unique<SparQ>(SparQ::Settings{.budget = p.budget("budget"),
                                                    .sinks = p.integer("sinks"),
                                                    .local = p.number("local"),
                                                    .dims = p.integer("r"),
                                                    .of_softmax = p.choice("agg") == "softmax",
                                                    .mean = mean == "on"    ? Mean::kOn
                                                            : mean == "off" ? Mean::kOff
                                                                            : Mean::kAuto});
        return out;
      }};
}

}  // namespace turnbench
