#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "inference/policy/background.h"
#include "inference/policy/policy.h"

namespace turnbench {

/// How keys are quantised (product quantisation, Jegou et al., 2011): their dimensions are cut into
/// `parts` equal parts, each with 2^bits centroids of its own.
struct CodeSettings {
  int parts = 2, bits = 6;
  int iterations = 10;  ///< at most, of k-means
  int count() const { return 1 << bits; }
};

/// @throws Error (input) if keys of `head_dim` dimensions cannot be cut into `parts` equal parts.
void check_parts(int parts, std::int64_t head_dim);

/// The codes of a layer's keys and their centroids, which background tasks find.  All sequences
/// that go on from the same prompt share one.
class CodeIndex {
 public:
  /// Starts to find the codes of the slots from first[s] on of each set s of the view.  Reads their
  /// keys at once: the tasks own a copy.  Each set needs at least 2^bits such slots.
  CodeIndex(const LayerView& view, const CodeSettings& settings, std::span<const int> first);

  /// Waits until all is found.
  void wait() const { job_->wait(); }

  // After `wait`:
  /// [parts * 2^bits, head_dim / parts], in host memory.
  MatrixView<const float> centroids(std::size_t set) const;
  /// One part's codes of all slots from first[set] on.
  std::span<const std::uint8_t> codes(std::size_t set, int part) const;
  /// The most iterations of k-means that a part took.
  int iterations() const;

 private:
  /// One part of one set: what a task reads and what it finds.
  struct Problem {
    std::shared_ptr<const std::vector<float>> keys;  ///< [rows, head_dim]; null when it is solved
    std::vector<float> centroids;                    ///< [2^bits, head_dim / parts]
    std::vector<std::uint8_t> codes;                 ///< [rows]
    int iterations = 0;
  };
  /// Of all problems, set by set.
  struct Work {
    std::vector<Problem> problems;
    std::vector<float> centroids;
  };

  CodeSettings settings_;
  std::int64_t head_dim_;
  std::shared_ptr<Work> work_ = std::make_shared<Work>();
  std::shared_ptr<BackgroundJob> job_;
};

}  // namespace turnbench
