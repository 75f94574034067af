#pragma once

// Backends that refuse data outside of their memory.

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>

#include "common/error.h"
#include "inference/backend/backend.h"

namespace turnbench::test {

/// Records which of several backends owns which bytes, and which may have operations in flight.
class Territories {
 public:
  void claim(int owner, const std::byte* data, std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    ranges_[data] = {owner, bytes};
  }
  void leave(const std::byte* data) {
    const std::lock_guard lock(mutex_);
    ranges_.erase(data);
  }
  /// Marks operations of the calling thread.  The copies of a link, on its own thread, are waited
  /// for by their tickets, and do not access activations.
  void set_busy(int owner, bool busy) {
    const std::lock_guard lock(mutex_);
    busy_[{owner, std::this_thread::get_id()}] = busy;
  }
  bool is_busy(int owner) const {
    const std::lock_guard lock(mutex_);
    const auto found = busy_.find({owner, std::this_thread::get_id()});
    return found != busy_.end() && found->second;
  }
  /// None for memory that belongs to the host only.
  std::optional<int> owner_of(const void* data) const {
    const std::lock_guard lock(mutex_);
    const auto* at = static_cast<const std::byte*>(data);
    auto after = ranges_.upper_bound(at);
    if (after == ranges_.begin()) return std::nullopt;
    --after;
    if (at >= after->first + after->second.bytes) return std::nullopt;
    return after->second.owner;
  }
  std::size_t bytes_of(int owner) const {
    const std::lock_guard lock(mutex_);
    std::size_t total = 0;
    for (const auto& [data, range] : ranges_) total += range.owner == owner ? range.bytes : 0;
    return total;
  }

 private:
  struct Range {
    int owner;
    std::size_t bytes;
  };
  mutable std::mutex mutex_;
  std::map<const std::byte*, Range> ranges_;
  std::map<std::pair<int, std::thread::id>, bool> busy_;
};

/// The pages of a range, recorded as the owner's.
class GuardedPages : public PageRange {
 public:
  GuardedPages(std::unique_ptr<PageRange> inner, std::shared_ptr<Territories> all, int owner)
      : PageRange(inner->base(), inner->stride()),
        inner_(std::move(inner)),
        all_(std::move(all)),
        owner_(owner) {}
  ~GuardedPages() override { all_->leave(base()); }
  void grow() override {
    inner_->grow();
    size_ = inner_->size();
    all_->claim(owner_, base(), size_ * stride());
  }

 private:
  std::unique_ptr<PageRange> inner_;
  std::shared_ptr<Territories> all_;
  int owner_;
};

/// Copies from another backend's memory only after that backend has finished.
/// is_device: the memory reports that it is device memory, not host memory.
class GuardedMemory : public Memory {
 public:
  GuardedMemory(std::shared_ptr<Memory> inner, std::shared_ptr<Territories> all, int owner,
                bool is_device)
      : inner_(std::move(inner)), all_(std::move(all)), owner_(owner), is_device_(is_device) {}

  std::byte* allocate(std::size_t bytes) override {
    std::byte* data = inner_->allocate(bytes);
    if (is_device_) std::memset(data, 0, bytes);  // kernels of the CPU read whole pages
    all_->claim(owner_, data, bytes);
    return data;
  }
  void release(std::byte* data, std::size_t bytes) noexcept override {
    all_->leave(data);
    inner_->release(data, bytes);
  }
  std::unique_ptr<PageRange> reserve_pages(std::size_t stride) override {
    auto inner = inner_->reserve_pages(stride);
    if (inner == nullptr) return nullptr;
    return std::make_unique<GuardedPages>(std::move(inner), all_, owner_);
  }
  void copy(std::span<const Copy> copies) override {
    for (const Copy& c : copies) {
      const std::optional<int> to = all_->owner_of(c.to), from = all_->owner_of(c.from);
      if (to && to != owner_) throw runtime_error("copy: found another's memory to copy to");
      if (from && from != owner_ && all_->is_busy(*from))
        throw runtime_error("copy: found a memory to copy from that has not finished");
    }
    all_->set_busy(owner_, true);
    inner_->copy(copies);
  }
  void synchronize() override {
    inner_->synchronize();
    all_->set_busy(owner_, false);
  }
  bool is_host() const override { return !is_device_ && inner_->is_host(); }

 private:
  std::shared_ptr<Memory> inner_;
  std::shared_ptr<Territories> all_;
  int owner_;
  bool is_device_;
};

/// Marks its backend as busy, whether it runs the work or replays a record.
class GuardedReplay : public Replay {
 public:
  GuardedReplay(std::unique_ptr<Replay> inner, std::shared_ptr<Territories> all, int owner)
      : inner_(std::move(inner)), all_(std::move(all)), owner_(owner) {}

  void run(const ReplayKey& key, int part, const std::function<void()>& work) override {
    for (const float* data : key.memory) {
      if (data != nullptr && all_->owner_of(data) != owner_)
        throw runtime_error("replay: found activations in another's memory");
    }
    all_->set_busy(owner_, true);
    inner_->run(key, part, work);
  }

 private:
  std::unique_ptr<Replay> inner_;
  std::shared_ptr<Territories> all_;
  int owner_;
};

/// A backend that throws if an operation gets data of another owner.
class GuardedBackend : public Backend {
 public:
  GuardedBackend(std::unique_ptr<Backend> inner, std::shared_ptr<Territories> all, int owner,
                 bool is_device = false)
      : inner_(std::move(inner)),
        all_(std::move(all)),
        memory_(std::make_shared<GuardedMemory>(inner_->memory(), all_, owner, is_device)),
        owner_(owner) {}

  /// Bytes of all matrices made so far.
  std::size_t matrix_bytes() const { return matrix_bytes_; }

  std::string description() const override { return inner_->description(); }
  int threads() const override { return inner_->threads(); }
  bool rows_are_independent() const override { return inner_->rows_are_independent(); }
  bool leaves_out_rows() const override { return inner_->leaves_out_rows(); }
  const std::shared_ptr<Memory>& memory() override { return memory_; }

  std::unique_ptr<WeightMatrix> make_matrix(std::int64_t out, std::int64_t in, DType dtype,
                                            Math math) override {
    auto matrix = inner_->make_matrix(out, in, dtype, math);
    matrices_.insert(matrix.get());
    matrix_bytes_ += matrix->bytes();
    return matrix;
  }
  void embed(const WeightMatrix& table, std::span<const int> tokens, float* out) override {
    expect_own("embed", {out}, &table);
    inner_->embed(table, tokens, out);
  }
  void linear(MatrixView<const float> x, const WeightMatrix& w, const float* bias,
              MatrixView<float> y) override {
    expect_own("linear", {x.data, bias, y.data}, &w);
    inner_->linear(x, w, bias, y);
  }
  void rms_norm(MatrixView<const float> x, const float* weight, float eps,
                MatrixView<float> out) override {
    expect_own("rms_norm", {x.data, weight, out.data});
    inner_->rms_norm(x, weight, eps, out);
  }
  void rms_norm_heads(MatrixView<float> x, int head_dim, int heads, const float* weight,
                      const float* other_weight, float eps) override {
    expect_own("rms_norm_heads", {x.data, weight, other_weight});
    inner_->rms_norm_heads(x, head_dim, heads, weight, other_weight, eps);
  }
  void apply_rope(MatrixView<float> x, MatrixView<const float> cos,
                  MatrixView<const float> sin) override {
    expect_own("apply_rope", {x.data, cos.data, sin.data});
    inner_->apply_rope(x, cos, sin);
  }
  void round_to_bf16(MatrixView<float> x) override {
    expect_own("round_to_bf16", {x.data});
    inner_->round_to_bf16(x);
  }
  void silu_multiply(MatrixView<const float> gate_up, MatrixView<float> out) override {
    expect_own("silu_multiply", {gate_up.data, out.data});
    inner_->silu_multiply(gate_up, out);
  }
  void add(float* x, const float* y, std::int64_t n) override {
    expect_own("add", {x, y});
    inner_->add(x, y, n);
  }
  void copy_rows(MatrixView<const float> from, MatrixView<float> to) override {
    expect_own("copy_rows", {from.data, to.data});
    inner_->copy_rows(from, to);
  }
  void append(std::span<const AppendJob> jobs) override {
    for (const AppendJob& job : jobs) {
      expect_own("append", {job.k.data, job.v.data, job.pre_rope_k.data});
      expect_own_pages("append", *job.set);
    }
    inner_->append(jobs);
  }
  void read_rows(std::span<const ReadRowsJob> jobs) override {
    for (const ReadRowsJob& job : jobs) {
      expect_own("read_rows", {job.out.data});
      expect_own_pages("read_rows", *job.set);
    }
    inner_->read_rows(jobs);
  }
  std::vector<float> rows_on_host(const KvHeadCache& set, KvRow row, int first, int end) override {
    expect_own_pages("rows_on_host", set);
    return inner_->rows_on_host(set, row, first, end);
  }
  std::vector<float> rows_on_host(MatrixView<const float> from,
                                  std::span<const int> rows) override {
    expect_own("rows_on_host", {from.data});
    return inner_->rows_on_host(from, rows);
  }
  void attend(float scale, std::span<const AttentionJob> jobs) override {
    for (const AttentionJob& job : jobs) {
      expect_own("attend", {job.q.data, job.out.data, job.lse.data});
      expect_own_pages("attend", *job.keys);
    }
    inner_->attend(scale, jobs);
  }
  void add_column_sums(float scale, std::span<const ColumnJob> jobs) override {
    for (const ColumnJob& job : jobs) {
      expect_own("add_column_sums", {job.q.data, job.lse.data});
      expect_own_pages("add_column_sums", *job.keys);
    }
    inner_->add_column_sums(scale, jobs);
  }
  void row_probabilities(float scale, const KvHeadCache& keys, MatrixView<const float> q,
                         const std::int32_t* positions, int sliding_window,
                         MatrixView<float> out) override {
    expect_no_others("row_probabilities", q.data);
    expect_own_pages("row_probabilities", keys);
    inner_->row_probabilities(scale, keys, q, positions, sliding_window, out);
  }
  void add_line_mass(float scale, std::span<const LineMassJob> jobs) override {
    for (const LineMassJob& job : jobs) {
      expect_no_others("add_line_mass", job.q.data);
      expect_own_pages("add_line_mass", *job.keys);
    }
    inner_->add_line_mass(scale, jobs);
  }
  void score_vectors(float scale, std::span<const VectorScoreJob> jobs) override {
    for (const VectorScoreJob& job : jobs)
      expect_own("score_vectors", {job.q.data, job.vectors.data, job.out.data});
    inner_->score_vectors(scale, jobs);
  }
  void score_keys(float scale, std::span<const KeyScoreJob> jobs) override {
    for (const KeyScoreJob& job : jobs) {
      expect_own("score_keys", {job.q.data, job.out.data});
      expect_own_pages("score_keys", *job.set);
    }
    inner_->score_keys(scale, jobs);
  }
  void update_page_bounds(std::span<const PageBoundsJob> jobs) override {
    for (const PageBoundsJob& job : jobs) {
      expect_own("update_page_bounds", {job.bounds.low, job.bounds.high});
      expect_own_pages("update_page_bounds", *job.set);
    }
    inner_->update_page_bounds(jobs);
  }
  void score_pages(float scale, std::span<const PageScoreJob> jobs) override {
    for (const PageScoreJob& job : jobs)
      expect_own("score_pages", {job.q.data, job.bounds.low, job.bounds.high, job.out.data});
    inner_->score_pages(scale, jobs);
  }
  void score_codes(float scale, std::span<const CodeScoreJob> jobs) override {
    for (const CodeScoreJob& job : jobs)
      expect_own("score_codes", {job.q.data, job.centroids.data, job.codes, job.out.data});
    inner_->score_codes(scale, jobs);
  }
  void transpose_keys(std::span<const TransposeKeysJob> jobs) override {
    for (const TransposeKeysJob& job : jobs) {
      expect_own("transpose_keys", {job.columns});
      expect_own_pages("transpose_keys", *job.set);
    }
    inner_->transpose_keys(jobs);
  }
  void score_dimensions(float scale, std::span<const DimensionScoreJob> jobs) override {
    for (const DimensionScoreJob& job : jobs)
      expect_own("score_dimensions", {job.q.data, job.columns, job.out.data});
    inner_->score_dimensions(scale, jobs);
  }
  void reduce_heads(std::span<const ReduceHeadsJob> jobs) override {
    for (const ReduceHeadsJob& job : jobs)
      expect_own("reduce_heads", {job.scores.data, job.out.data});
    inner_->reduce_heads(jobs);
  }
  void slot_mass(std::span<const SlotMassJob> jobs) override {
    for (const SlotMassJob& job : jobs) expect_own("slot_mass", {job.scores.data, job.out});
    inner_->slot_mass(jobs);
  }
  void top_k(std::span<const TopKJob> jobs) override {
    for (const TopKJob& job : jobs) expect_own("top_k", {job.scores.data()});
    inner_->top_k(jobs);
  }
  void assign_nearest(std::span<const NearestJob> jobs) override {
    for (const NearestJob& job : jobs)
      expect_own("assign_nearest", {job.vectors.data, job.centroids.data, job.out});
    inner_->assign_nearest(jobs);
  }
  void add_values(std::span<const AddValuesJob> jobs) override {
    for (const AddValuesJob& job : jobs) {
      expect_own("add_values", {job.sums, job.mean});
      expect_own_pages("add_values", *job.set);
    }
    inner_->add_values(jobs);
  }
  void rebuild_keys(std::span<const RebuildKeysJob> jobs) override {
    for (const RebuildKeysJob& job : jobs) {
      expect_own("rebuild_keys",
                 {job.coefficients, job.basis.data, job.rope.cos.data, job.rope.sin.data});
      expect_own_pages("rebuild_keys", *job.set);
    }
    inner_->rebuild_keys(jobs);
  }
  void blend(std::span<const BlendJob> jobs) override {
    for (const BlendJob& job : jobs) expect_own("blend", {job.out.data, job.weights, job.vector});
    inner_->blend(jobs);
  }
  void merge(std::span<const MergeJob> jobs) override {
    for (const MergeJob& job : jobs)
      expect_own("merge", {job.out.data, job.lse.data, job.other_out.data, job.other_lse.data});
    inner_->merge(jobs);
  }
  void parallel_for(std::size_t count, const std::function<void(std::size_t)>& task) override {
    inner_->parallel_for(count, task);
  }
  std::unique_ptr<Replay> make_replay() override {
    return std::make_unique<GuardedReplay>(inner_->make_replay(), all_, owner_);
  }
  Ceilings measure_ceilings() override { return inner_->measure_ceilings(); }
  std::size_t scratch_bytes(const ModelConfig& config, const PassSize& pass) const override {
    return inner_->scratch_bytes(config, pass);
  }
  std::size_t workspace_bytes() const override { return inner_->workspace_bytes(); }
  void release_workspace() override { inner_->release_workspace(); }

 private:
  /// Null pointers have no owner.
  void expect_own(const char* what, std::initializer_list<const void*> pointers,
                  const WeightMatrix* matrix = nullptr) {
    for (const void* p : pointers) {
      if (p != nullptr && all_->owner_of(p) != owner_)
        throw runtime_error("{}: found an argument in memory that is not the backend's", what);
    }
    if (matrix != nullptr && !matrices_.contains(matrix))
      throw runtime_error("{}: found a matrix of another backend", what);
    all_->set_busy(owner_, true);
  }
  void expect_no_others(const char* what, const void* data) {
    if (all_->owner_of(data).value_or(owner_) != owner_)
      throw runtime_error("{}: found an argument in another backend's memory", what);
    all_->set_busy(owner_, true);
  }
  void expect_own_pages(const char* what, const KvHeadCache& set) const {
    for (const std::byte* page : set.page_data()) {
      if (all_->owner_of(page) != owner_)
        throw runtime_error("{}: found a KV set in memory that is not the backend's", what);
    }
  }

  std::unique_ptr<Backend> inner_;
  std::shared_ptr<Territories> all_;
  std::shared_ptr<Memory> memory_;
  int owner_;
  std::set<const WeightMatrix*> matrices_;
  std::size_t matrix_bytes_ = 0;
};

}  // namespace turnbench::test
