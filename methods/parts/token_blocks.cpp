#include "methods/parts/token_blocks.h"

#include <algorithm>

#include "methods/parts/scores.h"

namespace turnbench {

std::vector<std::int32_t> in_blocks(std::span<const float> scores, int block, int count) {
  std::vector<std::int32_t> out;
  for (std::int32_t b : ranking(block_sums(scores, block))) {
    const auto begin = static_cast<std::size_t>(b) * static_cast<std::size_t>(block);
    const std::size_t size = std::min(static_cast<std::size_t>(block), scores.size() - begin);
    const int left = count - static_cast<int>(out.size());
    for (std::int32_t i : top_k(scores.subspan(begin, size), left))
      out.push_back(static_cast<std::int32_t>(begin) + i);
  }
  std::sort(out.begin(), out.end());
  return out;
}

std::vector<std::int32_t> in_chunks(std::span<const float> scores, int chunk, int count) {
  const int n = static_cast<int>(scores.size());
  std::vector<float> means = block_sums(scores, chunk);  // [ceil(n / chunk)]
  for (int c = 0; c < static_cast<int>(means.size()); ++c)
    means[c] /= static_cast<float>(std::min(chunk, n - c * chunk));
  std::vector<std::int32_t> out;
  for (std::int32_t c : ranking(means)) {
    const int begin = c * chunk, left = count - static_cast<int>(out.size());
    for (int j = begin; j < std::min({begin + chunk, n, begin + left}); ++j) out.push_back(j);
  }
  std::sort(out.begin(), out.end());
  return out;
}

}  // namespace turnbench
