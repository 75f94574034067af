#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "common/thread_pool.h"
#include "inference/backend.h"
#include "inference/cpu/attention.h"
#include "inference/cpu/ceilings.h"
#include "inference/cpu/elementwise.h"
#include "inference/cpu/gemm.h"
#include "inference/cpu/mass.h"

namespace turnbench {
namespace {

class CpuMatrix : public Matrix {
 public:
  CpuMatrix(std::size_t out, std::size_t in, DType dtype)
      : packed_(cpu::make_packed(out, in, dtype)) {}

  std::size_t out() const override { return packed_.out; }
  std::size_t in() const override { return packed_.in; }
  std::size_t bytes() const override { return packed_.bytes(); }

  void put_rows(std::size_t first, const std::byte* source, DType dtype,
                std::size_t rows) override {
    const std::size_t row_bytes = packed_.in * size_of(dtype);
    Buffer row(row_bytes);
    for (std::size_t r = 0; r < rows; ++r) {
      std::memcpy(row.data(), source + r * row_bytes, row_bytes);
      cpu::pack_rows(packed_, first + r, row.data(), dtype, 1);
    }
  }

  void read_row(std::size_t o, float* out) const override {
    for (std::size_t i = 0; i < packed_.in; ++i) out[i] = packed_.at(o, i);
  }

  const cpu::PackedMatrix& packed() const { return packed_; }

 private:
  cpu::PackedMatrix packed_;
};

/// Calls of functions: there is nothing to gain.
class PlainReplay : public Replay {
 public:
  void run(const ReplayKey&, int, const std::function<void()>& work) override { work(); }
};

class CpuBackend : public Backend {
 public:
  explicit CpuBackend(int threads) : pool_(threads), workspace_(pool_.size()) {}

  std::string description() const override {
    return fmt::format("cpu, {}, {} threads", cpu::instruction_set(), pool_.size());
  }
  int threads() const override { return pool_.size(); }
  bool rows_are_independent() const override { return true; }

  const std::shared_ptr<Memory>& memory() override { return host_memory(); }

  std::unique_ptr<Matrix> make_matrix(std::size_t out, std::size_t in, DType dtype) override {
    return std::make_unique<CpuMatrix>(out, in, dtype);
  }

  void embed(const Matrix& table, std::span<const int> tokens, float* out) override {
    by_rows(tokens.size(), table.in(), [&](std::size_t first, std::size_t count) {
      for (std::size_t i = first; i < first + count; ++i)
        table.read_row(static_cast<std::size_t>(tokens[i]), out + i * table.in());
    });
  }

  void linear(const float* x, std::size_t ldx, std::size_t rows, const Matrix& w, const float* bias,
              float* y, std::size_t ldy) override {
    cpu::linear(pool_, x, ldx, rows, static_cast<const CpuMatrix&>(w).packed(), bias, y, ldy);
  }

  void rms_norm(const float* x, std::size_t ldx, std::size_t rows, std::size_t width,
                const float* weight, float eps, float* out, std::size_t ldo) override {
    by_rows(rows, width, [&](std::size_t first, std::size_t count) {
      cpu::rms_norm(x + first * ldx, ldx, count, width, weight, eps, out + first * ldo, ldo);
    });
  }

  void rotate(float* x, std::size_t ldx, std::size_t rows, int heads, int head_dim,
              const float* cos, const float* sin) override {
    const auto half = static_cast<std::size_t>(head_dim / 2);
    by_rows(rows, half * 2 * static_cast<std::size_t>(heads),
            [&](std::size_t first, std::size_t count) {
              for (std::size_t r = first; r < first + count; ++r) {
                cpu::rotate(x + r * ldx, heads, head_dim, cos + r * half, sin + r * half);
              }
            });
  }

  void silu_multiply(const float* gate_up, std::size_t rows, std::size_t width,
                     float* out) override {
    by_rows(rows, width * 4, [&](std::size_t first, std::size_t count) {
      for (std::size_t r = first; r < first + count; ++r) {
        const float* gate = gate_up + r * 2 * width;
        cpu::silu_multiply(gate, gate + width, width, out + r * width);
      }
    });
  }

  void add(float* x, const float* y, std::size_t n) override {
    by_rows(n, 1,
            [&](std::size_t first, std::size_t count) { cpu::add(x + first, y + first, count); });
  }

  void copy_rows(const float* from, std::size_t ld_from, std::size_t rows, std::size_t width,
                 float* to, std::size_t ld_to) override {
    for (std::size_t r = 0; r < rows; ++r) std::copy_n(from + r * ld_from, width, to + r * ld_to);
  }

  void append(std::span<const AppendJob> jobs) override {
    pool_.parallel_for(jobs.size(), [&](std::size_t i, int) {
      const AppendJob& job = jobs[i];
      for (int r = 0; r < job.rows; ++r) {
        const std::size_t at = static_cast<std::size_t>(r) * job.stride;
        job.set->write(job.first + r, job.k + at, job.v == nullptr ? nullptr : job.v + at,
                       job.pre_rope_k == nullptr ? nullptr : job.pre_rope_k + at);
      }
    });
  }

  void read_pre_rope_keys(const KvHeadCache& set, int first, int rows, float* out) override {
    for (int r = 0; r < rows; ++r, out += set.layout().head_dim) set.read_raw_key(first + r, out);
  }

  void attend(float scale, std::span<const AttentionJob> jobs) override {
    cpu::attend(pool_, scale, jobs, workspace_);
  }

  void add_column_sums(float scale, std::span<const ColumnJob> jobs) override {
    cpu::add_column_sums(pool_, scale, jobs, workspace_);
  }

  void row_probabilities(float scale, const KvHeadCache& keys, const float* q, std::size_t q_stride,
                         const std::int32_t* positions, int rows, int sliding_window, float* out,
                         std::size_t ld) override {
    cpu::row_probabilities(scale, keys, q, q_stride, positions, rows, sliding_window, out, ld);
  }

  void add_mass(float scale, std::span<const MassJob> jobs) override {
    cpu::add_mass(pool_, scale, jobs);
  }

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
  std::size_t workspace_bytes() const override { return workspace_.bytes(); }

 private:
  // Work below which a fork-join costs more than it saves, in floats.
  static constexpr std::size_t kGrain = 1 << 15;

  template <typename Body>
  void by_rows(std::size_t rows, std::size_t width, const Body& body) {
    const std::size_t per_task = std::max<std::size_t>(1, kGrain / std::max<std::size_t>(1, width));
    const std::size_t tasks = (rows + per_task - 1) / per_task;
    pool_.parallel_for(tasks, [&](std::size_t t, int) {
      body(t * per_task, std::min(per_task, rows - t * per_task));
    });
  }

  ThreadPool pool_;
  cpu::AttentionWorkspace workspace_;
  Buffer stream_;  // what measure_ceilings reads
};

}  // namespace

std::size_t cpu_scratch_bytes(const ModelConfig& config, const PassSize& pass, int threads) {
  return cpu::attention_scratch_bytes(config, pass, threads);
}

std::unique_ptr<Backend> make_cpu_backend(int threads) {
  return std::make_unique<CpuBackend>(threads);
}

}  // namespace turnbench
