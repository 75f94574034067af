#include "inference/cuda/cuda_backend.h"

#include <fmt/format.h>

#include <mutex>

#include "common/thread_pool.h"
#include "inference/cuda/attention.h"
#include "inference/cuda/ceilings.h"
#include "inference/cuda/decode_attention.h"
#include "inference/cuda/device_copies.h"
#include "inference/cuda/device_memory.h"
#include "inference/cuda/elementwise.h"
#include "inference/cuda/gemm.h"
#include "inference/cuda/graphs.h"
#include "inference/cuda/linear.h"
#include "inference/cuda/selection.h"
#include "inference/cuda/statistics.h"

namespace turnbench::cuda {
namespace {

/// Converts elements at any address to another type and writes them to `to`.
void convert(const std::byte* from, DType from_type, DType to_type, std::span<std::byte> to) {
  if (from_type == to_type) {
    std::memcpy(to.data(), from, to.size());
    return;
  }
  const std::size_t size = size_of(from_type), count = to.size() / size_of(to_type);
  for (std::size_t i = 0; i < count; ++i) {
    alignas(4) std::byte element[4];
    std::memcpy(element, from + i * size, size);
    store_element(to.data(), to_type, i, load_element(element, from_type, 0));
  }
}

/// Row-major weights in device memory.
class DeviceMatrix : public WeightMatrix {
 public:
  DeviceMatrix(std::shared_ptr<Context> context, std::int64_t out, std::int64_t in, DType dtype)
      : context_(std::move(context)), weights_{out, in, dtype, nullptr} {
    data_ = context_->allocate(bytes(), "weights");
    weights_.data = data_;
  }
  ~DeviceMatrix() override { cudaFree(data_); }
  DeviceMatrix(const DeviceMatrix&) = delete;
  DeviceMatrix& operator=(const DeviceMatrix&) = delete;

  std::int64_t out() const override { return weights_.out; }
  std::int64_t in() const override { return weights_.in; }
  std::size_t bytes() const override {
    return weights_.out * weights_.in * size_of(weights_.dtype);
  }

  void set_rows(std::int64_t first, const std::byte* source, DType dtype,
                std::int64_t rows) override {
    const std::size_t size = size_of(weights_.dtype), row_bytes = weights_.in * size;
    HostTransfers& transfers = context_->transfers();
    transfers.order_after(context_->stream());  // which may still read the old contents
    // Pieces consist of whole elements.
    transfers.to_device(data_ + first * row_bytes, rows * row_bytes,
                        [&](std::size_t at, std::span<std::byte> piece) {
                          convert(source + at / size * size_of(dtype), dtype, weights_.dtype,
                                  piece);
                        });
    transfers.order_before(context_->stream());
  }

  void read_row(std::int64_t o, float* out) const override {
    const std::size_t row_bytes = weights_.in * size_of(weights_.dtype);
    std::vector<std::uint32_t> row((row_bytes + 3) / 4);
    context_->copy(row.data(), weights_.data + o * row_bytes, row_bytes);
    context_->synchronize();
    for (std::int64_t i = 0; i < weights_.in; ++i)
      out[i] = load_element(row.data(), weights_.dtype, i);
  }

  const Weights& weights() const { return weights_; }

 private:
  std::shared_ptr<Context> context_;
  Weights weights_;
  std::byte* data_ = nullptr;
};

const Weights& weights_of(const WeightMatrix& matrix) {
  return static_cast<const DeviceMatrix&>(matrix).weights();
}

class CudaBackend : public Backend {
 public:
  CudaBackend(int device, int threads)
      : context_(std::make_shared<Context>(device)),
        memory_(std::make_shared<DeviceMemory>(context_)),
        pool_(threads),
        host_rows_(memory_) {}

  std::string description() const override {
    return fmt::format("cuda:{}, {}", context_->device(), context_->properties().name);
  }
  int threads() const override { return pool_.size(); }
  bool rows_are_independent() const override { return false; }  // products use algorithms by size
  const std::shared_ptr<Memory>& memory() override { return memory_; }

  std::unique_ptr<WeightMatrix> make_matrix(std::int64_t out, std::int64_t in, DType dtype,
                                            Math math) override {
    if (math != Math::kF32) {
      throw input_error("math: found {}, expected f32: {} has its own arithmetic for products",
                        name_of(math), description());
    }
    return std::make_unique<DeviceMatrix>(context_, out, in, dtype);
  }

  void embed(const WeightMatrix& table, std::span<const int> tokens, float* out) override {
    cuda::embed(*context_, weights_of(table), tokens, out);
  }
  void linear(MatrixView<const float> x, const WeightMatrix& w, const float* bias,
              MatrixView<float> y) override {
    cuda::linear(*context_, gemm_, x, weights_of(w), bias, y);
  }
  void rms_norm(MatrixView<const float> x, const float* weight, float eps,
                MatrixView<float> out) override {
    cuda::rms_norm(*context_, x, weight, eps, out);
  }
  void rms_norm_heads(MatrixView<float> x, int head_dim, int heads, const float* weight,
                      const float* other_weight, float eps) override {
    cuda::rms_norm_heads(*context_, x, head_dim, heads, weight, other_weight, eps);
  }
  void apply_rope(MatrixView<float> x, MatrixView<const float> cos,
                  MatrixView<const float> sin) override {
    cuda::apply_rope(*context_, x, cos, sin);
  }
  void silu_multiply(MatrixView<const float> gate_up, MatrixView<float> out) override {
    cuda::silu_multiply(*context_, gate_up, out);
  }
  void add(float* x, const float* y, std::int64_t n) override { cuda::add(*context_, x, y, n); }
  void copy_rows(MatrixView<const float> from, MatrixView<float> to) override {
    cuda::copy_rows(*context_, from, to);
  }
  void append(std::span<const AppendJob> jobs) override { cuda::append(*context_, jobs); }
  void read_rows(std::span<const ReadRowsJob> jobs) override { cuda::read_rows(*context_, jobs); }
  std::vector<float> rows_on_host(const KvHeadCache& set, KvRow row, int first, int end) override {
    const std::lock_guard lock(mutex_);
    const std::int64_t count = end - first, width = set.layout().head_dim;
    std::vector<float> out(static_cast<std::size_t>(count * width));
    float* rows = host_rows_.get(out.size());
    const ReadRowsJob job{&set, first, row, {rows, count, width}};
    cuda::read_rows(*context_, {&job, 1});
    memory_->copy_floats(rows, out.data(), out.size());
    return out;
  }
  std::vector<float> rows_on_host(MatrixView<const float> from,
                                  std::span<const int> rows) override {
    const std::lock_guard lock(mutex_);
    const auto width = static_cast<std::size_t>(from.columns);
    std::vector<float> out(rows.size() * width);
    float* gathered = host_rows_.get(
        out.size());  // gathered by one kernel, because each copy to the host has a cost
    std::vector<Copy> copies;
    for (std::size_t i = 0; i < rows.size(); ++i)
      copies.push_back(copy_of(from.row(rows[i]), gathered + i * width, width));
    memory_->copy(copies);
    memory_->copy_floats(gathered, out.data(), out.size());
    return out;
  }

  void attend(float scale, std::span<const AttentionJob> jobs) override {
    std::vector<const AttentionJob*> single, rows;
    for (const AttentionJob& job : jobs)
      (job.rows() == 1 && job.patterns == nullptr ? single : rows).push_back(&job);
    if (!single.empty()) attend_single_rows(*context_, scale, single);
    if (!rows.empty()) attend_rows(*context_, scale, rows);
  }

  void add_column_sums(float scale, std::span<const ColumnJob> jobs) override {
    cuda::add_column_sums(*context_, scale, jobs);
  }
  void row_probabilities(float scale, const KvHeadCache& keys, MatrixView<const float> q,
                         const std::int32_t* positions, int sliding_window,
                         MatrixView<float> out) override {
    std::lock_guard lock(mutex_);
    cuda::row_probabilities(*context_, scale, keys, q, positions, sliding_window, out);
  }
  void add_line_mass(float scale, std::span<const LineMassJob> jobs) override {
    std::lock_guard lock(mutex_);
    cuda::add_line_mass(*context_, scale, jobs);
  }
  void score_vectors(float scale, std::span<const VectorScoreJob> jobs) override {
    cuda::score_vectors(*context_, scale, jobs);
  }
  void score_keys(float scale, std::span<const KeyScoreJob> jobs) override {
    cuda::score_keys(*context_, scale, jobs);
  }
  void update_page_bounds(std::span<const PageBoundsJob> jobs) override {
    cuda::update_page_bounds(*context_, jobs);
  }
  void score_pages(float scale, std::span<const PageScoreJob> jobs) override {
    cuda::score_pages(*context_, scale, jobs);
  }
  void score_codes(float scale, std::span<const CodeScoreJob> jobs) override {
    cuda::score_codes(*context_, scale, jobs);
  }
  void transpose_keys(std::span<const TransposeKeysJob> jobs) override {
    cuda::transpose_keys(*context_, jobs);
  }
  void score_dimensions(float scale, std::span<const DimensionScoreJob> jobs) override {
    cuda::score_dimensions(*context_, scale, jobs);
  }
  void reduce_heads(std::span<const ReduceHeadsJob> jobs) override {
    cuda::reduce_heads(*context_, jobs);
  }
  void slot_mass(std::span<const SlotMassJob> jobs) override { cuda::slot_mass(*context_, jobs); }
  void top_k(std::span<const TopKJob> jobs) override { cuda::top_k(*context_, jobs); }
  void assign_nearest(std::span<const NearestJob> jobs) override {
    cuda::assign_nearest(*context_, jobs);
  }
  void add_values(std::span<const AddValuesJob> jobs) override {
    cuda::add_values(*context_, jobs);
  }
  void rebuild_keys(std::span<const RebuildKeysJob> jobs) override {
    cuda::rebuild_keys(*context_, jobs);
  }
  void blend(std::span<const BlendJob> jobs) override { cuda::blend(*context_, jobs); }
  void merge(std::span<const MergeJob> jobs) override { cuda::merge(*context_, jobs); }

  void parallel_for(std::size_t count, const std::function<void(std::size_t)>& task) override {
    pool_.parallel_for(count, [&](std::size_t i, int) { task(i); });
  }

  std::unique_ptr<Replay> make_replay() override { return std::make_unique<GraphReplay>(context_); }

  Ceilings measure_ceilings() override {
    return {measure_flops(*context_, gemm_), measure_read_bytes(*context_)};
  }

  std::size_t scratch_bytes(const ModelConfig& config, const PassSize& pass) const override {
    return cuda::scratch_bytes(config, pass);
  }
  std::size_t workspace_bytes() const override { return context_->bytes() + gemm_.bytes(); }
  void release_workspace() override { context_->release_scratch(); }

 private:
  std::shared_ptr<Context> context_;
  std::shared_ptr<Memory> memory_;
  Gemm gemm_;
  ThreadPool pool_;
  Scratch host_rows_;  // rows on their way to the host, as float32
  std::mutex mutex_;   // for operations that policies call from several threads
};

}  // namespace

namespace {

/// "12.4" for 12040.
std::string version_text(int version) {
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

}  // namespace

int device_count() {
  int count = 0;
  if (cudaGetDeviceCount(&count) == cudaSuccess) return count;
  cudaGetLastError();  // so that no later call reports it
  return 0;
}

std::string no_device_reason() {
  int count = 0, driver = 0, runtime = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  cudaGetLastError();
  if (error == cudaSuccess || error == cudaErrorNoDevice) return "this machine has no CUDA device";
  cudaDriverGetVersion(&driver);
  cudaRuntimeGetVersion(&runtime);
  if (driver == 0) return "this machine has no CUDA driver (libcuda.so.1)";
  const char* text = cudaGetErrorString(error);
  if (error == cudaErrorInsufficientDriver) {
    return fmt::format("the CUDA driver ({}) is older than the runtime ({}): {}",
                       version_text(driver), version_text(runtime), text);
  }
  return fmt::format("CUDA counts no devices: {} (driver {}, runtime {})", text,
                     version_text(driver), version_text(runtime));
}

std::unique_ptr<Backend> make_backend(int device, int threads) {
  return std::make_unique<CudaBackend>(device, threads);
}

}  // namespace turnbench::cuda
