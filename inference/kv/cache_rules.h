#pragma once

#include <memory>

#include "inference/kv/residency.h"

namespace turnbench {

// The rules of Residency.  The options must have been checked.

std::unique_ptr<Residency> make_inserted_blocks(const Residency::Options& options);  // kLru, kLfu
std::unique_ptr<Residency> make_demanded_blocks(const Residency::Options& options);  // kDemandLru
std::unique_ptr<Residency> make_previous_blocks(const Residency::Options& options);  // kPrevious

}  // namespace turnbench
