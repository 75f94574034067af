#include "methods/parts/window_blocks.h"

#include <algorithm>
#include <array>
#include <utility>

#include "methods/parts/cached_keys.h"
#include "methods/parts/scores.h"
#include "methods/parts/top_k_selection.h"

namespace turnbench {
namespace {

constexpr int kRememberedRows = 128;       // rows of an answer whose masses are added together
constexpr std::int64_t kLeastBlocks = 16;  // minimal capacity of the buffer of representatives
constexpr std::int64_t kMadeAtOnce = 16;   // blocks whose keys are read together

/// The mean of the rows' clamped queries, in the backend's memory: [query heads * head_dim].
const float* mean_query(const LayerView& view) {
  const MatrixView<const float>& q = view.far_queries;
  if (q.rows == 1) return q.data;
  const auto width = static_cast<std::size_t>(q.columns);
  std::vector<float> rows(static_cast<std::size_t>(q.rows) * width), mean(width);
  view.backend->memory()->copy_floats(q.data, rows.data(), rows.size());
  std::vector<double> sums(width);
  for (std::size_t r = 0; r < static_cast<std::size_t>(q.rows); ++r) {
    for (std::size_t i = 0; i < width; ++i) sums[i] += static_cast<double>(rows[r * width + i]);
  }
  for (std::size_t i = 0; i < width; ++i)
    mean[i] = static_cast<float>(sums[i] / static_cast<double>(q.rows));
  float* out = view.scratch->floats(width);
  view.backend->memory()->copy_floats(mean.data(), out, width);
  return out;
}

}  // namespace

float* SharedFloats::own(std::int64_t size, std::int64_t kept,
                         const std::shared_ptr<Memory>& memory) {
  if (floats_ == nullptr || floats_.use_count() > 1 || this->size() < size) {
    const auto larger = std::make_shared<Buffer>(
        static_cast<std::size_t>(std::max(size, this->size())) * sizeof(float), memory);
    if (kept > 0) memory->copy(std::array{copy_of(data(), larger->as<float>(), kept)});
    floats_ = larger;
  }
  return data();
}

std::vector<std::vector<std::int32_t>> WindowBlocks::best(const LayerView& view, int count,
                                                          bool per_query_head) const {
  const std::int64_t heads = view.shape.heads, dim = view.shape.head_dim;
  std::vector<std::vector<std::int32_t>> out(per_query_head ? heads : 1, all_slots(blocks_));
  if (blocks_ <= count) return out;
  const MatrixView<const float> queries(mean_query(view), heads, dim),
      vectors(representatives_.data(), blocks_, heads * dim);
  const MatrixView<float> scores = view.scratch->matrix(heads, blocks_);
  SelectionJobs jobs;
  for (std::int64_t h = 0; h < heads; ++h) {
    jobs.vectors.push_back(
        {queries.rows_at(h, 1), vectors.columns_at(h * dim, dim), scores.rows_at(h, 1)});
  }
  MatrixView<float> ranked = scores;
  if (!per_query_head) {
    ranked = view.scratch->matrix(1, blocks_);
    jobs.reductions.push_back({scores, HeadReduction::kSum, ranked});
  }
  for (std::size_t i = 0; i < out.size(); ++i) {
    const float* row = ranked.row(static_cast<std::int64_t>(i));
    jobs.choices.push_back({{row, static_cast<std::size_t>(blocks_)}, count, &out[i]});
  }
  jobs.run(*view.backend, 1);
  return out;
}

void WindowBlocks::grow(std::int32_t tokens, int heads) {
  const std::int64_t more = tokens - tokens_;
  if (mass_tokens_ + more > mass_room_) {
    const std::int64_t room = 2 * (mass_tokens_ + more);
    std::vector<float> larger(room * heads);
    for (int h = 0; h < heads; ++h)
      std::copy_n(masses_.begin() + h * mass_room_, mass_tokens_, larger.begin() + h * room);
    masses_ = std::move(larger);
    mass_room_ = room;
  }
  mass_tokens_ += more;
  tokens_ = tokens;
}

void WindowBlocks::drop(std::int64_t count, std::int64_t kept, int heads) {
  for (int h = 0; h < heads; ++h) {
    float* row = masses_.data() + h * mass_room_;
    std::copy(row + count, row + count + kept, row);
    std::fill(row + kept, row + kept + count, 0.0f);
  }
  mass_tokens_ -= count;
}

void WindowBlocks::add_rows(const LayerView& view, MatrixView<const float> lse, int window) {
  add_masses(view, view.queries, lse, view.first_position, view.rows, window);
}

void WindowBlocks::remember_row(const LayerView& view, MatrixView<const float> lse) {
  const std::int64_t width = view.queries.columns, heads = view.shape.heads, row = remembered_;
  const std::shared_ptr<Memory>& memory = view.backend->memory();
  float* queries = queries_.own(kRememberedRows * width, row * width, memory);
  float* of_heads = lse_.own(kRememberedRows * heads, row * heads, memory);
  memory->copy(std::array{copy_of(view.queries.data, queries + row * width, width),
                          copy_of(lse.data, of_heads + row * heads, heads)});
  ++remembered_;
}

bool WindowBlocks::remembers_enough() const {
  return remembered_ == kRememberedRows;
}

void WindowBlocks::add_remembered(const LayerView& view, int window) {
  if (remembered_ == 0) return;
  const std::int64_t heads = view.shape.heads, width = heads * view.shape.head_dim;
  add_masses(view, {queries_.data(), remembered_, width}, {lse_.data(), remembered_, heads},
             tokens_ - remembered_, 1, window);
  remembered_ = 0;
}

/// Rows have positions first, first + 1, ...  pass_rows: as in StatisticRows.
void WindowBlocks::add_masses(const LayerView& view, MatrixView<const float> q,
                              MatrixView<const float> lse, std::int32_t first, int pass_rows,
                              int window) {
  const std::int32_t loose = first_loose(), begin = std::max(loose, first - window + 1),
                     end = first + static_cast<std::int32_t>(q.rows);
  const std::vector<std::int32_t> slots = slots_between(begin, end),
                                  positions = slots_between(first, end);
  const MatrixView<float> masses(masses_.data() + begin - loose, view.shape.heads, end - begin,
                                 mass_room_);
  const std::int64_t heads = view.heads_per_set(), dim = view.shape.head_dim;
  if (windows_ == nullptr) {
    windows_ = std::make_shared<KvPool>(
        PageLayout{view.shape.head_dim, view.sets.front().layout().dtype}, view.backend->memory());
  }
  std::vector<KvHeadCache> keys;
  std::vector<ColumnJob> jobs;
  keys.reserve(view.sets.size());
  for (std::size_t s = 0; s < view.sets.size(); ++s) {
    const std::int64_t head = static_cast<std::int64_t>(s) * heads;
    keys.push_back(view.sets[s].gathered(slots, windows_));
    ColumnJob& job = jobs.emplace_back();
    job.keys = &keys.back();
    job.q = q.columns_at(head * dim, heads * dim);
    job.positions = positions.data();
    job.pass_rows = pass_rows;
    job.sliding_window = window;
    job.lse = lse.columns_at(head, heads);
    job.sums = masses.rows_at(head, heads);
  }
  view.backend->add_column_sums(view.scale, jobs);
}

void WindowBlocks::take_blocks(const LayerView& view, int window) {
  const int heads = view.shape.heads;
  if (sinks_ < s_.sinks && loose() > window) {
    const std::int32_t taken = std::min(s_.sinks - sinks_, loose() - window);
    drop(taken, loose() - taken, heads);
    sinks_ += taken;
  }
  const std::int32_t left = loose() - window, more = left >= s_.block ? left / s_.block : 0;
  if (more == 0) return;
  const std::int64_t width = std::int64_t{heads} * view.shape.head_dim, kept = blocks_ * width,
                     size = kept + more * width;
  const std::int64_t room =
      representatives_.size() >= size ? size : std::max(2 * size, kLeastBlocks * width);
  float* to = representatives_.own(room, kept, view.backend->memory()) + kept;
  for (std::int64_t at = 0; at < more; at += kMadeAtOnce)
    represent(view, at, std::min<std::int64_t>(kMadeAtOnce, more - at), to + at * width);
  drop(more * s_.block, loose() - more * s_.block, heads);
  blocks_ += more;
}

/// Writes the representatives of `count` new blocks from block `first` on, counted from the first
/// loose token.
void WindowBlocks::represent(const LayerView& view, std::int64_t first, std::int64_t count,
                             float* out) const {
  const std::int64_t heads = view.shape.heads;
  const auto dim = static_cast<std::size_t>(view.shape.head_dim);
  const int chosen = std::min(s_.representatives, s_.block);
  std::vector<RowOfSet> rows;  // [blocks, query heads, chosen]
  for (std::int64_t b = first; b < first + count; ++b) {
    for (std::int64_t h = 0; h < heads; ++h) {
      const KvHeadCache& set = view.sets[h / view.heads_per_set()];
      const std::span<const float> masses(masses_.data() + h * mass_room_ + b * s_.block, s_.block);
      for (const std::int32_t i : top_k(masses, chosen))
        rows.push_back({&set, first_loose() + static_cast<std::int32_t>(b) * s_.block + i});
    }
  }
  const std::vector<float> keys = rows_on_host(view, rows, KvRow::kPreRopeKey);
  std::vector<float> means;
  for (std::size_t i = 0; i < rows.size(); i += static_cast<std::size_t>(chosen)) {
    for (std::size_t d = 0; d < dim; ++d) {
      double sum = 0;
      for (std::size_t j = i; j < i + static_cast<std::size_t>(chosen); ++j)
        sum += static_cast<double>(keys[j * dim + d]);
      means.push_back(static_cast<float>(sum / chosen));
    }
  }
  view.backend->memory()->copy_floats(means.data(), out, means.size());
}

std::size_t WindowBlocks::bytes(const PromptSize& size, int block, std::int64_t read) {
  const std::int64_t heads = size.shape.heads;
  const auto vectors =
                 static_cast<std::size_t>(2 * size.tokens / block * heads * size.shape.head_dim),
             masses = static_cast<std::size_t>(2 * heads * read);
  return (vectors + masses) * sizeof(float) + 2 * size.key_elements(read) * size_of(size.dtype);
}

}  // namespace turnbench
