#include "probes/heads.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "common/error.h"

namespace turnbench {

void HeadSelection::for_each(const LayerView& view,
                             const std::function<void(std::size_t)>& task) const {
  const auto check = [&](const char* what, int value, int count) {
    if (value >= count)
      throw input_error("{}: {}: found {}, expected at most {}", probe, what, value, count - 1);
  };
  check("layer", layer, view.shape.layers);
  check("head", head, view.shape.heads);
  if (layer >= 0 && layer != view.layer) return;
  const int begin = head >= 0 ? head : 0, end = head >= 0 ? head + 1 : view.shape.heads;
  for (int h = begin; h < end; ++h) task(static_cast<std::size_t>(h));
}

ProbeResult HeadSelection::reduce(std::vector<double> values, const std::string& why) const {
  if (values.empty()) return {0, why};
  const auto count = static_cast<double>(values.size());
  if (aggregate == "mean") return {std::accumulate(values.begin(), values.end(), 0.0) / count, ""};
  std::sort(values.begin(), values.end());
  const double place = std::stod(aggregate.substr(1)) / 100 * (count - 1);
  return {values[static_cast<std::size_t>(std::ceil(place - 0.5))], ""};
}

std::vector<ParameterInfo> line_parameters() {
  return and_also({{"eta", ParameterInfo::Kind::kNumber, "0.1", "share",
                    "number of lines that are selected, as a share of all 2n", 0, 1}},
                  head_parameters());
}

std::vector<ParameterInfo> head_parameters() {
  using Kind = ParameterInfo::Kind;
  return {{"layer", Kind::kInteger, "-1", "layer", "this layer only; -1: all", -1},
          {"head", Kind::kInteger, "-1", "query head",
           "this query head of each layer only; -1: all", -1},
          {"over", Kind::kChoice, "mean", "mean|p0|p10|p25|p50|p75|p90|p100",
           "mean or percentile over the heads: of the values nearest to it, the lower one"}};
}

HeadSelection parse_head_selection(std::string_view probe, const Parameters& p) {
  return {probe, p.integer("layer"), p.integer("head"), p.choice("over")};
}

int line_count(double eta, std::size_t lines) {
  return static_cast<int>(std::floor(eta * static_cast<double>(lines) + 1e-9));
}

}  // namespace turnbench
