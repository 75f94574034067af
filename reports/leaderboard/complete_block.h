#pragma once

#include <cstddef>
#include <set>
#include <vector>

namespace turnbench {

/// Methods, and the conditions under which all of them have results: indices, ascending.
struct CompleteBlock {
  std::vector<std::size_t> methods, conditions;
};

/// The largest complete block of several methods (of one, if no two share a condition): the one
/// with the most pairs of a method and a condition; among equal ones, that with more methods.
/// `conditions_of`: the conditions of each method.  All intersections of these sets are tried, up
/// to 4,096 of them: one that holds all conditions of a block is among them.
CompleteBlock largest_complete_block(const std::vector<std::set<std::size_t>>& conditions_of);

}  // namespace turnbench
