#pragma once

#include <algorithm>
#include <span>
#include <vector>

#include "inference/cuda/context.h"

namespace turnbench::cuda {

/// Slots [first, end) of a set.
struct SlotRange {
  PageTable pages;  ///< from the page of slot `first` on
  ElementLayout layout;
  int first, end;

  template <typename T>
  __device__ const T* row(int slot, std::size_t offset = 0) const {
    return reinterpret_cast<const T*>(pages[slot / kPageTokens - first / kPageTokens] + offset) +
           static_cast<std::size_t>(slot % kPageTokens) * layout.head_dim;
  }
};

/// Slots [first, end) of the set of every job; their tables of pages are uploaded at once.
template <typename Job, typename First, typename End>
std::vector<SlotRange> slot_ranges(Context& context, std::span<const Job> jobs,
                                   const First& first_of, const End& end_of) {
  std::vector<SlotRange> out;
  std::vector<std::span<const std::byte>> tables;
  for (const Job& job : jobs) {
    const int first = first_of(job), end = std::max(first, end_of(job));
    check_on_device(*job.set);
    const auto pages = job.set->page_indices();
    const std::size_t from = std::min(pages.size(), static_cast<std::size_t>(first / kPageTokens)),
                      to = static_cast<std::size_t>(end + kPageTokens - 1) / kPageTokens;
    tables.push_back(std::as_bytes(pages.subspan(from, std::max(from, to) - from)));
    out.push_back({PageTable::of(*job.set, nullptr), job.set->layout(), first, end});
  }
  const std::byte* at = context.upload_pieces(tables);
  for (std::size_t i = 0; i < out.size(); ++i) {
    out[i].pages.indices = reinterpret_cast<const std::uint32_t*>(at);
    at += tables[i].size();
  }
  return out;
}

}  // namespace turnbench::cuda
