#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "common/random.h"
#include "inference/policy/policy.h"

namespace turnbench {

/// How the scores of the query heads that share a kept set are reduced to one row.
enum class GroupRule { kMean, kMax, kSum };
GroupRule parse_group_rule(const std::string& name);

/// Reduces the rows of query heads [first_head, first_head + heads) to one: [slots], the scores of
/// the first `slots` cached tokens.
std::vector<float> group_scores(const HeadScores& scores, int first_head, int heads, int slots,
                                GroupRule rule);

/// Pooling along the sequence, stride 1, output as long as the input: [n] -> [n].  `kernel` is odd,
/// in tokens.  `max` pads with -inf; `avg` pads with zeros and always divides by the kernel.
enum class Pooling { kNone, kMax, kAvg };
Pooling parse_pooling(const std::string& name);
std::vector<float> pool1d(std::span<const float> scores, int kernel, Pooling pooling);

/// Sums of blocks of `block` neighbouring scores, the last block possibly shorter: [n] -> [ceil(n /
/// block)].
std::vector<float> block_sums(std::span<const float> scores, int block);

/// Indices of the k highest scores, ascending.  Ties go to the lower index; NaN is an error.
std::vector<std::int32_t> top_k(std::span<const float> scores, int k);

/// The k highest scores of all rows together (or all scores if there are fewer), as ascending
/// indices of each row: [rows][indices].  Ties go to the lower row, then to the lower index.
std::vector<std::vector<std::int32_t>> top_k_of_rows(std::span<const std::vector<float>> rows,
                                                     std::int64_t k);

/// The same as `top_k` with the first `forced` scores set to infinity, so that they are chosen
/// first.
std::vector<std::int32_t> top_k_with_first(std::vector<float> scores, int forced, int k);

/// All indices from the highest score to the lowest.  Ties go to the lower index; NaN is an error.
std::vector<std::int32_t> ranking(std::span<const float> scores);

/// The number of scores, highest first, whose sum exceeds `share`; one more than the number of
/// scores if it never does.
int cover_count(std::vector<float> scores, double share);

/// The slots of a set, with -1 for slots outside the layer's sliding window of the step's query;
/// empty if all slots are inside.
std::vector<std::int32_t> slots_in_window(const LayerView& view, const KvHeadCache& set);

/// `chosen` (ascending, below `begin`) followed by begin .. end - 1.
std::vector<std::int32_t> with_tail(std::vector<std::int32_t> chosen, int begin, int end);

/// Keeps the same slots in every set of the layer.  All sets must hold the same tokens.
KeepSets in_every_set(const LayerView& view, const std::vector<std::int32_t>& slots);

/// The cached keys and values that a query head reads.
const KvHeadCache& cache_of_head(const LayerView& view, int head);

/// Slots [first, first + count) of a set.
struct SlotsOfSet {
  int first = 0, count = 0;
};
/// The largest probability that the rows of a pass give to each slot of `slots`, over all rows and
/// over the query heads of a set: [sets][count].  stats: of the sets in which the slots count.
std::vector<std::vector<float>> largest_probabilities(const LayerView& view,
                                                      const AttentionStats& stats,
                                                      std::span<const SlotsOfSet> slots);
/// scores[first + i] becomes at least least[i]; missing scores are 0.
void raise_to(std::span<const float> least, std::vector<float>& scores, int first);

/// Draws `count` distinct indices below `rows`, in the order of the draws.
/// @throws Error (input) if `count` exceeds `rows`.
std::vector<std::int32_t> draw_rows(Random& random, std::int64_t rows, std::int64_t count);

}  // namespace turnbench
