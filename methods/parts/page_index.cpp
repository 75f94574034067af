#include "methods/parts/page_index.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "inference/backend/backend.h"

namespace turnbench {
namespace {

constexpr std::int64_t kMorePages = 8;  // pages of an answer before the buffer grows

}  // namespace

PageBoundsBuffer::PageBoundsBuffer(const LayerView& view, std::int64_t pages, int page_tokens,
                                   bool transposed)
    : pages_(pages), page_tokens_(page_tokens), transposed_(transposed) {
  page_bytes_ = static_cast<std::int64_t>(view.sets.front().layout().row_bytes(KvRow::kKey));
  const std::int64_t rows = 2 * pages * std::ssize(view.sets);
  bytes_ = Buffer(static_cast<std::size_t>(rows * page_bytes_), view.backend->memory());
  data_ = bytes_.data();
}

PageBounds PageBoundsBuffer::of_set(std::size_t set) const {
  std::byte* low = data_ + 2 * static_cast<std::int64_t>(set) * pages_ * page_bytes_;
  return {low, low + pages_ * page_bytes_, page_tokens_,
          transposed_ ? static_cast<int>(pages_) : 0};
}

void PageIndex::build(const LayerView& view) {
  tokens_.end_prompt(view);
  own_ = {};
  const bool transposed = options_.by_dimension;
  const std::string key = fmt::format("page bounds {}, transposed {}", page_tokens_, transposed);
  prompt_ = view.memo->get<PageBoundsBuffer>(key, [&] {
    const std::int64_t pages = (longest_set(view.sets) + page_tokens_ - 1) / page_tokens_;
    auto out = std::make_shared<PageBoundsBuffer>(view, pages, page_tokens_, transposed);
    std::vector<PageBoundsJob> jobs;
    for (std::size_t s = 0; s < view.sets.size(); ++s)
      jobs.push_back({&view.sets[s], 0, out->of_set(s)});
    view.backend->update_page_bounds(jobs);
    return out;
  });
}

int PageIndex::tokens(const LayerView& view, std::size_t set) const {
  if (covers_pages()) return tokens_.prompt(set);
  return options_.prompt_only ? view.sets[set].lower_bound(view.prompt_tokens)
                              : view.sets[set].size();
}

void PageIndex::extend(const LayerView& view) {
  if (covers_pages()) return;
  const std::int64_t pages = tokens_.own_units(view);
  const bool grows = pages > own_.value.pages();
  if (grows) {
    own_.value =
        PageBoundsBuffer(view, 2 * pages + kMorePages, page_tokens_, options_.by_dimension);
  }
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

void PageIndex::set_queries(const LayerView& view, std::vector<PartialQuery> queries) {
  const std::int64_t heads = view.heads_per_set(), dim = view.shape.head_dim;
  step_.value.clear();
  std::vector<std::vector<float>> rows;
  std::vector<Copy> copies;
  for (PartialQuery& query : queries) {
    Step& step = step_.value.emplace_back();
    const MatrixView<const float> q(query.rows.data(), heads, dim);
    for (const int d : query.dims) {
      float sum = 0;
      for (std::int64_t h = 0; h < heads; ++h) sum += q(h, d);
      step.dims.push_back(sum > 0 ? static_cast<int>(dim) + d : d);
    }
    step.factors = std::move(query.factors);
    std::vector<float>& twice = rows.emplace_back();
    for (std::int64_t h = 0; h < heads; ++h) {
      for (int bound = 0; bound < 2; ++bound) twice.insert(twice.end(), q.row(h), q.row(h) + dim);
    }
    step.rows = view.scratch->matrix(heads, 2 * dim);
    copies.push_back(copy_of(twice.data(), step.rows.data, twice.size()));
  }
  view.backend->memory()->copy(copies);
}

void PageIndex::add_scores(const LayerView& view, std::size_t set, MatrixView<float> scores,
                           SelectionJobs& jobs) const {
  const std::int64_t of_prompt = covers_pages() ? pages(view, set) : tokens_.first_own(set),
                     prompt = std::min(of_prompt, scores.columns), own = scores.columns - prompt;
  add_scores(view, set, prompt_->of_set(set), scores.columns_at(0, prompt), jobs);
  if (own > 0) add_scores(view, set, own_.value.of_set(set), scores.columns_at(prompt, own), jobs);
}

void PageIndex::add_scores(const LayerView& view, std::size_t set, const PageBounds& bounds,
                           MatrixView<float> scores, SelectionJobs& jobs) const {
  const DType dtype = view.sets[set].layout().dtype;
  if (!options_.by_dimension) {
    jobs.pages.push_back({view.step_queries(set), bounds, dtype, scores});
  } else if (scores.columns > 0) {
    const Step& step = step_.value[set];  // the maxima are stored after the minima
    jobs.dimensions.push_back(
        {step.rows, step.dims, step.factors, bounds.low, bounds.column_stride, dtype, scores});
  }
}

std::size_t PageIndex::bytes(const PromptSize& size, int page_tokens) {
  const std::int64_t pages = (size.tokens + page_tokens - 1) / page_tokens + kMorePages;
  return 2 * size.key_elements(pages) * size_of(size.dtype);
}

}  // namespace turnbench
