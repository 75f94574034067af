// Keys and values in host memory, which must not be passed to a kernel: on a GPU whose driver maps
// host memory, the kernel would work, slowly and without any order relative to the copies.

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <string>

#include "inference/cuda/cuda_backend.h"
#include "tests/cuda/device_floats.h"
#include "tests/message_of.h"

namespace turnbench {
namespace {

constexpr int kDim = 16, kTokens = 70;

TEST(SetsInHostMemory, AreRejectedByEveryOperation) {
  const auto backend = cuda::make_backend(0, 1);
  KvHeadCache set(std::make_shared<KvPool>(PageLayout{kDim, DType::kF32, true}));
  const std::vector<float> zeros(kDim);
  for (int j = 0; j < kTokens; ++j) set.append(zeros.data(), zeros.data(), zeros.data(), j);

  test::DeviceFloats floats(std::size_t{8} * kTokens * kDim);
  float* const x = floats.data();
  const MatrixView<float> rows(x, 2, kDim), scores(x, 2, kTokens), sums(x, 1, kTokens);
  const std::vector<std::int32_t> positions = {kTokens - 2, kTokens - 1}, slots = {0, 3};
  const auto attention = [&](int count) {
    AttentionJob job;
    job.keys = &set;
    job.q = MatrixView<const float>(x, count, kDim);
    job.positions = positions.data() + (2 - count);
    job.out = MatrixView(x, count, kDim);
    return job;
  };
  const auto fill = [&](CausalRows& job) {
    job.keys = &set;
    job.q = rows;
    job.positions = positions.data();
  };
  const PageBounds bounds{reinterpret_cast<std::byte*>(x),
                          reinterpret_cast<std::byte*>(x + kTokens * kDim), 16};
  const std::map<std::string, std::function<void()>> operations = {
      {"append",
       [&] {
         const AppendJob job{&set, kTokens - 2, rows, rows, rows};
         backend->append({&job, 1});
       }},
      {"read_rows",
       [&] {
         const ReadRowsJob job{&set, 0, KvRow::kValue, rows};
         backend->read_rows({&job, 1});
       }},
      {"rows_on_host", [&] { backend->rows_on_host(set, KvRow::kKey, 0, 2); }},
      {"attention of one row",
       [&] {
         const AttentionJob job = attention(1);
         backend->attend(1, {&job, 1});
       }},
      {"attention of one row to some slots",
       [&] {
         AttentionJob job = attention(1);
         job.slots = &slots;
         backend->attend(1, {&job, 1});
       }},
      {"attention of two rows",
       [&] {
         const AttentionJob job = attention(2);
         backend->attend(1, {&job, 1});
       }},
      {"add_column_sums",
       [&] {
         ColumnJob job;
         fill(job);
         job.lse = MatrixView<const float>(x, 2, 1);
         job.sums = sums;
         backend->add_column_sums(1, {&job, 1});
       }},
      {"add_line_mass",
       [&] {
         LineMassJob job;
         fill(job);
         job.vertical = sums;
         backend->add_line_mass(1, {&job, 1});
       }},
      {"row_probabilities",
       [&] {
         backend->row_probabilities(1, set, rows, positions.data(), 0, {x, 2, 128});
       }},
      {"score_keys",
       [&] {
         const KeyScoreJob job{&set, rows, {}, scores};
         backend->score_keys(1, {&job, 1});
       }},
      {"update_page_bounds",
       [&] {
         const PageBoundsJob job{&set, 0, bounds};
         backend->update_page_bounds({&job, 1});
       }},
      {"transpose_keys",
       [&] {
         const TransposeKeysJob job{&set, 0, reinterpret_cast<std::byte*>(x), kTokens};
         backend->transpose_keys({&job, 1});
       }},
      {"add_values",
       [&] {
         const AddValuesJob job{&set, 0, reinterpret_cast<double*>(x), kTokens, x + 2 * kDim};
         backend->add_values({&job, 1});
       }},
      {"rebuild_keys",
       [&] {
         const RebuildKeysJob::Run run{0, 0, 1};
         const RebuildKeysJob job{&set,
                                  {&run, 1},
                                  reinterpret_cast<std::byte*>(x),
                                  rows,
                                  {MatrixView<const float>(x, kTokens, kDim / 2),
                                   MatrixView<const float>(x, kTokens, kDim / 2)}};
         backend->rebuild_keys({&job, 1});
       }},
  };
  for (const auto& [name, operation] : operations) {
    EXPECT_NE(test::message_of(operation, ErrorKind::kRuntime).find("in host memory, expected "),
              std::string::npos)
        << name;
  }
  backend->memory()->synchronize();
}

}  // namespace
}  // namespace turnbench
