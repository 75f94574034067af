#include "methods/parts/chunk_index.h"

#include <algorithm>
#include <string>

#include <fmt/format.h>

#include "inference/backend/backend.h"

namespace turnbench {

void ChunkIndex::extend(const LayerView& view, const Size& size) {
  const int known = chunks(), prompt = view.sets.front().size();
  std::string history;  // of the index, which otherwise depends only on the tokens
  for (const auto& part : landmarks_) {
    history += fmt::format(" {}-{}/{}", part->settings().first, part->settings().end,
                           part->settings().outliers);
  }
  if (size.chunks > known) {
    ChunkLandmarks::Settings part{size.chunk, known, size.chunks, size.outliers};
    if (known > 0) {  // the same share of outliers as among the first chunks
      const ChunkLandmarks::Settings& first = landmarks_.front()->settings();
      part.outliers = static_cast<int>(std::int64_t{first.outliers} * (size.chunks - known) /
                                       (first.end - first.first));
    }
    landmarks_.push_back(view.memo->get<ChunkLandmarks>(
        fmt::format("chunk landmarks {} {}{} {}-{}", size.chunk, part.outliers, history, known,
                    size.chunks),
        [&] { return std::make_shared<ChunkLandmarks>(view, part); }));
  }
  if (prompt == tokens()) return;
  std::string parts = fmt::format("low-rank keys {}", size.rank);
  for (const auto& part : keys_) parts += fmt::format(" {}", part->end());
  keys_.push_back(view.memo->get<LowRankKeys>(parts, [&] {
    return keys_.empty() ? std::make_shared<LowRankKeys>(view, prompt, size.rank)
                         : std::make_shared<LowRankKeys>(view, keys_.back(), prompt);
  }));
}

std::vector<std::int32_t> ChunkIndex::outliers(std::size_t set) const {
  std::vector<std::int32_t> out;
  for (const auto& part : landmarks_) {
    const auto more = part->outliers(set);
    out.insert(out.end(), more.begin(), more.end());
  }
  return out;
}

std::int64_t ChunkIndex::landmarks(std::size_t set) const {
  std::int64_t out = 0;
  for (const auto& part : landmarks_) out += std::ssize(part->chunks(set));
  return out;
}

std::vector<std::int32_t> ChunkIndex::chunks_of(std::size_t set,
                                                std::span<const std::int32_t> landmarks) const {
  std::vector<std::int32_t> out;
  auto part = landmarks_.begin();
  std::int32_t before = 0;  // landmarks of the preceding parts
  for (const std::int32_t i : landmarks) {
    while (i - before >= std::ssize((*part)->chunks(set)))
      before += static_cast<std::int32_t>(std::ssize((*part++)->chunks(set)));
    out.push_back((*part)->chunks(set)[i - before]);
  }
  return out;
}

void ChunkIndex::add_scores(const LayerView& view, std::size_t set, MatrixView<float> scores,
                            SelectionJobs& jobs) const {
  std::int64_t column = 0;
  for (const auto& part : landmarks_) {
    const std::int64_t count = std::ssize(part->chunks(set));
    if (count == 0) continue;
    jobs.pages.push_back({view.step_queries(set), part->landmarks(set),
                          view.sets[set].layout().dtype, scores.columns_at(column, count)});
    column += count;
  }
}

void ChunkIndex::rebuild_keys(const LayerView& view, const MissingKeys& missing) const {
  using Run = RebuildKeysJob::Run;
  // For each set, the runs of each part of the keys.
  std::vector<std::vector<std::vector<Run>>> runs(missing.sets.size(),
                                                  std::vector<std::vector<Run>>(keys_.size()));
  for (const SlotCopy& c : missing.tokens) {
    for (std::size_t k = 0; k < keys_.size(); ++k) {
      const std::int32_t begin = std::max(c.host, keys_[k]->first()),
                         end = std::min(c.host + c.count, keys_[k]->end());
      if (begin >= end) continue;
      runs[c.set][k].push_back({begin - keys_[k]->first(), c.device + begin - c.host, end - begin});
    }
  }
  std::vector<RebuildKeysJob> jobs;
  for (std::size_t s = 0; s < runs.size(); ++s) {
    for (std::size_t k = 0; k < keys_.size(); ++k) {
      if (runs[s][k].empty()) continue;
      jobs.push_back({&missing.sets[s], runs[s][k], keys_[k]->coefficients(), keys_[k]->basis(s),
                      missing.rope});
    }
  }
  view.backend->rebuild_keys(jobs);
}

std::size_t ChunkIndex::key_bytes() const {
  std::size_t out = 0;
  for (const auto& part : keys_) out += part->bytes();
  return out;
}

}  // namespace turnbench
