#include "reports/live_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "common/error.h"
#include "common/json.h"
#include "reports/html/page.h"
#include "reports/render.h"
#include "reports/store_status.h"

namespace turnbench {

LiveReport::LiveReport(const std::string& path) : path_(path), version_(path) {}

std::string LiveReport::version() {
  const std::lock_guard lock(mutex_);
  return version_.now();
}

std::string LiveReport::made(
    const std::string& name,
    const std::function<std::string(const Store&, const std::string&)>& make) {
  const std::lock_guard lock(mutex_);
  std::string version = version_.now();
  const auto start = std::chrono::steady_clock::now();
  const auto known = made_.find(name);
  if (known != made_.end() && (known->second.version == version || start < known->second.next))
    return known->second.text;
  std::string text = make(Store::open_snapshot(path_), version);
  const auto end = std::chrono::steady_clock::now();
  const auto wait = std::max<std::chrono::steady_clock::duration>(kLeastInterval,
                                                                  kIntervalPerTime * (end - start));
  made_[name] = {text, std::move(version), end + wait};
  return text;
}

std::string LiveReport::page() {
  return made("page", [](const Store& store, const std::string& version) {
    return render_html(store, {.experiments = store.experiments(), .version = version});
  });
}

std::string LiveReport::status() {
  const std::string experiments = made("status", [](const Store& store, const std::string&) {
    OrderedJson out = OrderedJson::array();
    for (const std::string& name : store.experiments())
      out.push_back(experiment_status(store, name));
    return out.dump(-1, ' ', false, OrderedJson::error_handler_t::replace);
  });
  return fmt::format("{{\"version\":\"{}\",\"experiments\":{}}}\n", version(), experiments);
}

std::string LiveReport::report(const std::string& experiment) {
  return made("report " + experiment, [&](const Store& store, const std::string&) {
    const std::vector<std::string> all = store.experiments();
    if (all.empty()) throw input_error("{}: found no experiment, expected at least one", path_);
    return render_json(Results(store, experiment.empty() ? all.back() : experiment));
  });
}

}  // namespace turnbench
