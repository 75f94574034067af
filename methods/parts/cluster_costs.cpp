#include "methods/parts/cluster_costs.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "common/file.h"
#include "common/json.h"

namespace turnbench {
namespace {

constexpr double kFewest = 3, kMost = 300;

}  // namespace

int ClusterCosts::iterations(std::int64_t tokens) const {
  const double s = static_cast<double>(tokens);
  const double prefill = prefill_base + prefill_token * s + prefill_pair * s * s;
  return static_cast<int>(
      std::clamp((prefill - cluster_base) / (cluster_token * s), kFewest, kMost));
}

ClusterCosts ClusterCosts::load(const std::filesystem::path& path) {
  const Json json = parse_json(read_file(path.string()), path.string());
  const JsonView view(json, path.string());
  if (!view.is_object()) view.fail("an object, as fit-costs writes it");
  view.require_known_keys(
      {"prefill_base", "prefill_token", "prefill_pair", "cluster_base", "cluster_token"});
  const auto number = [&](const char* key) { return view.at(key).as_number(); };
  const ClusterCosts out{number("prefill_base"), number("prefill_token"), number("prefill_pair"),
                         number("cluster_base"), number("cluster_token")};
  if (!(out.cluster_token > 0)) view.at("cluster_token").fail("a number above 0");
  return out;
}

std::string ClusterCosts::json() const {
  return OrderedJson{{"prefill_base", prefill_base},
                     {"prefill_token", prefill_token},
                     {"prefill_pair", prefill_pair},
                     {"cluster_base", cluster_base},
                     {"cluster_token", cluster_token}}
             .dump(2) +
         "\n";
}

}  // namespace turnbench
