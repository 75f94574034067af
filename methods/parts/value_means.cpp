#include "methods/parts/value_means.h"

#include <array>
#include <vector>

#include "inference/backend/backend.h"
#include "inference/policy/rows_on_device.h"

namespace turnbench {
namespace {

/// Elements of the sums: [sets, head_dim].
std::size_t elements(const LayerView& view) {
  return view.sets.size() * static_cast<std::size_t>(view.shape.head_dim);
}

void copy_sums(const LayerView& view, const std::byte* from, Buffer& to) {
  view.backend->memory()->copy(std::array{Copy{to.data(), from, to.size()}});
}

void set_to_zero(const LayerView& view, Buffer& sums) {
  const std::vector<double> zeros(elements(view));
  copy_sums(view, reinterpret_cast<const std::byte*>(zeros.data()), sums);
}

}  // namespace

void ValueMeans::build(const LayerView& view) {
  own_ = {};
  prompt_ = view.memo->get<Buffer>("sums of values", [&] {
    auto sums = std::make_shared<Buffer>(elements(view) * sizeof(double), view.backend->memory());
    set_to_zero(view, *sums);
    std::vector<AddValuesJob> jobs;
    for (std::size_t s = 0; s < view.sets.size(); ++s) {
      jobs.push_back({&view.sets[s], 0,
                      sums->as<double>() + static_cast<std::int64_t>(s) * view.shape.head_dim,
                      view.sets[s].size()});
    }
    view.backend->add_values(jobs);
    return sums;
  });
}

void ValueMeans::extend(const LayerView& view, const IndexedTokens& tokens,
                        std::span<const int> first) {
  const std::shared_ptr<Memory>& memory = view.backend->memory();
  Own& own = own_.value;
  if (first[0] == tokens.first_own(0)) {  // the sums are those at the end of the prompt
    if (own.sums.size() == 0) {
      own.sums = Buffer(elements(view) * sizeof(double), memory);
      own.means = Buffer(elements(view) * sizeof(float), memory);
    }
    if (tokens.is_stale()) {
      set_to_zero(view, own.sums);
    } else {
      copy_sums(view, prompt_->data(), own.sums);
    }
  }
  std::vector<RowsOnDevice> rows;
  rows.reserve(view.sets.size());  // jobs refer to its elements
  std::vector<AddValuesJob> jobs;
  for (std::size_t s = 0; s < view.sets.size(); ++s) {
    rows.emplace_back(view, view.sets[s], first[s], copies_);
    const std::int64_t at = static_cast<std::int64_t>(s) * view.shape.head_dim;
    jobs.push_back({&rows[s].set(), first[s] - rows[s].origin(), own.sums.as<double>() + at,
                    view.sets[s].size(), own.means.as<float>() + at});
  }
  view.backend->add_values(jobs);
}

MatrixView<const float> ValueMeans::means(const LayerView& view) const {
  return {own_.value.means.as<float>(), std::ssize(view.sets), view.shape.head_dim};
}

}  // namespace turnbench
