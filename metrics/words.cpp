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

}  // namespace turnbench
