// Calls that the emulated cuBLASLt refuses, and products if the library is missing or has no
// algorithm.

#include <cublasLt.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "inference/cuda/cublas_lt.h"
#include "inference/cuda/cuda_backend.h"
#include "inference/cuda/linear.h"
#include "tests/cuda/device_array.h"
#include "tests/cuda/orders.h"
#include "tests/inference/reference.h"
#include "tests/message_of.h"

namespace turnbench::cuda {
namespace {

using test::DeviceArray;

constexpr std::uint64_t kM = 24, kN = 12, kK = 32;

/// A product d [kM, kN] = a^T b of bfloat16 with all arguments of a call, which tests change.
class EmulatedCublasLt : public testing::Test {
 protected:
  EmulatedCublasLt() {
    EXPECT_EQ(cublasLtCreate(&handle_), CUBLAS_STATUS_SUCCESS);
    EXPECT_EQ(cublasLtMatmulDescCreate(&product_, CUBLAS_COMPUTE_32F, CUDA_R_32F),
              CUBLAS_STATUS_SUCCESS);
    const std::int32_t transposed = CUBLAS_OP_T;
    EXPECT_EQ(cublasLtMatmulDescSetAttribute(product_, CUBLASLT_MATMUL_DESC_TRANSA, &transposed,
                                             sizeof(transposed)),
              CUBLAS_STATUS_SUCCESS);
    EXPECT_EQ(cublasLtMatmulPreferenceCreate(&preference_), CUBLAS_STATUS_SUCCESS);
    set_layout(a_layout_, CUDA_R_16BF, kK, kM, kK);
    set_layout(b_layout_, CUDA_R_16BF, kK, kN, kK);
    set_layout(d_layout_, CUDA_R_32F, kM, kN, kM);
    allow_workspace(workspace_bytes_);
    EXPECT_EQ(choose(), CUBLAS_STATUS_SUCCESS);
  }
  ~EmulatedCublasLt() override {
    for (const auto layout : {a_layout_, b_layout_, d_layout_}) cublasLtMatrixLayoutDestroy(layout);
    cublasLtMatmulPreferenceDestroy(preference_);
    cublasLtMatmulDescDestroy(product_);
    cublasLtDestroy(handle_);
    cudaSetDevice(0);
  }

  static void set_layout(cublasLtMatrixLayout_t& layout, cudaDataType_t type, std::uint64_t rows,
                         std::uint64_t columns, std::int64_t ld) {
    if (layout != nullptr) cublasLtMatrixLayoutDestroy(layout);
    ASSERT_EQ(cublasLtMatrixLayoutCreate(&layout, type, rows, columns, ld), CUBLAS_STATUS_SUCCESS);
  }
  void allow_workspace(std::uint64_t bytes) {
    EXPECT_EQ(cublasLtMatmulPreferenceSetAttribute(
                  preference_, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &bytes, sizeof(bytes)),
              CUBLAS_STATUS_SUCCESS);
  }
  cublasStatus_t choose() {
    int found = 0;
    const cublasStatus_t status =
        cublasLtMatmulAlgoGetHeuristic(handle_, product_, a_layout_, b_layout_, d_layout_,
                                       d_layout_, preference_, 1, &chosen_, &found);
    EXPECT_EQ(found, status == CUBLAS_STATUS_SUCCESS ? 1 : 0);
    return status;
  }
  cublasStatus_t multiply(std::int64_t a_offset = 0, std::int64_t d_offset = 0) {
    const cublasStatus_t status =
        cublasLtMatmul(handle_, product_, &alpha_, a_.data() + a_offset, a_layout_, b_.data(),
                       b_layout_, &beta_, d_.data() + d_offset, d_layout_, d_.data() + d_offset,
                       d_layout_, &chosen_.algo, workspace_.data(), workspace_bytes_, nullptr);
    cudaDeviceSynchronize();
    return status;
  }
  static std::vector<std::byte> random_factor(std::uint64_t count, std::uint64_t seed) {
    return test::stored_as(DType::kBF16, test::random_floats(count, seed));
  }

  DeviceArray<std::byte> a_{random_factor(kM * kK + 8, 1)}, b_{random_factor(kN * kK, 2)};
  DeviceArray<float> d_{std::vector<float>(kM * kN + 8)};
  DeviceArray<float> workspace_{std::vector<float>(kM * kN)};
  std::size_t workspace_bytes_ = kM * kN * sizeof(float);
  float alpha_ = 1, beta_ = 0;
  cublasLtHandle_t handle_ = nullptr;
  cublasLtMatmulDesc_t product_ = nullptr;
  cublasLtMatmulPreference_t preference_ = nullptr;
  cublasLtMatrixLayout_t a_layout_ = nullptr, b_layout_ = nullptr, d_layout_ = nullptr;
  cublasLtMatmulHeuristicResult_t chosen_ = {};
};

TEST_F(EmulatedCublasLt, ComputesProducts) {
  alpha_ = 2;
  beta_ = 0.5f;
  const std::vector<float> before = test::random_floats(kM * kN, 3);
  d_.write(before);
  ASSERT_EQ(multiply(), CUBLAS_STATUS_SUCCESS);
  const std::vector<float> found = d_.values();
  const auto a = a_.values(), b = b_.values();
  for (std::size_t j = 0; j < kN; ++j) {
    for (std::size_t i = 0; i < kM; ++i) {
      double sum = 0;
      for (std::size_t k = 0; k < kK; ++k) {
        sum += static_cast<double>(load_element(a.data(), DType::kBF16, i * kK + k)) *
               static_cast<double>(load_element(b.data(), DType::kBF16, j * kK + k));
      }
      ASSERT_NEAR(found[j * kM + i], 2 * sum + 0.5 * before[j * kM + i], 1e-4) << i << ", " << j;
    }
  }
}

TEST_F(EmulatedCublasLt, TakesFactorsInBothOrders) {
  // op(a) = a as stored: ones and twos by column, so that each order has a different result.
  std::vector<float> ones(kM * kK + 8, 1);
  for (std::size_t k = 1; k < kK; k += 2) std::fill_n(ones.begin() + k * kM, kM, 2.0f);
  a_.write(test::stored_as(DType::kBF16, ones));
  const std::int32_t as_stored = CUBLAS_OP_N;
  cublasLtMatmulDescSetAttribute(product_, CUBLASLT_MATMUL_DESC_TRANSA, &as_stored,
                                 sizeof(as_stored));
  EXPECT_EQ(multiply(), CUBLAS_STATUS_INVALID_VALUE) << "the layout is that of the other order";
  set_layout(a_layout_, CUDA_R_16BF, kM, kK, kM);
  ASSERT_EQ(choose(), CUBLAS_STATUS_SUCCESS);
  ASSERT_EQ(multiply(), CUBLAS_STATUS_SUCCESS);
  const auto b = b_.values();
  const std::vector<float> found = d_.values();
  for (std::size_t j = 0; j < kN; ++j) {
    float sum = 0;
    for (std::size_t k = 0; k < kK; ++k)
      sum += static_cast<float>(1 + k % 2) * load_element(b.data(), DType::kBF16, j * kK + k);
    for (std::size_t i = 0; i < kM; ++i) ASSERT_NEAR(found[j * kM + i], sum, 1e-4);
  }
}

TEST_F(EmulatedCublasLt, RefusesAddressesBelowTheDeclaredAlignment) {
  EXPECT_EQ(multiply(), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(multiply(2), CUBLAS_STATUS_INVALID_VALUE);
  EXPECT_EQ(multiply(0, 4), CUBLAS_STATUS_INVALID_VALUE);
  const std::uint32_t two = 2, three = 3;
  const auto set = [&](const std::uint32_t& alignment) {
    return cublasLtMatmulPreferenceSetAttribute(
        preference_, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, &alignment, sizeof(alignment));
  };
  EXPECT_EQ(set(three), CUBLAS_STATUS_INVALID_VALUE);
  EXPECT_EQ(set(two), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(choose(), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(multiply(2), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(multiply(1), CUBLAS_STATUS_INVALID_VALUE) << "in the middle of an element";
}

TEST_F(EmulatedCublasLt, RefusesAWorkspaceThatIsTooSmall) {
  EXPECT_EQ(chosen_.workspaceSize, workspace_bytes_);
  workspace_bytes_ -= 16;
  EXPECT_EQ(multiply(), CUBLAS_STATUS_INVALID_VALUE);
  allow_workspace(workspace_bytes_);
  EXPECT_EQ(choose(), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(chosen_.workspaceSize, 0u);
  EXPECT_EQ(multiply(), CUBLAS_STATUS_SUCCESS);
}

TEST_F(EmulatedCublasLt, RefusesAnAlgorithmOfAnotherProduct) {
  set_layout(b_layout_, CUDA_R_16BF, kK, kN - 1, kK);
  EXPECT_EQ(multiply(), CUBLAS_STATUS_INVALID_VALUE) << "the output has more columns";
  set_layout(d_layout_, CUDA_R_32F, kM, kN - 1, kM);
  EXPECT_EQ(multiply(), CUBLAS_STATUS_INVALID_VALUE);
  EXPECT_EQ(choose(), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(multiply(), CUBLAS_STATUS_SUCCESS);
}

TEST_F(EmulatedCublasLt, RefusesTypesAndLayoutsThatAreNotDocumented) {
  cublasLtMatrixLayout_t layout = nullptr;
  EXPECT_EQ(cublasLtMatrixLayoutCreate(&layout, CUDA_R_32F, 8, 2, 7), CUBLAS_STATUS_INVALID_VALUE);
  EXPECT_EQ(cublasLtMatrixLayoutCreate(&layout, CUDA_R_32F, 0, 2, 8), CUBLAS_STATUS_INVALID_VALUE);
  cublasLtMatmulDesc_t product = nullptr;
  EXPECT_EQ(cublasLtMatmulDescCreate(&product, CUBLAS_COMPUTE_32F, CUDA_R_16F),
            CUBLAS_STATUS_INVALID_VALUE);
  set_layout(a_layout_, CUDA_R_16F, kK, kM, kK);
  EXPECT_EQ(choose(), CUBLAS_STATUS_NOT_SUPPORTED) << "factors of two types";
  set_layout(a_layout_, CUDA_R_64F, kK, kM, kK);
  set_layout(b_layout_, CUDA_R_64F, kK, kN, kK);
  EXPECT_EQ(choose(), CUBLAS_STATUS_NOT_SUPPORTED) << "sums of less precision than the factors";
  EXPECT_EQ(multiply(), CUBLAS_STATUS_NOT_SUPPORTED);
}

TEST_F(EmulatedCublasLt, RefusesAttributesOfAnotherSizeAndEpilogues) {
  const std::uint64_t eight = CUBLAS_OP_T;
  EXPECT_EQ(cublasLtMatmulDescSetAttribute(product_, CUBLASLT_MATMUL_DESC_TRANSB, &eight, 8),
            CUBLAS_STATUS_INVALID_VALUE);
  const std::uint32_t bias = CUBLASLT_EPILOGUE_BIAS, workspace = 1 << 20;
  EXPECT_EQ(cublasLtMatmulDescSetAttribute(product_, CUBLASLT_MATMUL_DESC_EPILOGUE, &bias, 4),
            CUBLAS_STATUS_NOT_SUPPORTED);
  EXPECT_EQ(cublasLtMatmulPreferenceSetAttribute(
                preference_, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace, 4),
            CUBLAS_STATUS_INVALID_VALUE);
}

TEST_F(EmulatedCublasLt, RefusesMemoryOfTheHostAndOverlaps) {
  const std::vector<std::byte> host = a_.values();
  const auto multiply_with = [&](const void* a, void* d) {
    return cublasLtMatmul(handle_, product_, &alpha_, a, a_layout_, b_.data(), b_layout_, &beta_, d,
                          d_layout_, d, d_layout_, &chosen_.algo, workspace_.data(),
                          workspace_bytes_, nullptr);
  };
  EXPECT_EQ(multiply_with(host.data(), d_.data()), CUBLAS_STATUS_INVALID_VALUE);
  EXPECT_EQ(multiply_with(a_.data(), a_.data()), CUBLAS_STATUS_INVALID_VALUE);
  EXPECT_EQ(multiply_with(a_.data(), workspace_.data()), CUBLAS_STATUS_INVALID_VALUE);
  EXPECT_EQ(multiply_with(a_.data(), d_.data()), CUBLAS_STATUS_SUCCESS);
}

TEST_F(EmulatedCublasLt, RefusesDestroyedHandlesAndOtherDevices) {
  cublasLtHandle_t other = nullptr;
  ASSERT_EQ(cublasLtCreate(&other), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(cublasLtDestroy(other), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(cublasLtDestroy(other), CUBLAS_STATUS_NOT_INITIALIZED);
  std::swap(other, handle_);
  EXPECT_EQ(multiply(), CUBLAS_STATUS_NOT_INITIALIZED);
  std::swap(other, handle_);
  cudaSetDevice(1);
  EXPECT_EQ(multiply(), CUBLAS_STATUS_INVALID_VALUE);
}

/// Products of the backend with the library as set up by the tests.
class ProductsWithoutLibrary : public testing::Test {
 protected:
  ~ProductsWithoutLibrary() override {
    emulation::reset_cublas_lt_files();
    emulation::hide_cublas_lt_function("");
    emulation::refuse_products(nullptr);
    unsetenv("TURNBENCH_CUBLAS_LT");
  }

  struct Shape {
    std::int64_t rows = 20, out = 37, in = 72;
    DType type = DType::kBF16;
    bool bias = true;
  };
  /// Rows [first, first + rows) of a product, of floats that are not rounded first.
  std::vector<float> run(const Shape& s, std::int64_t first, std::int64_t rows) {
    const auto random = [](std::int64_t count, std::uint64_t seed) {
      return test::random_floats(static_cast<std::size_t>(count), seed);
    };
    DeviceArray<float> x(random(s.rows * (s.in + 4), 1)), bias(random(s.out, 2)),
        y(std::vector<float>(static_cast<std::size_t>(rows * s.out)));
    DeviceArray<std::byte> w(test::stored_as(s.type, random(s.out * s.in, 3)));
    linear(context_, gemm_, {x.data() + first * (s.in + 4), rows, s.in, s.in + 4},
           {s.out, s.in, s.type, w.data()}, s.bias ? bias.data() : nullptr,
           {y.data(), rows, s.out});
    context_.synchronize();
    return y.values();
  }
  std::string error_of_run() {
    return test::message_of([&] { run({}, 0, 20); }, ErrorKind::kRuntime);
  }

  Context context_{0};
  Gemm gemm_;
};

TEST_F(ProductsWithoutLibrary, FallBackToFewRowKernelsWithoutAnAlgorithm) {
  for (const cublasStatus_t status : {CUBLAS_STATUS_SUCCESS, CUBLAS_STATUS_NOT_SUPPORTED}) {
    for (const DType type : {DType::kF32, DType::kF16, DType::kBF16}) {
      for (const std::int64_t in : {72, 65}) {  // of which one is aligned
        const Shape shape = {.in = in, .type = type, .bias = in == 72};
        emulation::refuse_products(
            [&](const emulation::ProductShape& p) {
              return p.m == 37 && p.n == 20 && p.k == static_cast<std::uint64_t>(in);
            },
            status);
        const std::size_t before = emulation::cublas_lt_products();
        const std::vector<float> found =
            test::in_every_order([&] { return run(shape, 0, shape.rows); });
        EXPECT_EQ(emulation::cublas_lt_products(), before);
        std::vector<float> expected;
        for (std::int64_t first = 0; first < shape.rows; first += kFewRows) {
          const auto rows = run(shape, first, std::min(kFewRows, shape.rows - first));
          expected.insert(expected.end(), rows.begin(), rows.end());
        }
        EXPECT_TRUE(test::same_bits(found, expected)) << name_of(type) << ", " << in;
        run(shape, 0, shape.rows - 1);
        EXPECT_EQ(emulation::cublas_lt_products(), before + 1) << "of another number of rows";
      }
    }
  }
}

TEST_F(ProductsWithoutLibrary, FailAtTheFirstProductThatNeedsTheLibrary) {
  emulation::set_cublas_lt_files({});
  const auto backend = make_backend(0, 1);
  run({}, 0, kFewRows);
  const std::string expected =
      "cuBLASLt: found no libcublasLt.so.13 or libcublasLt.so.12 in the loader's path "
      "(LD_LIBRARY_PATH), /toolkit/lib64 or /usr/local/cuda/lib64; TURNBENCH_CUBLAS_LT can name "
      "the "
      "file";
  EXPECT_EQ(error_of_run(), expected);
  EXPECT_EQ(error_of_run(), expected);
  EXPECT_EQ(gemm_.bytes(), 0u);
  emulation::reset_cublas_lt_files();
  run({}, 0, 20);
  EXPECT_EQ(gemm_.bytes(), Gemm::kWorkspaceBytes);
}

TEST_F(ProductsWithoutLibrary, FindTheLibraryUnderItsUsualNames) {
  for (const char* file :
       {"libcublasLt.so.13", "libcublasLt.so.12", "/toolkit/lib64/libcublasLt.so.13",
        "/usr/local/cuda/lib64/libcublasLt.so.13", "/usr/local/cuda/lib64/libcublasLt.so.12"}) {
    emulation::set_cublas_lt_files({file});
    EXPECT_NE(load_cublas_lt().multiply, nullptr) << file;
  }
  setenv("TURNBENCH_CUBLAS_LT", "/somewhere/libcublasLt.so", 1);
  EXPECT_EQ(
      error_of_run(),
      "cuBLASLt, as TURNBENCH_CUBLAS_LT names the file: /somewhere/libcublasLt.so: cannot open "
      "shared object file: No such file or directory");
  emulation::set_cublas_lt_files({"/somewhere/libcublasLt.so"});
  EXPECT_NE(load_cublas_lt().multiply, nullptr);
  emulation::hide_cublas_lt_function("cublasLtMatmul");
  EXPECT_EQ(error_of_run(), "cuBLASLt: /somewhere/libcublasLt.so has no function cublasLtMatmul");
}

TEST_F(ProductsWithoutLibrary, DestroyTheirHandles) {
  const std::size_t before = emulation::cublas_lt_objects();
  {
    Gemm gemm;
    DeviceArray<float> x(test::random_floats(9 * 16, 1)), w(test::random_floats(4 * 16, 2)),
        y(std::vector<float>(9 * 4));
    context_.begin();
    EXPECT_TRUE(gemm.run(context_, DType::kF32, x.data(), 9, 16, w.data(), 4, 16, y.data(), 4));
    context_.synchronize();
    EXPECT_GT(emulation::cublas_lt_objects(), before);
  }
  EXPECT_EQ(emulation::cublas_lt_objects(), before);
}

TEST_F(ProductsWithoutLibrary, ErrorsNameTheDeviceWithoutRoomForAWorkspace) {
  emulation::limit_memory(std::size_t{16} << 20);
  const std::string said = test::message_of([&] { run({}, 0, 20); }, ErrorKind::kMemory);
  emulation::limit_memory(0);
  EXPECT_TRUE(said.starts_with("cuda:0: workspaces of cuBLASLt need 32 MiB")) << said;
  run({}, 0, 20);
}

}  // namespace
}  // namespace turnbench::cuda
