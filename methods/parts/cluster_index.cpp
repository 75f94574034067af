#include "methods/parts/cluster_index.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <queue>
#include <utility>

#include "common/error.h"
#include "inference/backend/backend.h"
#include "inference/kv/slot_set.h"

namespace turnbench {

void ClusterIndex::Batch::wait(const std::shared_ptr<Memory>& memory) {
  if (centroids) return;
  clusters->wait();
  const MatrixView<const float> host = clusters->centroids();
  const auto count = static_cast<std::size_t>(host.rows * host.columns);
  auto buffer = std::make_shared<Buffer>(count * sizeof(float), memory);
  memory->copy(std::array{copy_of(host.data, buffer->as<float>(), count)});
  centroids = std::move(buffer);
}

void ClusterIndex::add_prompt(const LayerView& view, std::span<const KeyClusters::Part> parts,
                              const KeyClusters::Settings& settings, const std::string& key) {
  const auto cluster = [&] { return std::make_shared<KeyClusters>(view, parts, settings); };
  // A step may have to cluster the prompt, too: then the clusters are this sequence's own.
  batches_.push_back({shared_result<KeyClusters>(view.memo, key, cluster)});
  prompt_batches_ = batches_.size();
}

void ClusterIndex::add_answer(const LayerView& view, std::span<const KeyClusters::Part> parts,
                              const KeyClusters::Settings& settings) {
  batches_.push_back({std::make_shared<KeyClusters>(view, parts, settings)});
}

ClusterIndex::Scores ClusterIndex::score(const LayerView& view) {
  const std::int64_t heads = view.heads_per_set(), dim = view.shape.head_dim;
  Scores out;
  out.heads_per_set_ = heads;
  for (Batch& batch : batches_) batch.wait(view.backend->memory());
  std::int64_t floats = 0;
  for (std::size_t s = 0; s < view.sets.size(); ++s) {
    std::int64_t clusters = 0;
    for (const Batch& batch : batches_) clusters += batch.clusters->clusters(s);
    out.first_.push_back(floats);
    out.clusters_.push_back(clusters);
    floats += heads * clusters;
  }
  out.all_.resize(static_cast<std::size_t>(floats));
  float* memory = view.scratch->floats(out.all_.size());
  std::vector<VectorScoreJob> jobs;
  for (std::size_t s = 0; s < view.sets.size(); ++s) {
    const MatrixView<float> rows(memory + out.first_[s], heads, out.clusters_[s]);
    std::int64_t column = 0;
    for (const Batch& batch : batches_) {
      const std::int64_t count = batch.clusters->clusters(s);
      if (count == 0) continue;
      const float* centroids =
          batch.centroids->as<float>() + batch.clusters->clusters_before(s) * dim;
      jobs.push_back(
          {view.step_queries(s), {centroids, count, dim}, rows.columns_at(column, count)});
      column += count;
    }
  }
  view.backend->score_vectors(1, jobs);
  view.backend->memory()->copy_floats(memory, out.all_.data(), out.all_.size());
  return out;
}

void ClusterIndex::append_best(std::size_t set, std::span<const float> scores, std::int32_t size,
                               int count, std::vector<std::int32_t>& slots) const {
  std::int64_t tokens = 0;
  for (const Batch& batch : batches_) tokens += batch.clusters->tokens(set);
  auto left = static_cast<std::size_t>(std::min<std::int64_t>(count, tokens));
  slots.reserve(slots.size() + left);
  SlotSet chosen(size);
  std::vector<std::pair<float, std::int32_t>> clusters;  // score, -number: ties to the lower one
  for (std::size_t i = 0; i < scores.size(); ++i) {
    if (std::isnan(scores[i])) throw runtime_error("cluster {}: found the score NaN", i);
    clusters.emplace_back(scores[i], -static_cast<std::int32_t>(i));
  }
  std::priority_queue best(std::less<>(), std::move(clusters));
  for (; left > 0; best.pop()) {
    const auto all = members(set, -best.top().second);
    const auto taken = all.first(std::min(left, all.size()));
    chosen.add(taken);
    left -= taken.size();
  }
  chosen.append_to(slots);
}

std::span<const std::int32_t> ClusterIndex::members(std::size_t set, std::int32_t cluster) const {
  auto batch = batches_.begin();
  for (; cluster >= batch->clusters->clusters(set); ++batch)
    cluster -= batch->clusters->clusters(set);
  return batch->clusters->members(set, cluster);
}

}  // namespace turnbench
