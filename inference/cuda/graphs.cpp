#include "inference/cuda/graphs.h"

#include <algorithm>

namespace turnbench::cuda {
namespace {

/// During its lifetime, the context allows only operations that can be captured.
class OnlyCapturable {
 public:
  explicit OnlyCapturable(Context& context) : context_(context) {
    context_.set_only_capturable(true);
  }
  ~OnlyCapturable() { context_.set_only_capturable(false); }
  OnlyCapturable(const OnlyCapturable&) = delete;
  OnlyCapturable& operator=(const OnlyCapturable&) = delete;

 private:
  Context& context_;
};

}  // namespace

CudaGraph::CudaGraph(Context& context, const std::function<void()>& work) {
  const OnlyCapturable scope(context);
  // Other threads may allocate memory during the capture.
  check(cudaStreamBeginCapture(context.stream(), cudaStreamCaptureModeThreadLocal), "recording");
  cudaGraph_t graph = nullptr;
  try {
    work();
  } catch (...) {
    cudaStreamEndCapture(context.stream(), &graph);  // the original error is already known
    if (graph != nullptr) cudaGraphDestroy(graph);
    throw;
  }
  check(cudaStreamEndCapture(context.stream(), &graph), "recording");
  const cudaError_t status = cudaGraphInstantiate(&exec_, graph, 0);
  cudaGraphDestroy(graph);
  check(status, "making a graph");
}

CudaGraph::~CudaGraph() {
  cudaGraphExecDestroy(exec_);  // a running graph is destroyed when it finishes
}

void CudaGraph::launch(Context& context) const {
  check(cudaGraphLaunch(exec_, context.stream()), "launching a graph");
}

void GraphReplay::run(const ReplayKey& key, int part, const std::function<void()>& work) {
  context_->begin();  // which merges scratch into one piece, whose address stays valid
  if (scratch_generation_ != context_->scratch_generation()) {
    passes_.clear();
    scratch_generation_ = context_->scratch_generation();
  }
  Parts& parts = parts_of(key);
  const auto found = parts.find(part);
  if (found == parts.end()) {
    const OnlyCapturable scope(*context_);
    work();
    parts.emplace(part, nullptr);
    return;
  }
  std::unique_ptr<CudaGraph>& graph = found->second;
  if (graph == nullptr) graph = std::make_unique<CudaGraph>(*context_, work);
  graph->launch(*context_);
}

GraphReplay::Parts& GraphReplay::parts_of(const ReplayKey& key) {
  auto found = std::find_if(passes_.begin(), passes_.end(),
                            [&](const Pass& pass) { return pass.key == key; });
  if (found == passes_.end()) {
    if (passes_.size() == kMaxPasses) {
      passes_.erase(
          std::min_element(passes_.begin(), passes_.end(),
                           [](const Pass& a, const Pass& b) { return a.last_used < b.last_used; }));
    }
    passes_.push_back({key, {}, 0});
    found = passes_.end() - 1;
  }
  found->last_used = ++uses_;
  return found->parts;
}

std::size_t GraphReplay::size() const {
  std::size_t total = 0;
  for (const Pass& pass : passes_) {
    for (const auto& [part, graph] : pass.parts) total += graph != nullptr;
  }
  return total;
}

}  // namespace turnbench::cuda
