#include "inference/cuda/graphs.h"

#include <algorithm>

namespace turnbench::cuda {
namespace {

/// While it lives, the context refuses what cannot be repeated as it is.
class Repeated {
 public:
  explicit Repeated(Context& context) : context_(context) { context_.set_repeated(true); }
  ~Repeated() { context_.set_repeated(false); }
  Repeated(const Repeated&) = delete;
  Repeated& operator=(const Repeated&) = delete;

 private:
  Context& context_;
};

}  // namespace

Graph::Graph(Context& context, const std::function<void()>& work) {
  const Repeated repeated(context);
  // Other threads, with other streams, may allocate meanwhile.
  check(cudaStreamBeginCapture(context.stream(), cudaStreamCaptureModeThreadLocal), "recording");
  cudaGraph_t graph = nullptr;
  try {
    work();
  } catch (...) {
    cudaStreamEndCapture(context.stream(), &graph);  // what went wrong is known
    if (graph != nullptr) cudaGraphDestroy(graph);
    throw;
  }
  check(cudaStreamEndCapture(context.stream(), &graph), "recording");
  const cudaError_t status = cudaGraphInstantiate(&exec_, graph, 0);
  cudaGraphDestroy(graph);
  check(status, "making a graph");
}

Graph::~Graph() {
  cudaGraphExecDestroy(exec_);  // one that still runs goes when it is done
}

void Graph::launch(Context& context) const {
  check(cudaGraphLaunch(exec_, context.stream()), "launching a graph");
}

void Graphs::run(const ReplayKey& key, int part, const std::function<void()>& work) {
  context_->begin();  // which brings scratch together where it stays
  if (scratch_generation_ != context_->scratch_generation()) {
    passes_.clear();
    scratch_generation_ = context_->scratch_generation();
  }
  Parts& parts = parts_of(key);
  const auto found = parts.find(part);
  if (found == parts.end()) {
    const Repeated repeated(*context_);
    work();
    parts.emplace(part, nullptr);
    return;
  }
  std::unique_ptr<Graph>& graph = found->second;
  if (graph == nullptr) graph = std::make_unique<Graph>(*context_, work);
  graph->launch(*context_);
}

Graphs::Parts& Graphs::parts_of(const ReplayKey& key) {
  auto found = std::find_if(passes_.begin(), passes_.end(),
                            [&](const Pass& pass) { return pass.key == key; });
  if (found == passes_.end()) {
    if (passes_.size() == kMostPasses) {
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

std::size_t Graphs::size() const {
  std::size_t total = 0;
  for (const Pass& pass : passes_) {
    for (const auto& [part, graph] : pass.parts) total += graph != nullptr;
  }
  return total;
}

}  // namespace turnbench::cuda
