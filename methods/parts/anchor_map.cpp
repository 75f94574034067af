#include "methods/parts/anchor_map.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <climits>
#include <cstdint>
#include <nlohmann/json.hpp>

#include "common/error.h"
#include "common/file.h"
#include "common/json.h"

namespace turnbench {

AnchorMap AnchorMap::load(const std::filesystem::path& path) {
  const Json json = parse_json(read_file(path), path.string());
  const JsonView file(json, path.string());
  file.require_known_keys({"anchors", "heads"});
  AnchorMap out{.anchors = {}, .heads = {}, .source = path.string()};
  const JsonView anchors = file.at("anchors"), heads = file.at("heads");
  if (!anchors.is_array() || anchors.size() == 0) anchors.fail("an array of layers");
  if (!heads.is_array()) heads.fail("an array with one array per layer");
  const auto layers = static_cast<std::int64_t>(heads.size());
  for (const JsonView& anchor : anchors.items()) {
    const auto layer = static_cast<int>(anchor.as_integer(0, INT_MAX));
    if (layer >= layers) anchor.fail(fmt::format("one of the {} layers of \"heads\"", layers));
    if (out.anchors.empty() && layer != 0) anchor.fail("0, the first layer");
    if (!out.anchors.empty() && layer <= out.anchors.back()) anchor.fail("layers that ascend");
    out.anchors.push_back(layer);
  }
  for (const JsonView& layer : heads.items()) {
    if (!layer.is_array() || layer.size() == 0) layer.fail("an array with one head per KV head");
    std::vector<int>& of_layer = out.heads.emplace_back();
    for (const JsonView& head : layer.items()) {
      const auto most = static_cast<std::int64_t>(layer.size()) - 1;
      of_layer.push_back(static_cast<int>(head.as_integer(0, most)));
    }
  }
  return out;
}

void AnchorMap::check_shape(int layers, int kv_heads) const {
  if (std::ssize(heads) != layers) {
    throw input_error("{}: /heads: found {} layers, expected the model's {}", source, heads.size(),
                      layers);
  }
  for (std::size_t l = 0; l < heads.size(); ++l) {
    if (std::ssize(heads[l]) == kv_heads) continue;
    throw input_error("{}: /heads/{}: found {} heads, expected the model's {} KV heads", source, l,
                      heads[l].size(), kv_heads);
  }
}

std::string AnchorMap::text() const {
  std::vector<std::string> rows;
  for (const std::vector<int>& layer : heads)
    rows.push_back(fmt::format("[{}]", fmt::join(layer, ", ")));
  return fmt::format("{{\"anchors\": [{}],\n \"heads\": [{}]}}\n", fmt::join(anchors, ", "),
                     fmt::join(rows, ",\n  "));
}

}  // namespace turnbench
