#pragma once

#include <cstddef>

#include "inference/model/dtype.h"

namespace emulation {

/// `count` vectors of k elements: where vectors and their elements follow each other, in elements.
struct Factor {
  const void* data;
  turnbench::DType type;
  std::size_t count, stride, step;
};

/// d[j * ldd + i] = alpha * (vector i of m) . (vector j of n) + beta * c[j * ldc + i]; c is not
/// read if beta is 0.
struct MatrixProduct {
  Factor m, n;
  std::size_t k;
  float alpha, beta;
  const float* c;
  std::size_t ldc;
  float* d;
  std::size_t ldd;
};

/// Sums are float32, in an order that depends only on k.
void multiply(const MatrixProduct& product);

}  // namespace emulation
