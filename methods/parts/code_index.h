#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "inference/policy/background.h"
#include "inference/policy/policy.h"

namespace turnbench {

/// Settings of product quantisation (Jegou et al., 2011): the dimensions of keys are split into
/// `parts` equal parts, each with its own 2^bits centroids.
struct CodeSettings {
  int parts = 2, bits = 6;
  int iterations = 10;  ///< maximal number of k-means iterations
  int count() const { return 1 << bits; }
};

/// @throws Error (input) if keys of `head_dim` dimensions cannot be split into `parts` equal parts.
void check_parts(int parts, std::int64_t head_dim);

/// The codes of a layer's keys and their centroids, computed by background tasks.  Shared by all
/// sequences that continue from the same prompt.
class CodeIndex {
 public:
  /// Starts to compute the codes of the slots from first[s] on of each set s of the view.  Copies
  /// their keys immediately; the tasks own the copy.  Each set needs at least 2^bits such slots.
  CodeIndex(const LayerView& view, const CodeSettings& settings, std::span<const int> first);

  /// Waits for the tasks.
  void wait() const { job_->wait(); }

  // After `wait`:
  /// [parts * 2^bits, head_dim / parts], in host memory.
  MatrixView<const float> centroids(std::size_t set) const;
  /// One part's codes of all slots from first[set] on.
  std::span<const std::uint8_t> codes(std::size_t set, int part) const;
  /// The largest number of k-means iterations over all parts.
  int iterations() const;

 private:
  /// One part of one set: the input and output of a task.
  struct Problem {
    std::shared_ptr<const std::vector<float>> keys;  ///< [rows, head_dim]; null when done
    std::vector<std::uint8_t> codes;                 ///< [rows]
    int iterations = 0;
  };
  /// All problems, set by set.
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
