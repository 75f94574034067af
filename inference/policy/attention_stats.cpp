#include "inference/policy/attention_stats.h"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <iterator>
#include <memory>
#include <utility>

#include "common/error.h"

namespace turnbench {
namespace {

constexpr int kRowsPerBlock = 64;  // rows whose probabilities are in memory at a time

std::int64_t padded_slots(int slots) {
  return (slots + kPageTokens - 1) / kPageTokens * kPageTokens;
}

}  // namespace

QueryTail::QueryTail(int capacity, std::int64_t width) : capacity_(capacity), width_(width) {
  rows_.resize(2 * capacity * width);
  positions_.resize(2 * static_cast<std::size_t>(capacity));
}

MatrixView<const float> QueryTail::queries() const {
  return {rows_.data() + first_ * width_, count_, width_};
}

const float* QueryTail::row(int i) const {
  assert(i >= 0 && i < count_);
  return queries().row(i);
}

void QueryTail::push(const float* query, std::int32_t position) {
  if (capacity_ == 0) return;
  if (count_ == capacity_) {
    ++first_;
    --count_;
  }
  if (first_ + count_ == 2 * capacity_) {
    std::memmove(rows_.data(), queries().data, count_ * width_ * sizeof(float));
    std::copy_n(positions_.begin() + first_, count_, positions_.begin());
    first_ = 0;
  }
  const int at = first_ + count_;
  std::copy_n(query, width_, rows_.data() + at * width_);
  positions_[at] = position;
  ++count_;
}

void QueryTail::assign_last(const QueryTail& other) {
  clear();
  for (int i = std::max(0, other.rows() - capacity_); i < other.rows(); ++i)
    push(other.row(i), other.positions()[i]);
}

void QueryTail::truncate_to_position(std::int32_t position) {
  while (count_ > 0 && positions()[count_ - 1] >= position) --count_;
}

AttentionStats::AttentionStats(Backend& backend, const ModelShape& shape, float scale,
                               int sliding_window, std::span<const KvHeadCache> sets,
                               QueryRows pass, const QueryTail* tail, ColumnMasses* columns,
                               std::uint64_t noise_seed)
    : backend_(backend),
      shape_(shape),
      scale_(scale),
      sliding_window_(sliding_window),
      sets_(sets),
      pass_(pass),
      tail_(tail),
      columns_(columns),
      noise_seed_(noise_seed) {}

AttentionStats AttentionStats::for_sets(std::span<const KvHeadCache> sets) const {
  return {backend_, shape_, scale_, sliding_window_, sets, pass_, tail_, nullptr, noise_seed_};
}

const KvHeadCache& AttentionStats::set_of(int head) const {
  const int heads_per_set = shape_.heads / static_cast<int>(sets_.size());
  return sets_[head / heads_per_set];
}

void AttentionStats::make_readable() {
  if (can_read(backend_, sets_.front())) return;
  const auto pool = std::make_shared<KvPool>(sets_.front().layout(), backend_.memory());
  std::vector<KvHeadCache> copies;
  std::vector<Copy> rows;
  for (const KvHeadCache& set : sets_)
    copies.emplace_back(pool).append_slots(set, all_slots(set.size()), rows);
  backend_.memory()->copy(rows);
  copies_ = std::make_shared<const std::vector<KvHeadCache>>(std::move(copies));
  sets_ = *copies_;
}

int AttentionStats::window_rows(int rows) const {
  return std::min(rows, tail_->rows());
}

void AttentionStats::for_each_head(const std::function<void(int)>& task) const {
  backend_.parallel_for(shape_.heads, [&](std::size_t h) { task(static_cast<int>(h)); });
}

QueryRows AttentionStats::window_queries(int rows) const {
  if (rows > tail_->capacity()) {
    throw runtime_error(
        "query window: found {} rows, expected at most the {} that the policies declare", rows,
        tail_->capacity());
  }
  const int count = window_rows(rows), first = tail_->rows() - count;
  if (count < 1) throw runtime_error("query window: found no row, expected at least one");
  return {tail_->queries().rows_at(first, count), tail_->positions() + first};
}

const HeadScores& AttentionStats::window_mass(int rows) {
  const QueryRows window = window_queries(rows);
  const int count = window.rows();
  const auto [found, is_new] = window_mass_.try_emplace(count);
  HeadScores& scores = found->second;
  if (!is_new) return scores;
  make_readable();
  scores.stride = padded_slots(longest_set(sets_));
  scores.data.assign(shape_.heads * scores.stride, 0);
  const std::int64_t group = shape_.heads / std::ssize(sets_), head_dim = shape_.head_dim;
  std::vector<LineMassJob> jobs;
  std::int64_t head = 0;
  for (const KvHeadCache& set : sets_) {
    LineMassJob& job = jobs.emplace_back();
    job.keys = &set;
    job.q = window.q.columns_at(head * head_dim, group * head_dim);
    job.positions = window.positions;
    job.pass_rows = pass_.rows();
    job.sliding_window = sliding_window_;
    job.vertical = scores.rows(shape_.heads).rows_at(head, group);
    head += group;
  }
  backend_.add_line_mass(scale_, jobs);
  for (int h = 0; h < shape_.heads; ++h) {
    multiply_adds_ += static_cast<double>(count) * set_of(h).size() * shape_.head_dim;
  }
  return scores;
}

const QueryMoments& AttentionStats::query_moments(int first_position) {
  ColumnMasses& all = columns_ == nullptr ? own_columns_ : *columns_;
  QueryMoments& out =
      all.moments.try_emplace(first_position, shape_.heads, shape_.head_dim).first->second;
  if (!counted_moments_.insert(first_position).second) return out;
  const std::span positions(pass_.positions, pass_.rows());
  const auto first = static_cast<int>(
      std::lower_bound(positions.begin(), positions.end(), first_position) - positions.begin());
  const int rows = pass_.rows() - first;
  for_each_head([&](int head) {
    for (int begin = first; begin < pass_.rows(); begin += kRowsPerBlock) {
      const int count = std::min(kRowsPerBlock, pass_.rows() - begin);
      out.add(head, queries(head, begin, count), positions.subspan(begin, count), shape_.rope);
    }
  });
  out.count_rows(rows);
  multiply_adds_ += static_cast<double>(rows) * shape_.heads * shape_.head_dim * shape_.head_dim;
  return out;
}

MatrixView<const float> AttentionStats::queries_of(int head) const {
  return pass_.q.columns_at(head * shape_.head_dim, shape_.head_dim);
}

std::vector<float> AttentionStats::queries(int head, int first, int rows) const {
  return backend_.rows_on_host(queries_of(head), slots_between(first, first + rows));
}

std::size_t AttentionStats::probabilities(int head, std::span<const int> rows,
                                          std::vector<float>& out) const {
  const KvHeadCache& set = set_of(head);
  // Rows that are a multiple of 4 KiB apart would map to few cache sets when read by columns.
  const std::int64_t slots = padded_slots(set.size()), count = std::ssize(rows);
  const std::int64_t ld = slots % 1024 == 0 ? slots + kPageTokens : slots;
  const std::vector<float> queries = backend_.rows_on_host(queries_of(head), rows);
  std::vector<std::int32_t> positions;
  for (const int row : rows) positions.push_back(pass_.positions[row]);
  out.resize(count * ld);
  backend_.row_probabilities(scale_, set, {queries.data(), count, shape_.head_dim},
                             positions.data(), sliding_window_, {out.data(), count, ld});
  return ld;
}

void AttentionStats::for_each_row(
    int head, int first, int rows,
    const std::function<void(std::int32_t, std::span<const float>)>& visit) const {
  const KvHeadCache& set = set_of(head);
  std::vector<float> cells;
  for (int begin = first; begin < first + rows; begin += kRowsPerBlock) {
    const std::vector<int> block =
        slots_between(begin, std::min(begin + kRowsPerBlock, first + rows));
    const std::size_t ld = probabilities(head, block, cells);
    for (std::size_t r = 0; r < block.size(); ++r) {
      const std::int32_t position = pass_.positions[block[r]];
      const auto seen = static_cast<std::size_t>(set.lower_bound(position + 1));
      visit(position, std::span(cells).subspan(r * ld, seen));
    }
  }
}

LineMass AttentionStats::line_mass(int head, int rows) const {
  const int count = std::min(rows, pass_.rows());
  return line_mass(head, pass_.rows() - count, count);
}

LineMass AttentionStats::line_mass(int head, int first, int rows) const {
  const KvHeadCache& set = set_of(head);
  const std::int32_t end = pass_.positions[first + rows - 1] + 1;
  LineMass mass{std::vector<float>(set.lower_bound(end)), std::vector<float>(end)};
  LineMassJob job;
  job.keys = &set;
  job.q = queries_of(head).rows_at(first, rows);
  job.positions = pass_.positions + first;
  job.pass_rows = pass_.rows();
  job.sliding_window = sliding_window_;
  job.vertical = MatrixView(mass.vertical.data(), 1, std::ssize(mass.vertical));
  job.slash = mass.slash.data();
  backend_.add_line_mass(scale_, {&job, 1});
  return mass;
}

}  // namespace turnbench
