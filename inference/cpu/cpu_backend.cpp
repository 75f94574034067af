#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <cstring>
#include <iterator>

#include "common/thread_pool.h"
#include "inference/backend/backend.h"
#include "inference/cpu/attention.h"
#include "inference/cpu/bf16_linear.h"
#include "inference/cpu/ceilings.h"
#include "inference/cpu/elementwise.h"
#include "inference/cpu/gemm.h"
#include "inference/cpu/line_mass.h"
#include "inference/cpu/selection.h"

namespace turnbench {
namespace {

/// In the layout of one arithmetic, Packed: cpu::PackedMatrix or cpu::PairedMatrix.
template <typename Packed>
class CpuMatrix : public WeightMatrix {
 public:
  explicit CpuMatrix(Packed packed) : packed_(std::move(packed)) {}

  std::int64_t out() const override { return packed_.out; }
  std::int64_t in() const override { return packed_.in; }
  std::size_t bytes() const override { return packed_.data.size(); }

  void set_rows(std::int64_t first, const std::byte* source, DType dtype,
                std::int64_t rows) override {
    const std::size_t row_bytes = packed_.in * size_of(dtype);
    Buffer row(row_bytes);
    for (std::int64_t r = 0; r < rows; ++r) {
      std::memcpy(row.data(), source + r * row_bytes, row_bytes);
      cpu::pack_rows(packed_, first + r, row.data(), dtype, 1);
    }
  }

  void read_row(std::int64_t o, float* out) const override {
    for (std::int64_t i = 0; i < packed_.in; ++i) out[i] = packed_.at(o, i);
  }

  const Packed& packed() const { return packed_; }

 private:
  Packed packed_;
};

using F32Matrix = CpuMatrix<cpu::PackedMatrix>;
using Bf16Matrix = CpuMatrix<cpu::PairedMatrix>;

/// Calls the operations again: on a CPU, recording gains nothing.
class PlainReplay : public Replay {
 public:
  void run(const ReplayKey&, int, const std::function<void()>& work) override { work(); }
};

class CpuBackend : public Backend {
 public:
  explicit CpuBackend(int threads) : pool_(threads), workspace_(pool_.size()) {}

  std::string description() const override {
    const std::string_view bf16 = cpu::name_of(cpu::bf16_unit());
    return fmt::format("cpu, {}{}{}, {} threads", cpu::instruction_set(),
                       bf16.empty() ? "" : " and ", bf16, pool_.size());
  }
  int threads() const override { return pool_.size(); }
  bool rows_are_independent() const override { return true; }
  bool leaves_out_rows() const override { return true; }

  const std::shared_ptr<Memory>& memory() override { return host_memory(); }

  std::unique_ptr<WeightMatrix> make_matrix(std::int64_t out, std::int64_t in, DType dtype,
                                            Math math) override {
    if (math == Math::kF32) return std::make_unique<F32Matrix>(cpu::make_packed(out, in, dtype));
    assert(dtype == DType::kBF16);
    return std::make_unique<Bf16Matrix>(cpu::make_paired(out, in));
  }

  void embed(const WeightMatrix& table, std::span<const int> tokens, float* out) override {
    by_rows(std::ssize(tokens), table.in(), [&](std::int64_t first, std::int64_t count) {
      for (std::int64_t i = first; i < first + count; ++i)
        table.read_row(tokens[i], out + i * table.in());
    });
  }

  void linear(MatrixView<const float> x, const WeightMatrix& w, const float* bias,
              MatrixView<float> y) override {
    if (const auto* bf16 = dynamic_cast<const Bf16Matrix*>(&w)) {
      cpu::linear_bf16(pool_, x, bf16->packed().view(), bias, y, rounded_);
    } else {
      cpu::linear(pool_, x, static_cast<const F32Matrix&>(w).packed(), bias, y);
    }
  }

  void rms_norm(MatrixView<const float> x, const float* weight, float eps,
                MatrixView<float> out) override {
    by_rows(x.rows, x.columns, [&](std::int64_t first, std::int64_t count) {
      cpu::rms_norm(x.rows_at(first, count), weight, eps, out.rows_at(first, count));
    });
  }

  void rms_norm_heads(MatrixView<float> x, int head_dim, int heads, const float* weight,
                      const float* other_weight, float eps) override {
    by_rows(x.rows, x.columns, [&](std::int64_t first, std::int64_t count) {
      const MatrixView<float> rows = x.rows_at(first, count);
      for (std::int64_t h = 0; h < x.columns / head_dim; ++h) {
        const MatrixView<float> head = rows.columns_at(h * head_dim, head_dim);
        cpu::rms_norm(head, h < heads ? weight : other_weight, eps, head);
      }
    });
  }

  void apply_rope(MatrixView<float> x, MatrixView<const float> cos,
                  MatrixView<const float> sin) override {
    by_rows(x.rows, x.columns, [&](std::int64_t first, std::int64_t count) {
      cpu::apply_rope(x.rows_at(first, count), cos.rows_at(first, count),
                      sin.rows_at(first, count));
    });
  }

  void round_to_bf16(MatrixView<float> x) override {
    by_rows(x.rows, x.columns, [&](std::int64_t first, std::int64_t count) {
      for (std::int64_t r = first; r < first + count; ++r)
        cpu::round_to_bf16(x.row(r), x.columns, x.row(r));
    });
  }

  void silu_multiply(MatrixView<const float> gate_up, MatrixView<float> out) override {
    by_rows(out.rows, out.columns * 4, [&](std::int64_t first, std::int64_t count) {
      cpu::silu_multiply(gate_up.rows_at(first, count), out.rows_at(first, count));
    });
  }

  void add(float* x, const float* y, std::int64_t n) override {
    by_rows(n, 1,
            [&](std::int64_t first, std::int64_t count) { cpu::add(x + first, y + first, count); });
  }

  void copy_rows(MatrixView<const float> from, MatrixView<float> to) override {
    for (std::int64_t r = 0; r < from.rows; ++r) std::copy_n(from.row(r), from.columns, to.row(r));
  }

  void append(std::span<const AppendJob> jobs) override {
    pool_.parallel_for(jobs.size(), [&](std::size_t i, int) {
      const AppendJob& job = jobs[i];
      job.set->write(job.first, job.k, job.v, job.pre_rope_k);
    });
  }

  void read_rows(std::span<const ReadRowsJob> jobs) override { cpu::read_rows(pool_, jobs); }
  std::vector<float> rows_on_host(const KvHeadCache& set, KvRow row, int first, int end) override {
    const auto width = static_cast<std::size_t>(set.layout().head_dim);
    std::vector<float> out(static_cast<std::size_t>(end - first) * width);
    for (int slot = first; slot < end; ++slot)
      set.read(row, slot, out.data() + static_cast<std::size_t>(slot - first) * width);
    return out;
  }
  std::vector<float> rows_on_host(MatrixView<const float> from,
                                  std::span<const int> rows) override {
    std::vector<float> out;
    out.reserve(rows.size() * static_cast<std::size_t>(from.columns));
    for (const int r : rows) out.insert(out.end(), from.row(r), from.row(r) + from.columns);
    return out;
  }

  void attend(float scale, std::span<const AttentionJob> jobs) override {
    cpu::attend(pool_, scale, jobs, workspace_);
  }

  void add_column_sums(float scale, std::span<const ColumnJob> jobs) override {
    cpu::add_column_sums(pool_, scale, jobs, workspace_);
  }

  void row_probabilities(float scale, const KvHeadCache& keys, MatrixView<const float> q,
                         const std::int32_t* positions, int sliding_window,
                         MatrixView<float> out) override {
    cpu::row_probabilities(scale, keys, q, positions, sliding_window, out);
  }

  void add_line_mass(float scale, std::span<const LineMassJob> jobs) override {
    cpu::add_line_mass(pool_, scale, jobs);
  }

  void score_vectors(float scale, std::span<const VectorScoreJob> jobs) override {
    cpu::score_vectors(pool_, scale, jobs, workspace_);
  }
  void score_keys(float scale, std::span<const KeyScoreJob> jobs) override {
    cpu::score_keys(pool_, scale, jobs, workspace_);
  }
  void update_page_bounds(std::span<const PageBoundsJob> jobs) override {
    cpu::update_page_bounds(pool_, jobs);
  }
  void score_pages(float scale, std::span<const PageScoreJob> jobs) override {
    cpu::score_pages(pool_, scale, jobs, workspace_);
  }
  void score_codes(float scale, std::span<const CodeScoreJob> jobs) override {
    cpu::score_codes(pool_, scale, jobs, workspace_);
  }
  void transpose_keys(std::span<const TransposeKeysJob> jobs) override {
    cpu::transpose_keys(pool_, jobs, workspace_);
  }
  void score_dimensions(float scale, std::span<const DimensionScoreJob> jobs) override {
    cpu::score_dimensions(pool_, scale, jobs, workspace_);
  }
  void reduce_heads(std::span<const ReduceHeadsJob> jobs) override {
    cpu::reduce_heads(pool_, jobs, workspace_);
  }
  void slot_mass(std::span<const SlotMassJob> jobs) override {
    cpu::slot_mass(pool_, jobs, workspace_);
  }
  void top_k(std::span<const TopKJob> jobs) override { cpu::top_k(pool_, jobs, workspace_); }
  void assign_nearest(std::span<const NearestJob> jobs) override {
    cpu::assign_nearest(pool_, jobs, workspace_);
  }
  void add_values(std::span<const AddValuesJob> jobs) override { cpu::add_values(pool_, jobs); }
  void rebuild_keys(std::span<const RebuildKeysJob> jobs) override {
    cpu::rebuild_keys(pool_, jobs, workspace_);
  }
  void blend(std::span<const BlendJob> jobs) override { cpu::blend(jobs); }
  void merge(std::span<const MergeJob> jobs) override { cpu::merge(pool_, jobs); }

  void parallel_for(std::size_t count, const std::function<void(std::size_t)>& task) override {
    pool_.parallel_for(count, [&](std::size_t i, int) { task(i); });
  }

  std::unique_ptr<Replay> make_replay() override { return std::make_unique<PlainReplay>(); }

  Ceilings measure_ceilings() override {
    if (stream_.size() == 0) {
      stream_ = Buffer(std::size_t{256} << 20);
      std::memset(stream_.data(), 0, stream_.size());
    }
    return cpu::measure_ceilings(pool_, stream_);
  }

  std::size_t scratch_bytes(const ModelConfig& config, const PassSize& pass) const override {
    return cpu_scratch_bytes(config, pass, threads());
  }
  std::size_t workspace_bytes() const override { return workspace_.bytes() + rounded_.bytes(); }
  void release_workspace() override {
    workspace_ = cpu::AttentionWorkspace(threads());
    rounded_.release();
  }

 private:
  // Work below which a fork-join costs more than it saves, in floats.
  static constexpr std::int64_t kGrain = 1 << 15;

  /// Calls body(first, count) for parts of `rows` rows with `width` floats of work each.
  template <typename Body>
  void by_rows(std::int64_t rows, std::int64_t width, const Body& body) {
    const std::int64_t per_task =
        std::max<std::int64_t>(1, kGrain / std::max<std::int64_t>(1, width));
    const std::int64_t tasks = (rows + per_task - 1) / per_task;
    pool_.parallel_for(tasks, [&](std::int64_t t, int) {
      body(t * per_task, std::min(per_task, rows - t * per_task));
    });
  }

  ThreadPool pool_;
  cpu::AttentionWorkspace workspace_;
  Scratch rounded_;  // activations, by linear_bf16
  Buffer stream_;    // read by measure_ceilings
};

}  // namespace

std::size_t cpu_scratch_bytes(const ModelConfig& config, const PassSize& pass, int threads) {
  std::size_t out = cpu::attention_scratch_bytes(config, pass, threads);
  if (pass.math != Math::kF32) {
    const std::int64_t rows = std::max(std::min(pass.rows, kLinearBlockRows), pass.sequences),
                       widest =
                           std::max({config.hidden, config.heads * config.head_dim, config.ffn});
    out += cpu::RoundedRows::floats(rows, widest, cpu::bf16_unit()) * sizeof(float);
  }
  return out;
}

std::unique_ptr<Backend> make_cpu_backend(int threads) {
  return std::make_unique<CpuBackend>(threads);
}

}  // namespace turnbench
