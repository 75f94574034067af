#include "methods/parts/cached_keys.h"

#include <algorithm>
#include <array>

namespace turnbench {
namespace {

/// Reads the rows of a job from a set in host memory.
void read_host_rows(const ReadRowsJob& job, MatrixView<float> out) {
  for (std::int64_t r = 0; r < out.rows; ++r) {
    const int slot = job.first + static_cast<int>(r);
    job.set->read(job.row, slot, out.row(r));
  }
}

}  // namespace

void read_keys_of_any_set(Backend& backend, std::span<const ReadRowsJob> jobs) {
  std::vector<ReadRowsJob> readable;
  for (const ReadRowsJob& job : jobs) {
    if (can_read(backend, *job.set)) {
      readable.push_back(job);
      continue;
    }
    const auto end = job.first + static_cast<int>(job.out.rows);
    const std::vector<float> rows = keys_on_host(backend, *job.set, job.first, end);
    backend.memory()->copy(std::array{copy_of(rows.data(), job.out.data, rows.size())});
  }
  if (!readable.empty()) backend.read_rows(readable);
}

std::vector<float> keys_on_host(Backend& backend, const KvHeadCache& set, int first, int end) {
  if (can_read(backend, set)) return backend.rows_on_host(set, KvRow::kKey, first, end);
  const std::int64_t rows = end - first, head_dim = set.layout().head_dim;
  std::vector<float> out(static_cast<std::size_t>(rows * head_dim));
  const ReadRowsJob job{&set, first, KvRow::kKey, MatrixView(out.data(), rows, head_dim)};
  read_host_rows(job, job.out);
  return out;
}

std::vector<float> rows_on_host(const LayerView& view, std::span<const RowOfSet> rows, KvRow row) {
  const std::int64_t dim = view.shape.head_dim, count = std::ssize(rows);
  std::vector<float> out(static_cast<std::size_t>(count * dim));
  const MatrixView<float> host(out.data(), count, dim);
  std::vector<ReadRowsJob> jobs;
  for (std::int64_t i = 0; i < count; ++i) {
    const RowOfSet& from = rows[i];
    jobs.push_back({from.set, from.slot, row, host.rows_at(i, 1)});
  }
  if (rows.empty()) return out;
  if (!can_read(*view.backend, *rows.front().set)) {
    for (const ReadRowsJob& job : jobs) read_host_rows(job, job.out);
    return out;
  }
  const Arena::Frame frame(*view.scratch);
  const MatrixView<float> on_device = view.scratch->matrix(count, dim);
  for (std::int64_t i = 0; i < count; ++i) jobs[i].out = on_device.rows_at(i, 1);
  view.backend->read_rows(jobs);
  view.backend->memory()->copy_floats(on_device.data, out.data(), out.size());
  return out;
}

std::vector<float> layer_keys_on_host(const LayerView& view, int first, int end, KvRow row) {
  constexpr int kAtOnce = 4096;  // slots in the memory of a device
  const std::int64_t head_dim = view.shape.head_dim, width = std::ssize(view.sets) * head_dim;
  Memory& memory = *view.backend->memory();
  std::vector<float> out(static_cast<std::size_t>((end - first) * width));
  for (int begin = first; begin < end; begin += kAtOnce) {
    const int count = std::min(kAtOnce, end - begin);
    const std::size_t floats = static_cast<std::size_t>(count) * static_cast<std::size_t>(width);
    float* to = out.data() + (begin - first) * width;
    const Arena::Frame frame(*view.scratch);
    const MatrixView<float> rows(memory.is_host() ? to : view.scratch->floats(floats), count,
                                 width);
    std::vector<ReadRowsJob> jobs;
    for (std::size_t s = 0; s < view.sets.size(); ++s) {
      jobs.push_back({&view.sets[s], begin, row,
                      rows.columns_at(static_cast<std::int64_t>(s) * head_dim, head_dim)});
    }
    view.backend->read_rows(jobs);
    if (!memory.is_host()) memory.copy_floats(rows.data, to, floats);
  }
  return out;
}

}  // namespace turnbench
