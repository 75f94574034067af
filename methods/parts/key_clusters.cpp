#include "methods/parts/key_clusters.h"

#include <algorithm>
#include <numeric>

#include "methods/parts/cached_keys.h"
#include "methods/parts/kmeans.h"
#include "methods/parts/scores.h"

namespace turnbench {

KeyClusters::KeyClusters(const LayerView& view, std::span<const Part> parts,
                         const Settings& settings)
    : head_dim_(view.shape.head_dim) {
  std::int64_t clusters = 0;
  for (std::size_t s = 0; s < parts.size(); ++s) {
    const Part& part = parts[s];
    Set& set = work_->sets.emplace_back();
    set.part = part;
    set.before = clusters;
    clusters += part.clusters;
    if (part.clusters > 0)
      set.keys = keys_on_host(*view.backend, view.sets[s], part.slots.begin, part.slots.end);
  }
  work_->centroids.resize(static_cast<std::size_t>(clusters * head_dim_));
  job_ = view.background->start(
      parts.size(), [work = work_, settings, dim = head_dim_](std::size_t s) {
        Set& set = work->sets[s];
        if (set.part.clusters == 0) return;
        find(settings, set, MatrixView(set.keys.data(), std::ssize(set.keys) / dim, dim),
             MatrixView(work->centroids.data() + set.before * dim, set.part.clusters, dim));
        set.keys = {};
      });
}

void KeyClusters::find(const Settings& settings, Set& set, MatrixView<const float> keys,
                       MatrixView<float> centroids) {
  Random random = settings.random;
  const std::vector<std::int32_t> first = draw_rows(random, keys.rows, set.part.clusters);
  const Clusters found = cosine_k_means(keys, first, settings.iterations);
  std::copy(found.centroids.begin(), found.centroids.end(), centroids.data);
  set.offsets.assign(static_cast<std::size_t>(set.part.clusters) + 1, 0);
  for (const std::int32_t label : found.labels) ++set.offsets[static_cast<std::size_t>(label) + 1];
  std::partial_sum(set.offsets.begin(), set.offsets.end(), set.offsets.begin());
  std::vector<std::int32_t> next(set.offsets.begin(), set.offsets.end() - 1);
  set.slots.resize(found.labels.size());
  std::int32_t slot = set.part.slots.begin;
  for (const std::int32_t label : found.labels) {
    std::int32_t& at = next[label];
    set.slots[at++] = slot++;
  }
}

std::int64_t KeyClusters::tokens(std::size_t set) const {
  const Part& part = work_->sets[set].part;
  return part.clusters == 0 ? 0 : part.slots.end - part.slots.begin;
}

MatrixView<const float> KeyClusters::centroids() const {
  return {work_->centroids.data(), std::ssize(work_->centroids) / head_dim_, head_dim_};
}

std::span<const std::int32_t> KeyClusters::members(std::size_t set, std::int32_t cluster) const {
  const Set& own = work_->sets[set];
  const auto c = static_cast<std::size_t>(cluster);
  const auto begin = static_cast<std::size_t>(own.offsets[c]),
             end = static_cast<std::size_t>(own.offsets[c + 1]);
  return std::span(own.slots).subspan(begin, end - begin);
}

}  // namespace turnbench
