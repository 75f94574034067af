#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "inference/backend/backend.h"
#include "inference/cuda/context.h"

namespace turnbench::cuda {

/// A CUDA graph: operations that are captured once and launched together.
class CudaGraph {
 public:
  /// Captures the operations of `work` without executing them.  They must have run before: the
  /// scratch arena must be large enough, and what operations initialize once must be initialized.
  /// @throws Error (runtime) if an operation waits, allocates or uploads.
  CudaGraph(Context& context, const std::function<void()>& work);
  ~CudaGraph();
  CudaGraph(const CudaGraph&) = delete;
  CudaGraph& operator=(const CudaGraph&) = delete;

  /// Launches the graph in the context's stream.
  void launch(Context& context) const;

 private:
  cudaGraphExec_t exec_ = nullptr;
};

/// Replay with CUDA graphs: the first run executes the work, the second captures it, and from then
/// on its graph is launched.
class GraphReplay : public Replay {
 public:
  /// The number of keys whose graphs are kept; the least recently used are dropped.
  static constexpr std::size_t kMaxPasses = 8;

  explicit GraphReplay(std::shared_ptr<Context> context) : context_(std::move(context)) {}

  void run(const ReplayKey& key, int part, const std::function<void()>& work) override;

  /// The number of existing graphs.
  std::size_t size() const;

 private:
  /// Graphs by part; null for parts that have run once.
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
  int scratch_generation_ = 0;  // of the scratch addresses in the graphs
};

}  // namespace turnbench::cuda
