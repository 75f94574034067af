#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <tuple>
#include <utility>
#include <vector>

#include "inference/backend/backend.h"
#include "inference/engine/pass.h"
#include "inference/kv/layer_kv.h"
#include "inference/kv/link.h"
#include "inference/model/arena.h"

namespace turnbench {

/// Settings of an engine.
struct EngineOptions {
  DType kv_dtype = DType::kF32;
  /// Maximal rows of one sequence per forward pass of `prefill` (chunked prefill).  Sequences with
  /// a sparse prefill are not chunked, or are chunked layer by layer (PromptSelection::chunkable).
  int prefill_chunk = 2048;
  int max_rows = 8192;           ///< maximal rows of all sequences per forward pass of `prefill`
  std::size_t memory_limit = 0;  ///< bytes of all stages together; 0: no limit
  /// Maximal bytes of keys and values on each stage's device, enforced by its allocator; 0: no
  /// limit.
  std::size_t kv_limit = 0;
  /// Bandwidth in 1e9 bytes/s to which the link between host and device is throttled; 0: no
  /// throttling.
  double link_gbps = 0;
  int background_threads = 1;  ///< threads that build the indices of selection policies
};

/// Consecutive layers on one backend, with their page pools and activations in its memory.
struct Stage {
  Stage(Backend& backend, int head_dim, const EngineOptions& options);
  /// The page pools of sequences with this row format, made when they are first needed.
  /// encoded: as in PageLayout.
  const std::shared_ptr<const KvStorage>& storage_of(bool pre_rope_keys,
                                                     EncodedBytes encoded) const;
  /// Calls visit(KvStorage) for the storage of every row format so far.
  template <typename Visit>
  void for_each_storage(const Visit& visit) const {
    for (const auto& [encoded, pair] : *storages_) {
      visit(*pair.first);
      visit(*pair.second);
    }
  }
  /// The pool of the decoded copies of encoded sets with the layout `encoded`.
  const std::shared_ptr<KvPool>& decoded_pool(const PageLayout& encoded);
  /// A matrix of activations that grows as needed.
  struct Rows : Scratch {
    using Scratch::Scratch;
    void make_room(std::int64_t rows, std::int64_t columns) {
      view = {get(rows * columns), rows, columns};
    }
    void release() {
      Scratch::release();
      view = {};
    }
    MatrixView<float> view;
  };
  /// Calls visit(array) for all arrays of activations and scratch of a stage.
  template <typename Self, typename Visit>
  static void for_each_scratch(Self& stage, const Visit& visit) {
    std::apply([&](auto&... array) { (visit(array), ...); },
               std::tie(stage.hidden, stage.cos, stage.sin, stage.q, stage.attended, stage.k,
                        stage.v, stage.pre_rope_k, stage.lse, stage.far_q, stage.far_attended,
                        stage.far_lse, stage.turns, stage.shown, stage.normed, stage.wide,
                        stage.logits, stage.rotated_keys, stage.table_cos, stage.table_sin,
                        stage.retriever_scratch, stage.selection_scratch));
  }

  Backend& backend;
  std::shared_ptr<Memory> memory;
  std::unique_ptr<Replay> replay;
  std::shared_ptr<Link> link, within;  ///< as in KvStorage
  PageLayout plain_layout;             ///< of pages without pre-RoPE keys and without a codec
  std::map<bool, std::shared_ptr<KvPool>> decoded_pools;  ///< by whether there are pre-RoPE keys
  std::shared_ptr<KvPool> gathered_pool;  ///< for the tokens that query blocks of a prompt read
  Rows hidden{memory};                    ///< [rows, hidden]
  Rows cos{memory}, sin{memory};          ///< [rows, head_dim / 2]
  Rows q{memory}, attended{memory};       ///< [rows, heads * head_dim]
  Rows k{memory}, v{memory}, pre_rope_k{memory};  ///< [rows, kv_heads * head_dim]
  Rows lse{memory};                               ///< [rows, heads]
  /// For rows with clamped attention (SelectionTraits::max_distance): their rotated queries, the
  /// attention to tokens at the maximal distance, and the tables for the rotation.
  Rows far_q{memory}, far_attended{memory}, far_lse{memory}, turns{memory};
  Rows shown{memory};   ///< [rows, hidden]: hidden states of a later stage, for a retriever on the
                        ///< first stage
  Rows normed{memory};  ///< [block, hidden]
  /// Scratch of a block: queries, keys and values [block, qkv width], or gate and up
  /// [block, 2 * ffn] and their product [block, ffn].
  Rows wide{memory};
  Rows logits{memory};  ///< [rows of a block whose logits are returned, vocab]
  Scratch rotated_keys{memory};
  Rows table_cos{memory}, table_sin{memory};  ///< of positions 0, 1, ...: [positions, head_dim / 2]
  Scratch retriever_scratch{memory};
  Arena selection_scratch{memory};

 private:
  /// Without and with pre-RoPE keys, by the bytes of encoded rows.
  using Storages =
      std::map<EncodedBytes,
               std::pair<std::shared_ptr<const KvStorage>, std::shared_ptr<const KvStorage>>>;
  std::size_t kv_limit_;  ///< as in EngineOptions
  std::unique_ptr<Storages> storages_;
};

/// The rows of all passes in the activations, pass after pass.
struct ForwardBatch {
  std::vector<std::int64_t> first_row;  // of each pass
  std::vector<std::int32_t> positions;  // of each row
  std::vector<DialogueView> dialogues;  // of each pass, including its own tokens
  std::int64_t rows = 0;
  std::int64_t block = 0;  // rows per block of the linear layers
  bool pre_rope_keys = false;
  bool decodes = true;     // all passes are decode steps
  bool layer_ends = true;  // no further rows of these passes will go through the layer
  /// The rows whose logits are returned, in order.  After its attention, the last layer computes
  /// only these.
  std::vector<std::int64_t> logit_rows;
  /// A prefetched selection of a layer in a decode step.
  struct Ahead {
    AppendPlan row;  // where the rows of the step's token are written
    Selection selection;
    Readable readable;
  };
  /// [passes][layers], or empty for a pass without prefetching; null for layers that select when
  /// they run.
  std::vector<std::vector<std::shared_ptr<const Ahead>>> ahead;
  const Ahead* ahead_of(std::size_t pass, int layer) const {
    return pass < ahead.size() && !ahead[pass].empty() ? ahead[pass][layer].get() : nullptr;
  }
  LayerObserver* residuals = nullptr;  // reads them
  std::int64_t hidden = 0, q_width = 0, kv_width = 0, ffn = 0;
  /// Adds the last `count` rows so far.
  void add_logit_rows(std::int64_t count) {
    for (std::int64_t r = rows - count; r < rows; ++r) logit_rows.push_back(r);
  }
  std::int64_t rows_of(std::size_t pass) const {
    return (pass + 1 < first_row.size() ? first_row[pass + 1] : rows) - first_row[pass];
  }
};

}  // namespace turnbench
