#include <utility>

#include "common/error.h"
#include "inference/model/model_config.h"
#include "methods/method.h"
#include "methods/parts/block_pool.h"
#include "methods/parts/scores.h"
#include "methods/prefill/minference_config.h"

namespace turnbench {
namespace {

constexpr int kEstimationRows = 64;
constexpr int kForcedColumns = 30, kForcedOffsets = 100;  // the first ones, always chosen
constexpr int kSparseBlock = 64;                          // rows and keys of a block
constexpr int kSparseBlocksKept = 100;                    // key blocks per row block

class MInference : public Cloned<MInference, PrefillPolicy> {
 public:
  struct Settings {
    MInferenceConfig config;
    int first_layer;
    bool sparse_followup;
    HeadPattern::Granularity granularity;
  };
  explicit MInference(Settings s) : s_(std::move(s)) {}

  std::vector<HeadPattern> plan(const LayerView& view) override {
    s_.config.check_shape(view.shape);
    if (view.layer < s_.first_layer || (view.first_position > 0 && !s_.sparse_followup)) return {};
    std::vector<HeadPattern> out(static_cast<std::size_t>(view.shape.heads));
    view.stats.for_each_head([&](int head) { out[head] = pattern(view, head); });
    return out;
  }

 private:
  HeadPattern pattern(const LayerView& view, int head) const {
    const MInferenceConfig::Head& h = s_.config.head(view.layer, head);
    switch (h.kind) {
      case MInferenceConfig::Kind::kVerticalSlash:
        return vertical_slash(view, head, h);
      case MInferenceConfig::Kind::kStream:
        return {.kind = HeadPattern::Kind::kBand, .sinks = h.vertical, .local = h.slash};
      case MInferenceConfig::Kind::kBlockSparse:
        return block_sparse(view, head);
    }
    return {};
  }

  /// Attention of the last 64 rows, summed along columns and along diagonals -> top-k of each
  /// (Algorithm 2).
  HeadPattern vertical_slash(const LayerView& view, int head,
                             const MInferenceConfig::Head& h) const {
    LineMass attention = view.stats.line_mass(head, kEstimationRows);  // [slots], [offsets]
    HeadPattern p{.kind = HeadPattern::Kind::kVerticalSlash, .granularity = s_.granularity};
    p.columns = top_k_with_first(std::move(attention.vertical), kForcedColumns,
                                 std::max(h.vertical, kForcedColumns));
    p.offsets = top_k_with_first(std::move(attention.slash), kForcedOffsets, h.slash);
    const KvHeadCache& set = cache_of_head(view, head);
    for (std::int32_t& column : p.columns) column = set.position(column);
    return p;
  }

  /// Mean queries of row blocks, mean keys of key blocks -> their dot products -> top-k for each
  /// row block (Algorithm 3).  Empty places of a partial block count as zeros.
  HeadPattern block_sparse(const LayerView& view, int head) const {
    const BlockGrid grid(kSparseBlock, view.first_position);
    const BlockPool keys = pool_keys(*view.backend, cache_of_head(view, head), grid,
                                     view.first_position + view.rows);  // [key blocks]
    const BlockPool queries = pool_queries(view, head, kSparseBlock);   // [row blocks]
    const int first =
        grid.block_of(view.first_position);  // the key block on the first row block's diagonal
    HeadPattern p{.kind = HeadPattern::Kind::kBlocks, .block_size = kSparseBlock};
    for (int r = 0; r < queries.blocks(); ++r) {
      std::vector<float> logits;  // [key blocks up to the diagonal]
      for (int c = 0; c <= first + r; ++c)
        logits.push_back(
            static_cast<float>(dot(queries.sum(r), keys.sum(c)) / (kSparseBlock * kSparseBlock)));
      p.blocks.push_back(top_k(logits, kSparseBlocksKept));
    }
    return p;
  }

  Settings s_;
};

}  // namespace

MethodAction calibrate_minference();

/// Each head has a pattern that was chosen offline: vertical and slash lines estimated from the
/// last 64 rows, sinks with a local window, or blocks estimated from block means (MInference,
/// section 3 and Algorithms 1 to 3; details missing in the paper as in the official
/// implementation).
MethodInfo minference() {
  using Kind = ParameterInfo::Kind;
  return {
      .name = "minference",
      .summary =
          "sparse prefill with one pattern per head; by default lines that are estimated from the "
          "attention of the last rows",
      .paper =
          "Jiang et al., MInference 1.0: Accelerating Pre-filling for Long-Context LLMs via "
          "Dynamic Sparse Attention, 2024",
      .budget_unit = "lines per query head: columns and diagonals; every token is kept",
      .deviations =
          "later turns on a kept cache are sparse too, with key blocks aligned to the turn's first "
          "row; the reference harness computes them densely (followup=dense); without a pattern "
          "file all heads are vertical-slash with the sizes of "
          "the published Llama-3.1-8B file; fewer than 100 diagonals are an error, because the "
          "first 100 are always selected; the action `calibrate` writes a pattern file "
          "as the official search does",
      .parameters =
          {{"config", Kind::kFile, "none", "file of a model",
            "pattern file in MInference's JSON format (see the action calibrate); none: all heads "
            "have vertical and slash"},
           {"vertical", Kind::kInteger, "512", "lines", "columns per head, without a file"},
           {"slash", Kind::kInteger, "2048", "lines", "diagonals per head, without a file", 100},
           {"ratio", Kind::kNumber, "1", "factor", "factor for the sizes of all heads", 0, 1000},
           {"starting_layer", Kind::kInteger, "-1", "layer",
            "first sparse layer; lower layers are dense", -1},
           {"vs_mask", Kind::kChoice, "block64", "block64|line",
            "computed keys of lines: runs of 64 keys (a superset), or exactly the lines"},
           {"followup", Kind::kChoice, "sparse", "sparse|dense",
            "prefill of later turns on a kept cache"}},
      .make =
          [](const Parameters& p) {
            const auto file = p.file("config");
            return Policies{
                .prefill = std::make_unique<MInference>(MInference::Settings{
                    file ? MInferenceConfig::load(*file, p.number("ratio"))
                         : MInferenceConfig(p.integer("vertical"), p.integer("slash"),
                                            p.number("ratio")),
                    p.integer("starting_layer"), p.choice("followup") == "sparse",
                    p.choice("vs_mask") == "line" ? HeadPattern::Granularity::kLine
                                                  : HeadPattern::Granularity::kBlock64})};
          },
      .check_model =
          [](const Parameters& p, const ModelConfig& config) {
            const auto file = p.file("config");
            if (!file) return;
            MInferenceConfig::load(*file, p.number("ratio"))
                .check_shape({config.layers, config.heads, config.kv_heads, config.head_dim});
          },
      .actions = {calibrate_minference}};
}

}  // namespace turnbench
