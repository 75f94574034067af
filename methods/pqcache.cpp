#include <algorithm>
#include <array>
#include <numeric>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "common/error.h"
#include "methods/cached_keys.h"
#include "methods/cluster_costs.h"
#include "methods/code_index.h"
#include "methods/method.h"
#include "methods/scores.h"

namespace turnbench {
namespace {

constexpr std::int64_t kRoom = 256;  // codes of an answer, before the buffers grow

/// The codes of a layer in a backend's memory: a row for each part of each KV set.
class CodeBuffer {
 public:
  CodeBuffer() = default;
  CodeBuffer(const CodeBuffer&) {}  // a fork fills its own
  CodeBuffer& operator=(const CodeBuffer&) {
    wait();
    bytes_ = Buffer();
    stride_ = 0;
    return *this;
  }
  ~CodeBuffer() { wait(); }

  bool has_room(std::int64_t codes) const { return codes <= stride_; }
  /// Makes room for `codes` codes in each row and some more.  Loses what was there.
  void make_room(std::size_t rows, std::int64_t codes, const std::shared_ptr<Memory>& memory) {
    wait();
    stride_ = (codes / kRoom + 2) * kRoom;
    bytes_ = Buffer(rows * static_cast<std::size_t>(stride_), memory);
  }
  std::uint8_t* row(std::size_t r) {
    return bytes_.as<std::uint8_t>() + static_cast<std::int64_t>(r) * stride_;
  }
  std::int64_t stride() const { return stride_; }

  /// Fills rows over a link, until `wait`.
  void fill(std::span<const Copy> copies, std::int64_t bits, const IndexPath& path) {
    ticket_ = path.submit(copies, bits);
    link_ = path.link;
  }
  void wait() {
    if (link_) link_->wait(ticket_);
  }

 private:
  Buffer bytes_;
  std::int64_t stride_ = 0;
  std::shared_ptr<Link> link_;
  Link::Ticket ticket_ = 0;
};

class PqCache : public SelectionPolicy {
 public:
  struct Settings {
    Budget budget;
    int sinks;           ///< tokens
    double local;        ///< share of the budget
    CodeSettings codes;  ///< whose iterations are 0 if `costs` say them
    std::optional<ClusterCosts> costs;
  };
  explicit PqCache(const Settings& s) : s_(s) {}

  std::unique_ptr<SelectionPolicy> clone() const override {
    return std::make_unique<PqCache>(*this);
  }
  int window() const override { return 0; }

  void after_prefill(const LayerView& view) override {
    layers_.resize(static_cast<std::size_t>(view.shape.layers));
    Layer& layer = layers_[static_cast<std::size_t>(view.layer)] = {};
    const int prompt = std::max(0, view.prompt_tokens - s_.sinks);
    const double tokens =
        s_.budget.is_ratio ? prompt * s_.budget.value : std::max(0, s_.budget.tokens(0) - s_.sinks);
    // Both parts are rounded down.
    layer.local = static_cast<int>(tokens * s_.local);
    layer.chosen = static_cast<int>(tokens * (1 - s_.local));
    for (const KvHeadCache& set : view.sets) {
      // Too few tokens for so many centroids: the layer reads everything.
      if (set.size() - s_.sinks <= s_.codes.count()) return;
    }
    CodeSettings codes = s_.codes;
    if (s_.costs) codes.iterations = s_.costs->iterations(view.sets[0].size() - s_.sinks);
    const std::string key =
        fmt::format("pqcache {} {} {} {}", codes.parts, codes.bits, codes.iterations, s_.sinks);
    layer.index = view.memo->get<CodeIndex>(
        key, [&] { return std::make_shared<CodeIndex>(view, codes, s_.sinks); });
    layer.appended.resize(view.sets.size() * parts());
  }

  DeviceNeeds device_needs(const LayerView& view) const override {
    const Layer& layer = layers_[static_cast<std::size_t>(view.layer)];
    return {.everything = layer.index == nullptr,
            .pinned_tokens = s_.sinks + layer.local + 1,
            .step_tokens = layer.chosen,
            .first = s_.sinks};
  }

  std::vector<SlotRange> pinned(int layer, int tokens) const override {
    const int window = tokens - 1 - layers_[static_cast<std::size_t>(layer)].local;
    if (window <= s_.sinks) return {{0, tokens}};
    return {{0, s_.sinks}, {window, tokens}};
  }

  /// Moves the codes of the layer, so that they are there when its queries are.
  void prefetch(int layer, const IndexPath& path) override {
    const Layer& own = layers_[static_cast<std::size_t>(layer)];
    own.index->wait();
    CodeBuffer& buffer = moved_codes(layer);
    const std::vector<Copy> copies = copies_into(buffer, own, path.memory);
    std::int64_t bytes = 0;
    for (const Copy& c : copies) bytes += static_cast<std::int64_t>(c.bytes);
    buffer.fill(copies, bytes * s_.codes.bits, path);
  }

  std::vector<std::pair<std::string, double>> counters() const override {
    int most = 0;
    for (const Layer& layer : layers_) {
      if (layer.index == nullptr) continue;
      layer.index->wait();
      most = std::max(most, layer.index->iterations());
    }
    return {{"kmeans_iterations", most}};
  }

  /// Codes -> estimated scores -> softmax over the candidates -> summed over the heads of a set ->
  /// top-k between the sinks and the local window.
  Selection select(const LayerView& view) override {
    Layer& layer = layers_[static_cast<std::size_t>(view.layer)];
    if (layer.index == nullptr) return {};
    layer.index->wait();
    CodeBuffer& codes = codes_on_device(view, layer);
    code_what_left_the_window(view, layer, codes);
    const std::size_t sets = view.sets.size();
    const std::int64_t dim = view.shape.head_dim, heads = view.heads_per_set();
    std::int64_t floats = 0;
    for (const KvHeadCache& set : view.sets) floats += (heads + 1) * candidates(layer, set);
    float* memory = view.scratch->get(static_cast<std::size_t>(floats));
    std::vector<CodeScoreJob> scores;
    std::vector<ReduceHeadsJob> reductions;
    std::vector<TopKJob> best;
    std::vector<std::vector<std::int32_t>> chosen(sets);
    for (std::size_t s = 0; s < sets; ++s) {
      const std::int64_t n = candidates(layer, view.sets[s]);
      if (n <= layer.chosen) continue;  // all of them
      const MatrixView<float> estimates(memory, heads, n), summed(memory + heads * n, 1, n);
      memory += (heads + 1) * n;
      scores.push_back({.q = MatrixView(view.queries.data, view.shape.heads, dim)
                                 .rows_at(static_cast<std::int64_t>(s) * heads, heads),
                        .centroids = centroids(layer, s),
                        .parts = s_.codes.parts,
                        .codes = codes.row(s * parts()),
                        .code_stride = codes.stride(),
                        .out = estimates});
      reductions.push_back({estimates, HeadReduction::kSumOfSoftmax, summed});
      best.push_back({{summed.data, static_cast<std::size_t>(n)}, layer.chosen, &chosen[s]});
    }
    view.backend->score_codes(view.scale, scores);
    view.backend->reduce_heads(reductions);
    view.backend->top_k(best);

    Selection out;
    for (std::size_t s = 0; s < sets; ++s) {
      const int n = view.sets[s].size(), between = candidates(layer, view.sets[s]);
      if (between <= layer.chosen) {
        out.slots.push_back(all_slots(n));
        continue;
      }
      std::vector<std::int32_t> slots = all_slots(s_.sinks);
      for (const std::int32_t j : chosen[s]) slots.push_back(s_.sinks + j);
      out.slots.push_back(
          with_tail(std::move(slots), s_.sinks + between, n));  // [sinks + k + local + 1]
    }
    return out;
  }

 private:
  struct Layer {
    int local = 0, chosen = 0;  ///< tokens
    std::shared_ptr<const CodeIndex> index;
    std::vector<std::vector<std::uint8_t>> appended;  ///< [sets * parts]: codes after the index's
    std::shared_ptr<const Buffer> centroids;          ///< of all sets, in the backend's memory
    CodeBuffer codes;                                 ///< if the layer is on the device
  };

  std::size_t parts() const { return static_cast<std::size_t>(s_.codes.parts); }

  /// The tokens of a set between the sinks and the local window.
  int candidates(const Layer& layer, const KvHeadCache& set) const {
    return std::max(0, set.size() - 1 - layer.local - s_.sinks);
  }

  /// Codes of row r = set * parts + part that the index has.
  std::span<const std::uint8_t> indexed(const Layer& layer, std::size_t r) const {
    return layer.index->codes(r / parts(), static_cast<int>(r % parts()));
  }

  /// Two layers at a time have their codes on the device.
  CodeBuffer& moved_codes(int layer) { return moved_[static_cast<std::size_t>(layer) % 2]; }

  /// The copies of all codes that the host has, and room for one more.
  std::vector<Copy> copies_into(CodeBuffer& buffer, const Layer& layer,
                                const std::shared_ptr<Memory>& memory) const {
    const std::size_t rows = layer.appended.size();
    std::int64_t most = 0;
    for (std::size_t r = 0; r < rows; ++r)
      most = std::max(most, std::ssize(indexed(layer, r)) + std::ssize(layer.appended[r]));
    if (!buffer.has_room(most + 1)) buffer.make_room(rows, most + 1, memory);
    std::vector<Copy> copies;
    for (std::size_t r = 0; r < rows; ++r) {
      auto* to = reinterpret_cast<std::byte*>(buffer.row(r));
      for (const std::span<const std::uint8_t> codes :
           {indexed(layer, r), std::span<const std::uint8_t>(layer.appended[r])}) {
        if (codes.empty()) continue;
        copies.push_back({to, reinterpret_cast<const std::byte*>(codes.data()), codes.size()});
        to += codes.size();
      }
    }
    return copies;
  }

  CodeBuffer& codes_on_device(const LayerView& view, Layer& layer) {
    const std::shared_ptr<Memory>& memory = view.backend->memory();
    if (layer.centroids == nullptr) {
      const MatrixView<const float> first = layer.index->centroids(0);  // the others follow it
      const std::size_t floats =
          view.sets.size() * static_cast<std::size_t>(first.rows * first.columns);
      auto centroids = std::make_shared<Buffer>(floats * sizeof(float), memory);
      memory->copy(std::array{copy_of(first.data, centroids->as<float>(), floats)});
      layer.centroids = std::move(centroids);
    }
    if (view.index_path.link) {
      CodeBuffer& buffer = moved_codes(view.layer);
      buffer.wait();
      return buffer;
    }
    for (std::size_t r = 0; r < layer.appended.size(); ++r) {
      const std::int64_t have = std::ssize(indexed(layer, r)) + std::ssize(layer.appended[r]);
      if (layer.codes.has_room(have + 1)) continue;
      memory->copy(copies_into(layer.codes, layer, memory));
      break;
    }
    return layer.codes;
  }

  /// The centroids of a set on the device: [parts * 2^bits, head_dim / parts].
  static MatrixView<const float> centroids(const Layer& layer, std::size_t set) {
    const MatrixView<const float> host = layer.index->centroids(set);
    return {
        layer.centroids->as<float>() + static_cast<std::int64_t>(set) * host.rows * host.columns,
        host.rows, host.columns};
  }

  /// Tokens that left the local window get the codes of the nearest centroids.
  void code_what_left_the_window(const LayerView& view, Layer& layer, CodeBuffer& codes) {
    const std::int64_t dim = view.shape.head_dim, part_dim = dim / s_.codes.parts;
    std::vector<int> coded(view.sets.size());
    std::int64_t rows = 0;
    for (std::size_t s = 0; s < view.sets.size(); ++s) {
      const std::size_t r = s * parts();
      coded[s] = static_cast<int>(indexed(layer, r).size() + layer.appended[r].size());
      rows += std::max(0, candidates(layer, view.sets[s]) - coded[s]);
    }
    if (rows == 0) return;
    float* memory = view.scratch->get(static_cast<std::size_t>(rows * dim));
    std::vector<ReadKeysJob> reads;
    std::vector<NearestJob> nearest;
    std::vector<Copy> copies;
    for (std::size_t s = 0; s < view.sets.size(); ++s) {
      const std::int64_t count = candidates(layer, view.sets[s]) - coded[s];
      if (count <= 0) continue;
      const MatrixView<float> keys(memory, count, dim);
      memory += count * dim;
      reads.push_back({&view.sets[s], s_.sinks + coded[s], false, keys});
      for (std::size_t p = 0; p < parts(); ++p) {
        const std::int64_t part = static_cast<std::int64_t>(p), all = s_.codes.count();
        std::vector<std::uint8_t>& host = layer.appended[s * parts() + p];
        std::uint8_t* device = codes.row(s * parts() + p) + coded[s];
        nearest.push_back({keys.columns_at(part * part_dim, part_dim),
                           centroids(layer, s).rows_at(part * all, all), device});
        const auto had = host.size(), more = static_cast<std::size_t>(count);
        host.resize(had + more);
        copies.push_back({reinterpret_cast<std::byte*>(host.data() + had),
                          reinterpret_cast<const std::byte*>(device), more});
      }
    }
    view.backend->read_keys(reads);
    view.backend->assign_nearest(nearest);
    view.backend->memory()->copy(copies);
  }

  Settings s_;
  std::vector<Layer> layers_;
  std::array<CodeBuffer, 2> moved_;
};

}  // namespace

/// PQCache (Zhang et al., 2024): keys are product-quantised behind the prefill; each step estimates
/// all scores from codes, and fetches the keys and values of the best tokens from host memory,
/// beside a block cache on the device (section 3, algorithms 1 and 2).
MethodInfo pqcache() {
  using Kind = ParameterInfo::Kind;
  return {
      .name = "pqcache",
      .summary = "estimates scores from product-quantised keys and reads the best tokens",
      .paper =
          "Zhang et al., PQCache: Product Quantization-based KVCache for Long Context LLM "
          "Inference, 2024",
      .budget_unit =
          "tokens read per KV head and step: a share counts the prompt without its sinks, a number "
          "counts the sinks too; recent and best tokens are rounded down each; the current token "
          "is free",
      .deviations =
          "sinks and the half that goes to recent tokens come from its scripts; the current token "
          "is read before an old one leaves the local window; ties go to the lower position; "
          "k-means as scikit-learn's, but for what kmeans.h says; prompt tokens of the local "
          "window get codes of their own keys, where its code has those of stale rows",
      .parameters = {{"budget", Kind::kBudget, "0.2", "tokens or share", "tokens read per step"},
                     {"sinks", Kind::kInteger, "32", "tokens", "first tokens that are always read"},
                     {"local", Kind::kNumber, "0.5", "share",
                      "part of the budget that goes to the most recent tokens", 0, 1},
                     {"m", Kind::kInteger, "2", "parts", "of a key, each with a code of its own", 1,
                      16},
                     {"b", Kind::kInteger, "6", "bits", "of a code", 1, 8},
                     {"max_iter", Kind::kInteger, "10", "iterations",
                      "of k-means, at most; 0: as many as `costs` leave time for", 0, 300},
                     {"costs", Kind::kFile, "none", "file",
                      "what prefill and clustering take, as fit-costs writes it"}},
      .make =
          [](const Parameters& p) {
            const auto costs = p.file("costs");
            if ((p.integer("max_iter") == 0) != costs.has_value()) {
              throw input_error(
                  "pqcache: found max_iter={} {} costs, expected max_iter=0 with them "
                  "and another number without",
                  p.integer("max_iter"), costs ? "with" : "without");
            }
            Policies out;
            out.selection = std::make_unique<PqCache>(PqCache::Settings{
                .budget = p.budget("budget"),
                .sinks = p.integer("sinks"),
                .local = p.number("local"),
                .codes = {p.integer("m"), p.integer("b"), p.integer("max_iter")},
                .costs = costs ? std::optional(ClusterCosts::load(*costs)) : std::nullopt});
            return out;
          },
      .placement = {{"placement", "host"},
                    {"cache_tokens", "4096"},
                    {"cache_block", "128"},
                    {"cache_rule", "lfu"}}};
}

}  // namespace turnbench
