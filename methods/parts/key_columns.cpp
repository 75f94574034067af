#include "methods/parts/key_columns.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include "inference/backend/backend.h"

namespace turnbench {
namespace {

constexpr std::int64_t kMoreColumns = 256;  // columns of an answer before the buffer grows

/// The smallest number of elements, at least `tokens`, whose bytes are an odd number of cache
/// lines: rows at a power-of-two distance would use only a small part of a CPU cache.
constexpr std::int64_t row_elements(std::int64_t tokens, std::int64_t element) {
  constexpr std::int64_t kLine = 64;
  const std::int64_t lines = (tokens * element + kLine - 1) / kLine;
  return (lines | 1) * kLine / element;
}

/// The transposed keys of a prompt.
std::shared_ptr<const ColumnBuffer> transposed(const LayerView& view, bool on_host) {
  const std::shared_ptr<Memory>& memory = view.backend->memory();
  const bool moves = on_host && !memory->is_host();
  auto out = std::make_shared<ColumnBuffer>(view, longest_set(view.sets),
                                            on_host ? host_memory() : memory);
  const auto set_bytes = static_cast<std::size_t>(out->set_bytes());
  float* scratch = moves ? view.scratch->floats(set_bytes / sizeof(float) + 1) : nullptr;
  for (std::size_t s = 0; s < view.sets.size(); ++s) {
    std::byte* to = moves ? reinterpret_cast<std::byte*>(scratch) : out->row(s, 0);
    const TransposeKeysJob job{&view.sets[s], 0, to, out->tokens()};
    view.backend->transpose_keys({&job, 1});
    if (moves) memory->copy(std::array{Copy{out->row(s, 0), to, set_bytes}});
  }
  if (moves) memory->synchronize();
  return out;
}

}  // namespace

ColumnBuffer::ColumnBuffer(const LayerView& view, std::int64_t tokens,
                           std::shared_ptr<Memory> memory)
    : sets_(std::ssize(view.sets)),
      dims_(view.shape.head_dim),
      element_(static_cast<std::int64_t>(size_of(view.sets.front().layout().dtype))),
      tokens_(row_elements(tokens, element_)),
      bytes_(static_cast<std::size_t>(sets_ * dims_ * tokens_ * element_), std::move(memory)),
      data_(bytes_.data()) {}

void ColumnBuffer::write_from_host(std::size_t s, const KvHeadCache& set, int first,
                                   int first_column) {
  const auto element = static_cast<std::size_t>(element_);
  for (int slot = first; slot < set.size(); ++slot) {
    const std::byte* key =
        set.page_data()[slot / kPageTokens] +
        static_cast<std::size_t>(slot % kPageTokens) * set.layout().row_bytes(KvRow::kKey);
    std::byte* to = row(s, 0) + (slot - first_column) * element_;
    for (std::int64_t d = 0; d < dims_; ++d, key += element, to += tokens_ * element_)
      std::memcpy(to, key, element);
  }
}

void KeyColumns::build(const LayerView& view, bool on_host) {
  on_host_ = on_host;
  tokens_.end_prompt(view);
  own_ = {};
  prompt_ = view.memo->get<ColumnBuffer>(fmt::format("key columns, host {}", on_host),
                                         [&] { return transposed(view, on_host); });
}

std::vector<int> KeyColumns::extend(const LayerView& view) {
  const std::int64_t columns = tokens_.own_units(view);
  const bool grows = columns > own_.value.tokens();
  if (grows) {
    own_.value = ColumnBuffer(view, 2 * columns + kMoreColumns,
                              on_host_ ? host_memory() : view.backend->memory());
  }
  std::vector<int> first = tokens_.extend(view, grows);
  std::vector<TransposeKeysJob> jobs;
  for (std::size_t s = 0; s < view.sets.size(); ++s) {
    const KvHeadCache& set = view.sets[s];
    if (on_host_) {
      own_.value.write_from_host(s, set, first[s], tokens_.first_own(s));
    } else {
      jobs.push_back(
          {&set, first[s], own_.value.row(s, 0), own_.value.tokens(), tokens_.first_own(s)});
    }
  }
  if (!jobs.empty()) view.backend->transpose_keys(jobs);
  return first;
}

void KeyColumns::set_queries(const LayerView& view, std::vector<PartialQuery> queries) {
  const auto dim = static_cast<std::size_t>(view.shape.head_dim);
  step_.value.clear();
  std::vector<Copy> copies;
  for (PartialQuery& query : queries) {
    Step& step = step_.value.emplace_back(Step{.query = std::move(query)});
    step.in_columns = step.query.dims;
    std::vector<float>& rows = step.query.rows;
    const std::size_t heads = rows.size() / dim;
    if (on_host_) {  // the device receives the dimensions that are read only
      const std::vector<float> all = std::exchange(rows, {});
      for (std::size_t h = 0; h < heads; ++h) {
        for (const int d : step.query.dims)
          rows.push_back(all[h * dim + static_cast<std::size_t>(d)]);
      }
      std::iota(step.in_columns.begin(), step.in_columns.end(), 0);
    }
    step.rows = view.scratch->matrix(static_cast<std::int64_t>(heads),
                                     static_cast<std::int64_t>(rows.size() / heads));
    copies.push_back(copy_of(rows.data(), step.rows.data, rows.size()));
  }
  view.backend->memory()->copy(copies);
  if (on_host_) transfer_columns(view);
}

/// Waits for the transfer: the dimensions are known only with the queries.
void KeyColumns::transfer_columns(const LayerView& view) {
  std::vector<Copy> copies;
  std::int64_t bytes = 0;
  for (std::size_t s = 0; s < view.sets.size(); ++s) {
    Step& step = step_.value[s];
    const std::int64_t prompt = tokens_.first_own(s), own = view.sets[s].size() - prompt;
    const std::size_t of_set = step.query.dims.size() *
                               static_cast<std::size_t>(view.sets[s].size()) *
                               static_cast<std::size_t>(prompt_->element_bytes());
    std::byte* to = reinterpret_cast<std::byte*>(view.scratch->floats(of_set / sizeof(float) + 1));
    step.columns = to;
    for (const int d : step.query.dims) {
      for (const auto& [columns, count] :
           {std::pair(prompt_.get(), prompt),
            std::pair(static_cast<const ColumnBuffer*>(&own_.value), own)}) {
        const std::int64_t part = count * columns->element_bytes();
        if (part == 0) continue;
        copies.push_back({to, columns->row(s, d), static_cast<std::size_t>(part)});
        to += part;
        bytes += part;
      }
    }
  }
  view.index_path.link->wait(view.index_path.submit(copies, 8 * bytes));
}

void KeyColumns::add_scores(const LayerView& view, std::size_t set, MatrixView<float> scores,
                            SelectionJobs& jobs) const {
  const Step& step = step_.value[set];
  const PartialQuery& query = step.query;
  const DType dtype = view.sets[set].layout().dtype;
  const std::int64_t n = scores.columns, prompt = tokens_.first_own(set);
  if (on_host_) {
    jobs.dimensions.push_back(
        {step.rows, step.in_columns, query.factors, step.columns, n, dtype, scores});
    return;
  }
  const auto add = [&](const ColumnBuffer& columns, std::int64_t first, std::int64_t count) {
    if (count == 0) return;
    jobs.dimensions.push_back({step.rows, step.in_columns, query.factors, columns.row(set, 0),
                               columns.tokens(), dtype, scores.columns_at(first, count)});
  };
  add(*prompt_, 0, prompt);
  add(own_.value, prompt, n - prompt);
}

}  // namespace turnbench
