#include "methods/parts/page_index.h"

#include <algorithm>
#include <vector>

#include <fmt/format.h>

#include "inference/backend/backend.h"

namespace turnbench {
namespace {

constexpr std::int64_t kMorePages = 8;  // pages of an answer before the buffer grows

}  // namespace

PageBoundsBuffer::PageBoundsBuffer(const LayerView& view, std::int64_t pages, int page_tokens)
    : pages_(pages), page_tokens_(page_tokens) {
  page_bytes_ = static_cast<std::int64_t>(view.sets.front().layout().row_bytes());
  const std::int64_t rows = 2 * pages * std::ssize(view.sets);
  bytes_ = Buffer(static_cast<std::size_t>(rows * page_bytes_), view.backend->memory());
  data_ = bytes_.data();
}

PageBounds PageBoundsBuffer::of_set(std::size_t set) const {
  std::byte* low = data_ + 2 * static_cast<std::int64_t>(set) * pages_ * page_bytes_;
  return {low, low + pages_ * page_bytes_, page_tokens_};
}

void PageIndex::build(const LayerView& view) {
  tokens_.end_prompt(view);
  own_ = {};
  prompt_ = view.memo->get<PageBoundsBuffer>(fmt::format("page bounds {}", page_tokens_), [&] {
    const std::int64_t pages = (longest_set(view.sets) + page_tokens_ - 1) / page_tokens_;
    auto out = std::make_shared<PageBoundsBuffer>(view, pages, page_tokens_);
    std::vector<PageBoundsJob> jobs;
    for (std::size_t s = 0; s < view.sets.size(); ++s)
      jobs.push_back({&view.sets[s], 0, out->of_set(s)});
    view.backend->update_page_bounds(jobs);
    return out;
  });
}

int PageIndex::tokens(const LayerView& view, std::size_t set) const {
  if (covers_pages()) return tokens_.prompt(set);
  return prompt_only_ ? view.sets[set].lower_bound(view.prompt_tokens) : view.sets[set].size();
}

void PageIndex::extend(const LayerView& view) {
  if (covers_pages()) return;
  const std::int64_t pages = tokens_.own_units(view);
  const bool grows = pages > own_.value.pages();
  if (grows) own_.value = PageBoundsBuffer(view, 2 * pages + kMorePages, page_tokens_);
  const std::vector<int> first = tokens_.extend(view, grows);
  std::vector<RowsOnDevice> rows;
  rows.reserve(view.sets.size());  // jobs refer to its elements
  std::vector<PageBoundsJob> jobs;
  for (std::size_t s = 0; s < view.sets.size(); ++s) {
    rows.emplace_back(view, view.sets[s], first[s] / page_tokens_ * page_tokens_, copies_);
    const int origin = rows[s].origin();
    jobs.push_back({&rows[s].set(), first[s] - origin, own_.value.of_set(s),
                    tokens_.first_own(s) - origin / page_tokens_});
  }
  view.backend->update_page_bounds(jobs);
}

void PageIndex::add_scores(const LayerView& view, std::size_t set, MatrixView<float> scores,
                           SelectionJobs& jobs) const {
  const std::int64_t of_prompt = covers_pages() ? pages(view, set) : tokens_.first_own(set),
                     prompt = std::min(of_prompt, scores.columns), own = scores.columns - prompt;
  const DType dtype = view.sets[set].layout().dtype;
  const MatrixView<const float> q = view.step_queries(set);
  jobs.pages.push_back({q, prompt_->of_set(set), dtype, scores.columns_at(0, prompt)});
  if (own > 0)
    jobs.pages.push_back({q, own_.value.of_set(set), dtype, scores.columns_at(prompt, own)});
}

std::size_t PageIndex::bytes(const PromptSize& size, int page_tokens) {
  const std::int64_t pages = (size.tokens + page_tokens - 1) / page_tokens + kMorePages;
  return 2 * size.key_elements(pages) * size_of(size.dtype);
}

}  // namespace turnbench
