#include "methods/product_quantizer.h"

#include <cassert>

#include "common/error.h"

namespace turnbench {

ProductQuantizer::ProductQuantizer(int head_dim, int partitions, int bits, std::int64_t rows)
    : head_dim_(head_dim), bits_(bits) {
  if (partitions < 1 || head_dim % partitions != 0) {
    throw input_error("product quantizer: found {} partitions, expected a divisor of {} dimensions",
                      partitions, head_dim);
  }
  if (bits < 1 || bits > 8)
    throw input_error("product quantizer: found {} bits per code, expected 1 to 8", bits);
  const std::vector<float> zeros(static_cast<std::size_t>(head_dim / partitions) << bits);
  const MatrixView centroids(zeros.data(), std::int64_t{1} << bits,
                             std::int64_t{head_dim / partitions});
  tables_.assign(static_cast<std::size_t>(partitions), CentroidTable(centroids));
  codes_.resize(static_cast<std::size_t>(rows) * tables_.size());
}

ProductQuantizer::Training ProductQuantizer::train(int partition, MatrixView<const float> vectors,
                                                   std::span<const std::int32_t> first,
                                                   int max_iterations) {
  assert(vectors.rows == rows() && vectors.columns == head_dim_);
  CentroidTable& table = tables_[static_cast<std::size_t>(partition)];
  if (static_cast<std::int64_t>(first.size()) != table.count()) {
    throw input_error("product quantizer: found {} first rows, expected {}", first.size(),
                      table.count());
  }
  const Clusters found =
      k_means(vectors.columns_at(partition * part(), part()), first, max_iterations);
  table = CentroidTable({found.centroids.data(), table.count(), part()});
  std::size_t at = static_cast<std::size_t>(partition);
  for (const std::int32_t label : found.labels) {
    codes_[at] = static_cast<std::uint8_t>(label);
    at += tables_.size();
  }
  return {.inertia = found.inertia, .iterations = found.iterations};
}

void ProductQuantizer::encode(std::span<const float> vector, std::span<std::uint8_t> codes) const {
  assert(static_cast<std::int64_t>(vector.size()) == head_dim_ && codes.size() == tables_.size());
  const float* from = vector.data();
  for (std::size_t i = 0; i < tables_.size(); ++i, from += part()) {
    std::int32_t label = 0;
    nearest_centroids({from, 1, part()}, tables_[i], Nearness::kDistance, {&label, 1});
    codes[i] = static_cast<std::uint8_t>(label);
  }
}

void ProductQuantizer::append(std::span<const float> vector) {
  const std::size_t size = codes_.size();
  codes_.resize(size + tables_.size());
  encode(vector, std::span(codes_).subspan(size));
}

std::vector<float> ProductQuantizer::lookup_tables(std::span<const float> query) const {
  assert(static_cast<std::int64_t>(query.size()) == head_dim_);
  const std::size_t count = std::size_t{1} << bits_;
  std::vector<float> out(tables_.size() * count);
  const float* from = query.data();
  for (std::size_t i = 0; i < tables_.size(); ++i, from += part())
    centroid_products(from, tables_[i], std::span(out).subspan(i * count, count));
  return out;
}

void ProductQuantizer::estimate(std::span<const float> tables, std::int64_t first,
                                std::span<float> scores) const {
  assert(first + static_cast<std::int64_t>(scores.size()) <= rows());
  assert(tables.size() == tables_.size() << bits_);
  const std::uint8_t* code = codes_.data() + static_cast<std::size_t>(first) * tables_.size();
  for (float& score : scores) {
    const float* table = tables.data();
    score = 0;
    for (std::size_t i = 0; i < tables_.size(); ++i, table += std::size_t{1} << bits_)
      score += table[*code++];
  }
}

std::int64_t ProductQuantizer::centroid_bytes() const {
  return tables_[0].bytes() * partitions();
}

}  // namespace turnbench
