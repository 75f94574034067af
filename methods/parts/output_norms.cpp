#include "methods/parts/output_norms.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <numeric>

#include "methods/parts/scores.h"

namespace turnbench {
namespace {

constexpr int kTokensAtOnce = 256;

/// The parts of the output projection that read the query heads of a set: [heads] matrices [hidden,
/// head_dim].
std::vector<std::unique_ptr<WeightMatrix>> projections_of(const LayerView& view,
                                                          const KeptSet& set) {
  const WeightMatrix& all = *view.attention_out;
  const auto width = static_cast<std::size_t>(view.shape.head_dim);
  std::vector<std::unique_ptr<WeightMatrix>> out;
  for (int h = 0; h < set.heads; ++h) {
    out.push_back(
        view.backend->make_matrix(all.out(), view.shape.head_dim, DType::kF32, Math::kF32));
  }
  std::vector<float> row(static_cast<std::size_t>(all.in()));
  for (std::int64_t o = 0; o < all.out(); ++o) {
    all.read_row(o, row.data());
    for (int h = 0; h < set.heads; ++h) {
      const std::span part = std::span(row).subspan((set.first_head + h) * width, width);
      out[h]->set_rows(o, std::as_bytes(part).data(), DType::kF32, 1);
    }
  }
  return out;
}

/// The L1 norm of a row, in double precision; by eight sums that do not wait for each other.
double sum_of_sizes(std::span<const float> row) {
  std::array<double, 8> sums = {};
  const std::size_t whole = row.size() / sums.size() * sums.size();
  for (std::size_t i = 0; i < whole; i += sums.size())
    for (std::size_t k = 0; k < sums.size(); ++k) sums[k] += std::fabs(row[i + k]);
  for (std::size_t i = whole; i < row.size(); ++i) sums[0] += std::fabs(row[i]);
  return std::accumulate(sums.begin(), sums.end(), 0.0);
}

std::vector<float> compute_norms(const LayerView& view, const KeptSet& set) {
  const auto projections = projections_of(view, set);
  const auto width = static_cast<std::size_t>(view.attention_out->out());
  std::vector<double> sums(static_cast<std::size_t>(set.tokens), 0);
  for (int first = 0; first < set.tokens; first += kTokensAtOnce) {
    const int rows = std::min(kTokensAtOnce, set.tokens - first);
    const Arena::Frame frame(*view.scratch);
    const MatrixView<float> values = view.scratch->matrix(rows, view.shape.head_dim),
                            outputs = view.scratch->matrix(rows, view.attention_out->out());
    const KvHeadCache* read = nullptr;  // whose values are in `values`
    for (int h = 0; h < set.heads; ++h) {
      const KvHeadCache& cache = cache_of_head(view, set.first_head + h);
      if (&cache != read) {
        const ReadRowsJob job{&cache, first, KvRow::kValue, values};
        view.backend->read_rows({&job, 1});
        read = &cache;
      }
      view.backend->linear(values, *projections[h], nullptr, outputs);
      const std::vector<float> on_host = view.backend->rows_on_host(outputs, all_slots(rows));
      for (int i = 0; i < rows; ++i)
        sums[first + i] += sum_of_sizes(std::span(on_host).subspan(i * width, width));
    }
  }
  std::vector<float> out;
  for (const double sum : sums) out.push_back(static_cast<float>(sum / set.heads));
  return out;
}

}  // namespace

std::vector<float> output_norms(const LayerView& view, const KeptSet& set) {
  const std::string key = fmt::format("output norms {} {}", set.first_head, set.heads);
  return *shared_result<std::vector<float>>(view.memo, key, [&] {
    return std::make_shared<std::vector<float>>(compute_norms(view, set));
  });
}

}  // namespace turnbench
