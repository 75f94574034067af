#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "inference/backend.h"
#include "inference/cuda/context.h"

namespace turnbench::cuda {

/// Operations that were recorded once and are launched as one.
class CudaGraph {
 public:
  /// Records what `work` asks of the context, and runs nothing of it.  The context's scratch must
  /// be in one piece that is large enough, and what the operations prepare at their first time be
  /// there.
  /// @throws Error (runtime) where an operation waits, allocates or uploads.
  CudaGraph(Context& context, const std::function<void()>& work);
  ~CudaGraph();
  CudaGraph(const CudaGraph&) = delete;
  CudaGraph& operator=(const CudaGraph&) = delete;

  /// Does what was recorded, in the stream's order.
  void launch(Context& context) const;

 private:
  cudaGraphExec_t exec_ = nullptr;
};

/// Work that repeats, as graphs: done plainly the first time, recorded the second, launched from
/// then on.
class GraphReplay : public Replay {
 public:
  /// Passes of so many keys are remembered, those that were asked for last.
  static constexpr std::size_t kMaxPasses = 8;

  explicit GraphReplay(std::shared_ptr<Context> context) : context_(std::move(context)) {}

  void run(const ReplayKey& key, int part, const std::function<void()>& work) override;

  /// Graphs held now.
  std::size_t size() const;

 private:
  /// By part; null for those that were done once.
  using Parts = std::map<int, std::unique_ptr<CudaGraph>>;
  struct Pass {
    ReplayKey key;
    Parts parts;
    std::uint64_t last_used;
  };

  Parts& parts_of(const ReplayKey& key);

  std::shared_ptr<Context> context_;
  std::vector<Pass> passes_;
  std::uint64_t uses_ = 0;
  int scratch_generation_ = 0;  // that the graphs know the place of
};

}  // namespace turnbench::cuda
