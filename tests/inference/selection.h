#pragma once

// Common parts of the tests of selection operations: arrays and sets in a backend's memory, and a
// run of all operations.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <memory>
#include <numeric>
#include <utility>
#include <vector>

#include "inference/backend/backend.h"
#include "tests/inference/reference.h"

namespace turnbench::test {

/// A copy of values in a backend's memory between guards, which must not change.
template <typename T>
class BackendArray {
 public:
  BackendArray(Backend& backend, const std::vector<T>& values)
      : memory_(backend.memory()),
        size_(values.size()),
        buffer_((size_ + 2 * kGuard) * sizeof(T), memory_) {
    std::vector<T> all(size_ + 2 * kGuard);
    std::memset(static_cast<void*>(all.data()), kPattern, all.size() * sizeof(T));
    std::copy(values.begin(), values.end(), all.begin() + kGuard);
    copy(all.data(), buffer_.data(), all.size());
  }
  /// `size` elements that are all the pattern of the guards.
  BackendArray(Backend& backend, std::size_t size)
      : BackendArray(backend, std::vector<T>(size, pattern())) {}

  T* data() { return buffer_.template as<T>() + kGuard; }
  std::vector<T> values() {
    std::vector<T> all(size_ + 2 * kGuard);
    copy(buffer_.data(), all.data(), all.size());
    const auto intact = [](const T& x) {
      using Bytes = std::array<std::byte, sizeof(T)>;
      return std::bit_cast<Bytes>(x) == std::bit_cast<Bytes>(pattern());
    };
    EXPECT_TRUE(std::all_of(all.begin(), all.begin() + kGuard, intact)) << "written before it";
    EXPECT_TRUE(std::all_of(all.end() - kGuard, all.end(), intact)) << "written behind it";
    return {all.begin() + kGuard, all.end() - kGuard};
  }

 private:
  static constexpr std::ptrdiff_t kGuard = 64;  // keeps the alignment
  static constexpr unsigned char kPattern = 0xA5;

  static T pattern() {
    T out;
    std::memset(static_cast<void*>(&out), kPattern, sizeof(T));
    return out;
  }
  void copy(const void* from, void* to, std::size_t count) {
    const Copy c{static_cast<std::byte*>(to), static_cast<const std::byte*>(from),
                 count * sizeof(T)};
    memory_->copy({&c, 1});
    memory_->synchronize();
  }

  std::shared_ptr<Memory> memory_;
  std::size_t size_;
  Buffer buffer_;
};

/// A matrix in a backend's memory whose rows have gaps between them, and its values.
class BackendMatrix {
 public:
  BackendMatrix(Backend& backend, std::vector<float> values, std::int64_t rows,
                std::int64_t columns, std::int64_t gap = 3)
      : rows_(rows),
        columns_(columns),
        stride_(columns + gap),
        values_(std::move(values)),
        array_(backend, spread()) {}
  static BackendMatrix random(Backend& backend, std::int64_t rows, std::int64_t columns,
                              std::uint64_t seed, std::int64_t gap = 3) {
    return {backend, random_floats(static_cast<std::size_t>(rows * columns), seed), rows, columns,
            gap};
  }
  /// An output matrix.
  static BackendMatrix blank(Backend& backend, std::int64_t rows, std::int64_t columns,
                             std::int64_t gap = 3) {
    return {backend, std::vector<float>(static_cast<std::size_t>(rows * columns), kGap), rows,
            columns, gap};
  }

  MatrixView<float> view() { return {array_.data(), rows_, columns_, stride_}; }
  float at(std::int64_t r, std::int64_t c) const { return values_[r * columns_ + c]; }
  std::int64_t rows() const { return rows_; }
  std::int64_t columns() const { return columns_; }
  /// Reads the output of a backend; the gaps between the rows must be unchanged.
  const std::vector<float>& read() {
    const std::vector<float> all = array_.values();
    for (std::int64_t r = 0; r < rows_; ++r) {
      for (std::int64_t c = 0; c < stride_; ++c) {
        const float x = all[r * stride_ + c];
        if (c < columns_) {
          values_[r * columns_ + c] = x;
        } else {
          EXPECT_EQ(x, kGap) << "written between rows";
        }
      }
    }
    return values_;
  }

 private:
  static constexpr float kGap = 12345;

  std::vector<float> spread() const {
    std::vector<float> out(static_cast<std::size_t>(rows_ * stride_), kGap);
    for (std::int64_t r = 0; r < rows_; ++r) {
      for (std::int64_t c = 0; c < columns_; ++c) out[r * stride_ + c] = at(r, c);
    }
    return out;
  }

  std::int64_t rows_, columns_, stride_;
  std::vector<float> values_;
  BackendArray<float> array_;
};

/// Appends `count` random tokens to a set.
inline void append_random(Backend& backend, KvHeadCache& set, int count, std::uint64_t seed,
                          float scale = 1) {
  const std::int64_t width = set.layout().head_dim;
  BackendMatrix rows(backend,
                     random_floats(static_cast<std::size_t>(3 * count * width), seed, scale), count,
                     3 * width);
  const auto part = [&](std::int64_t i) { return rows.view().columns_at(i * width, width); };
  const int first = set.size();
  std::vector<std::int32_t> positions(static_cast<std::size_t>(count));
  std::iota(positions.begin(), positions.end(), first);
  set.extend(positions);
  AppendJob job{&set, first, part(0), part(1)};
  if (set.layout().pre_rope_keys) job.pre_rope_k = part(2);
  backend.append({&job, 1});
  backend.memory()->synchronize();
}

inline KvHeadCache random_set(Backend& backend, const PageLayout& layout, int count,
                              std::uint64_t seed, float scale = 1) {
  KvHeadCache set(std::make_shared<KvPool>(layout, backend.memory()));
  append_random(backend, set, count, seed, scale);
  return set;
}

/// The keys of a set, [size, head_dim].
inline std::vector<float> keys_of(Backend& backend, const KvHeadCache& set) {
  return backend.rows_on_host(set, KvRow::kKey, 0, set.size());
}

inline std::size_t elements(std::int64_t rows, std::int64_t columns) {
  return static_cast<std::size_t>(rows * columns);
}

/// Random codes below `count`.
inline std::vector<std::uint8_t> random_codes(std::size_t n, int count, std::uint64_t seed) {
  std::mt19937_64 engine(seed);
  std::vector<std::uint8_t> out(n);
  for (std::uint8_t& x : out)
    x = static_cast<std::uint8_t>(engine() % static_cast<std::uint64_t>(count));
  return out;
}

/// All floats and indices that the operations compute for some sets of `n` tokens.
inline std::vector<float> outputs_of_selection(Backend& backend, DType dtype, int heads,
                                               int head_dim, int n) {
  constexpr float kScale = 0.125f;
  constexpr int kSets = 2, kPageTokens = 16, kParts = 2, kCodes = 20, kBest = 9;
  std::vector<float> out;
  const auto add = [&](const auto& values) { out.insert(out.end(), values.begin(), values.end()); };
  const std::vector<int> dims = {1, head_dim - 1, 5, 12, 7};
  const std::vector<float> factors(static_cast<std::size_t>(heads), 1.25f);
  const int pages = (n + kPageTokens - 1) / kPageTokens;
  const std::size_t size = size_of(dtype);
  for (int i = 0; i < kSets; ++i) {
    const auto seed = static_cast<std::uint64_t>(10 * i);
    const KvHeadCache set = random_set(backend, {head_dim, dtype, true}, n, seed);
    BackendMatrix q = BackendMatrix::random(backend, heads, head_dim, seed + 1);
    BackendMatrix keys = BackendMatrix::blank(backend, n, head_dim),
                  raw = BackendMatrix::blank(backend, n, head_dim),
                  scores = BackendMatrix::blank(backend, heads, n),
                  key_scores = BackendMatrix::blank(backend, heads, n),
                  page_scores = BackendMatrix::blank(backend, heads, pages),
                  code_scores = BackendMatrix::blank(backend, heads, n),
                  dimension_scores = BackendMatrix::blank(backend, heads, n),
                  reduced = BackendMatrix::blank(backend, 1, n);
    BackendArray<std::byte> low(backend, elements(pages, head_dim) * size),
        high(backend, elements(pages, head_dim) * size),
        columns(backend, elements(head_dim, n) * size);
    BackendArray<std::uint8_t> codes(backend, elements(kParts, n));

    const ReadRowsJob reading[] = {{&set, 0, KvRow::kKey, keys.view()},
                                   {&set, 0, KvRow::kPreRopeKey, raw.view()}};
    backend.read_rows(reading);
    const VectorScoreJob vectors{q.view(), keys.view(), scores.view()};
    backend.score_vectors(kScale, {&vectors, 1});
    const KeyScoreJob of_keys{&set, q.view(), {}, key_scores.view()};
    backend.score_keys(kScale, {&of_keys, 1});
    const PageBounds bounds{low.data(), high.data(), kPageTokens};
    const PageBoundsJob bounding{&set, 0, bounds};
    backend.update_page_bounds({&bounding, 1});
    const PageScoreJob of_pages{q.view(), bounds, dtype, page_scores.view()};
    backend.score_pages(kScale, {&of_pages, 1});
    const TransposeKeysJob transposing{&set, 0, columns.data(), n};
    backend.transpose_keys({&transposing, 1});
    const DimensionScoreJob of_dimensions{
        q.view(), dims, factors, columns.data(), n, dtype, dimension_scores.view()};
    backend.score_dimensions(kScale, {&of_dimensions, 1});
    BackendMatrix centroids =
        BackendMatrix::random(backend, kParts * kCodes, head_dim / kParts, seed + 2);
    for (int p = 0; p < kParts; ++p) {
      const NearestJob nearest{keys.view().columns_at(p * head_dim / kParts, head_dim / kParts),
                               centroids.view().rows_at(p * kCodes, kCodes),
                               codes.data() + static_cast<std::ptrdiff_t>(p) * n};
      backend.assign_nearest({&nearest, 1});
    }
    const CodeScoreJob of_codes{q.view(), centroids.view(),  kParts, codes.data(),
                                n,        code_scores.view()};
    backend.score_codes(kScale, {&of_codes, 1});
    for (const HeadReduction reduction :
         {HeadReduction::kSum, HeadReduction::kMax, HeadReduction::kSumOfSoftmax,
          HeadReduction::kMaxOfLogSoftmax}) {
      const ReduceHeadsJob reducing{code_scores.view(), reduction, reduced.view()};
      backend.reduce_heads({&reducing, 1});
      std::vector<std::int32_t> best;
      const TopKJob choosing{{reduced.view().data, static_cast<std::size_t>(n)}, kBest, &best};
      backend.top_k({&choosing, 1});
      add(reduced.read());
      add(best);
    }
    std::vector<std::int32_t> slots;
    for (int j = 0; j < n; j += 3) slots.push_back(j);
    BackendMatrix masses = BackendMatrix::blank(backend, 1, heads),
                  mean = BackendMatrix::blank(backend, 1, head_dim);
    BackendArray<double> sums(backend, std::vector<double>(static_cast<std::size_t>(head_dim)));
    const SlotMassJob massing{dimension_scores.view(), slots, masses.view().data};
    backend.slot_mass({&massing, 1});
    const AddValuesJob adding{&set, 0, sums.data(), n, mean.view().data};
    backend.add_values({&adding, 1});
    const BlendJob blending{q.view(), masses.view().data, mean.view().data};
    backend.blend({&blending, 1});
    BackendMatrix lse = BackendMatrix::random(backend, heads, 1, seed + 3),
                  other_lse = BackendMatrix::random(backend, heads, 1, seed + 4);
    const MergeJob merging{q.view(), lse.view(), keys.view().rows_at(0, heads), other_lse.view()};
    backend.merge({&merging, 1});
    add(sums.values());
    for (BackendMatrix* matrix : {&masses, &mean, &q, &lse}) add(matrix->read());
    for (BackendMatrix* matrix :
         {&keys, &raw, &scores, &key_scores, &page_scores, &code_scores, &dimension_scores})
      add(matrix->read());
    add(codes.values());
    for (BackendArray<std::byte>* bytes : {&low, &high, &columns}) {
      for (const std::byte b : bytes->values()) out.push_back(static_cast<float>(b));
    }
  }
  return out;
}

}  // namespace turnbench::test
