#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "inference/policy.h"

namespace turnbench {

/// How the scores of the query heads that share a kept set become one row.
enum class GroupRule { kMean, kMax, kSum };
GroupRule parse_group_rule(const std::string& name);

/// The window scores of one kept set: rows `first_head` .. + `heads` of `scores`, slots [0, slots),
/// reduced by `rule`.
std::vector<float> group_scores(const HeadScores& scores, int first_head, int heads, int slots,
                                GroupRule rule);

/// Stride-1 pooling of the same length with an odd kernel.  `max` pads with -inf; `avg` pads with
/// zeros and always divides by the kernel.
enum class Pooling { kNone, kMax, kAvg };
Pooling parse_pooling(const std::string& name);
std::vector<float> pool1d(std::span<const float> scores, int kernel, Pooling pooling);

/// Indices of the k highest scores, ascending.  Ties go to the lower index; NaN is an error.
std::vector<std::int32_t> top_k(std::span<const float> scores, int k);

/// All indices from the highest score to the lowest.  Ties go to the lower index; NaN is an error.
std::vector<std::int32_t> ranking(std::span<const float> scores);

/// How many scores, highest first, it takes until their sum exceeds `share`; one more than there
/// are if it never does.
int cover_count(std::vector<float> scores, double share);

/// `chosen` (ascending, below `begin`) followed by begin .. end - 1.
std::vector<std::int32_t> with_tail(std::vector<std::int32_t> chosen, int begin, int end);

}  // namespace turnbench
