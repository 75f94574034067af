#include "reports/position_chart.h"

#include <algorithm>

namespace turnbench {

DotChart position_chart(const Results& results, const std::string& dataset) {
  DotChart out;
  out.title = dataset.empty() ? "all datasets" : dataset;
  if (!results.manifest().smoke.empty()) out.title = results.manifest().smoke + " - " + out.title;
  std::vector<std::string> methods;
  const auto add = [](std::vector<std::string>& list, const std::string& value) {
    if (std::find(list.begin(), list.end(), value) == list.end()) list.push_back(value);
  };
  for (const Cell& c : results.cells()) {
    add(methods, c.method);
    add(out.series, c.position);
  }
  for (const std::string& method : methods) {
    DotChart::Row row{method, std::vector<DotChart::Dot>(out.series.size())};
    for (std::size_t s = 0; s < out.series.size(); ++s) {
      std::vector<const Stratum*> strata;
      for (const Cell& c : results.cells()) {
        const bool wanted = c.method == method && c.position == out.series[s] &&
                            (dataset.empty() || c.dataset == dataset);
        if (wanted && !results.stratum(c.key, -1).dialogues.empty())
          strata.push_back(&results.stratum(c.key, -1));
      }
      if (strata.empty()) continue;
      const Estimate e = estimate(strata);
      row.dots[s] = {e.mean, e.low, e.high, true};
    }
    out.rows.push_back(std::move(row));
  }
  return out;
}

}  // namespace turnbench
