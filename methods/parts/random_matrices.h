#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <span>
#include <vector>

namespace turnbench {

/// A square matrix.
class SquareMatrix {
 public:
  /// rows: [dims, dims].
  explicit SquareMatrix(std::span<const double> rows, std::size_t dims);
  /// The product with `x`.  x, out: [dims]; they may not overlap.
  void multiply(std::span<const float> x, std::span<float> out) const;
  /// The product of the transposed matrix with `x`.
  void multiply_transposed(std::span<const float> x, std::span<float> out) const;

 private:
  std::vector<float> rows_, columns_;
};

/// Random matrices for rows of any size, made when they are first needed.  Several threads may use
/// them.
class RandomMatrices {
 public:
  struct OfSize {
    std::size_t dims;
    SquareMatrix rotation;    ///< orthogonal, from the Haar measure
    SquareMatrix projection;  ///< independent elements with a standard normal distribution
  };

  explicit RandomMatrices(std::uint64_t seed) : seed_(seed) {}
  const OfSize& of(std::size_t dims);

 private:
  OfSize make(std::size_t dims) const;

  std::uint64_t seed_;
  std::mutex mutex_;
  std::map<std::size_t, OfSize> all_;
  std::atomic<const OfSize*> last_ = nullptr;
};

}  // namespace turnbench
