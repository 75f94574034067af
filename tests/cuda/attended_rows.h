#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <vector>

#include "inference/cuda/statistics.h"
#include "tests/cuda/device_floats.h"
#include "tests/cuda/orders.h"
#include "tests/inference/reference.h"

namespace turnbench::test {

struct Shape {
  int keys = 0, rows = 0, heads = 1, head_dim = 64;
  DType dtype = DType::kF32;
  bool holes = false;
  int window = 0;
  bool answers = false;  ///< rows that were computed one at a time, like those of an answer
  friend std::ostream& operator<<(std::ostream& out, const Shape& s) {
    return out << s.keys << " keys, " << s.rows << " rows, " << s.heads << " heads, head_dim "
               << s.head_dim << ", " << name_of(s.dtype) << (s.holes ? ", holes" : "")
               << ", window " << s.window << (s.answers ? ", answers" : "");
  }
};

constexpr float kScale = 0.11F;

/// The last rows of a sequence over a set on host and device, and their attention in double
/// precision.  With holes, some rows can attend to no key, and some have no key at their position.
/// The device gets float32 queries.  The host and the references get the queries that attention on
/// the device uses: rounded to the keys' type, unless rows are computed one at a time.
struct Rows {
  explicit Rows(const Shape& shape, std::uint64_t seed = 1)
      : shape(shape),
        host(std::make_shared<KvPool>(PageLayout{shape.head_dim, shape.dtype, false})),
        device(host),
        float_q(random_floats(static_cast<std::size_t>(shape.rows * stride()), seed + 100)),
        q(shape.answers ? float_q : rounded_to(shape.dtype, float_q)),
        device_q(float_q),
        device_lse(std::size_t{0}) {
    const auto width = static_cast<std::size_t>(shape.head_dim);
    const auto keys = random_floats(static_cast<std::size_t>(shape.keys) * width, seed, 1.5F);
    std::int32_t position = shape.holes ? 3 : 0;
    for (int j = 0; j < shape.keys; ++j) {
      const float* key = keys.data() + static_cast<std::size_t>(j) * width;
      host.append(key, key, nullptr, position);
      position += !shape.holes ? 1 : j == shape.keys / 2 ? 60 : j % 5 == 2 ? 1 + j % 7 : 1;
    }
    const std::int32_t end = position + (shape.holes ? 2 : 0);
    positions.resize(static_cast<std::size_t>(shape.rows));
    std::iota(positions.begin(), positions.end(), std::max(0, end - shape.rows));
    device = on_device(host);
    lse.assign(static_cast<std::size_t>(shape.rows * lse_stride()), NAN);
    probabilities.resize(static_cast<std::size_t>(shape.heads * shape.rows));
    std::vector<float> all(static_cast<std::size_t>(shape.keys) * width);
    for (int j = 0; j < shape.keys; ++j)
      host.read_key(j, all.data() + static_cast<std::size_t>(j) * width);
    for (int h = 0; h < shape.heads; ++h) {
      for (int r = 0; r < shape.rows; ++r) {
        std::vector<double>& row = probabilities[h * shape.rows + r];
        row = scores(all, query(h, r));
        double top = -INFINITY, sum = 0;
        for (int j = 0; j < shape.keys; ++j) {
          double& x = row[j];
          if (!sees(r, j)) x = -INFINITY;
          top = std::max(top, x);
        }
        for (double& x : row) sum += x = top == -INFINITY ? 0 : std::exp(x - top);
        for (double& x : row) x = sum > 0 ? x / sum : 0;
        lse[r * lse_stride() + h] = static_cast<float>(top + std::log(sum));
      }
    }
    device_lse = DeviceFloats(lse);
  }

  int stride() const { return (shape.heads + 1) * shape.head_dim; }
  int lse_stride() const { return shape.heads + 2; }
  const float* query(int h, int r) const { return q.data() + r * stride() + h * shape.head_dim; }
  /// Queries of heads [first, first + heads), [rows, heads * head_dim]: as attention uses them, and
  /// in float32 on the host and on the device.
  MatrixView<const float> queries(int first, int heads) const {
    return {query(first, 0), shape.rows, heads * shape.head_dim, stride()};
  }
  MatrixView<const float> float_queries(int first, int heads) const {
    return {float_q.data() + first * shape.head_dim, shape.rows, heads * shape.head_dim, stride()};
  }
  MatrixView<const float> device_queries(int first, int heads) const {
    return {device_q.data() + first * shape.head_dim, shape.rows, heads * shape.head_dim, stride()};
  }
  static bool is_host(const KvHeadCache& keys) { return keys.pool()->memory().is_host(); }
  bool sees(int r, int j) const {
    const std::int32_t row = positions[r], key = host.position(j);
    return key <= row && (shape.window == 0 || key > row - shape.window);
  }
  /// Whether some row can attend to no key.
  bool is_blind() const {
    for (int r = 0; r < shape.rows; ++r) {
      int seen = 0;
      for (int j = 0; j < shape.keys; ++j) seen += sees(r, j);
      if (seen == 0) return true;
    }
    return false;
  }
  double probability(int h, int r, int j) const { return probabilities[h * shape.rows + r][j]; }
  std::vector<double> scores(const std::vector<float>& keys, const float* query) const {
    std::vector<double> out;
    for (std::size_t at = 0; at < keys.size(); at += static_cast<std::size_t>(shape.head_dim)) {
      double dot = 0;
      for (int d = 0; d < shape.head_dim; ++d)
        dot += static_cast<double>(query[d]) * keys[at + static_cast<std::size_t>(d)];
      out.push_back(dot * kScale);
    }
    return out;
  }
  /// Rows [first, first + rows) over `host` or `device`, with queries in the same memory.
  void fill(StatisticRows& job, const KvHeadCache& keys, int first = 0, int rows = -1) const {
    job.keys = &keys;
    const MatrixView<const float> all =
        is_host(keys) ? queries(0, shape.heads) : device_queries(0, shape.heads);
    job.q = all.rows_at(first, rows < 0 ? shape.rows - first : rows);
    job.positions = positions.data() + first;
    if (shape.answers) job.pass_rows = 1;
    job.sliding_window = shape.window;
  }

  Shape shape;
  KvHeadCache host, device;
  std::vector<float> float_q, q, lse;
  DeviceFloats device_q, device_lse;
  std::vector<std::int32_t> positions;
  std::vector<std::vector<double>> probabilities;  // head by head, row by row
};

inline const std::vector<Shape>& shapes() {
  static const std::vector<Shape> all = {
      {.keys = 1, .rows = 1, .heads = 1, .head_dim = 16},
      {.keys = 63, .rows = 63, .heads = 4, .head_dim = 16},
      {.keys = 64, .rows = 64, .heads = 1, .head_dim = 64, .dtype = DType::kBF16},
      {.keys = 65, .rows = 65, .heads = 7, .head_dim = 36},
      {.keys = 65, .rows = 150, .heads = 4, .head_dim = 128, .dtype = DType::kBF16, .holes = true},
      {.keys = 130, .rows = 5, .heads = 2, .head_dim = 20, .dtype = DType::kF16},
      {.keys = 150, .rows = 150, .heads = 1, .head_dim = 256, .dtype = DType::kF16, .window = 40},
      {.keys = 300, .rows = 300, .heads = 1, .head_dim = 64, .holes = true, .window = 50},
      {.keys = 300, .rows = 100, .heads = 1, .head_dim = 80, .dtype = DType::kF16, .holes = true},
      {.keys = 1000, .rows = 70, .heads = 1, .head_dim = 128, .dtype = DType::kBF16},
      {.keys = 1000, .rows = 80, .heads = 1, .head_dim = 64, .window = 70},
  };
  return all;
}

inline const std::vector<Shape>& shapes_of_answers() {
  static const std::vector<Shape> all = {
      {.keys = 70, .rows = 1, .heads = 4, .head_dim = 128, .dtype = DType::kBF16, .answers = true},
      {.keys = 200, .rows = 9, .heads = 1, .head_dim = 64, .dtype = DType::kF16, .answers = true},
  };
  return all;
}

}  // namespace turnbench::test
