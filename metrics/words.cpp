#include "metrics/words.h"

#include "common/error.h"

namespace turnbench {

std::uint32_t WordIds::id(std::string_view word) {
  return ids_.try_emplace(word, static_cast<std::uint32_t>(ids_.size())).first->second;
}

std::vector<std::uint32_t> WordIds::ids(std::span<const std::string_view> words) {
  std::vector<std::uint32_t> out;
  out.reserve(words.size());
  for (std::string_view word : words) out.push_back(id(word));
  return out;
}

void check_comparison_size(std::size_t prediction, std::size_t reference, std::string_view unit,
                           std::size_t limit) {
  if (reference != 0 && prediction > limit / reference) {
    throw input_error("found {} {} to compare with {}, expected a product of at most {}",
                      prediction, unit, reference, limit);
  }
}

double token_f1(std::span<const std::string_view> prediction,
                std::span<const std::string_view> reference) {
  WordIds ids;
  const std::vector<std::uint32_t> predicted = ids.ids(prediction);
  const std::vector<std::uint32_t> expected = ids.ids(reference);
  std::vector<std::size_t> left(ids.size());
  for (std::uint32_t id : expected) ++left[id];
  std::size_t common = 0;
  for (std::uint32_t id : predicted) {
    if (left[id] == 0) continue;
    --left[id];
    ++common;
  }
  if (common == 0) return 0;
  const double precision = static_cast<double>(common) / static_cast<double>(predicted.size());
  const double recall = static_cast<double>(common) / static_cast<double>(expected.size());
  return 2 * precision * recall / (precision + recall);
}

}  // namespace turnbench
