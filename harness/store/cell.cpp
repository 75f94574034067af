#include "harness/store/cell.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "common/file.h"
#include "common/json.h"
#include "harness/store/method_settings.h"

namespace turnbench {

bool is_probe(const Cell& cell) {
  return cell.method_canonical.starts_with(kProbePrefix);
}

bool is_imported(const Cell& cell) {
  return cell.method_canonical.starts_with(kImportedPrefix);
}

std::optional<std::string> setting_of(const Cell& cell, std::string_view name) {
  const std::string_view canonical = cell.method_canonical;
  if (is_imported(cell)) return std::nullopt;
  if (!is_probe(cell)) {
    const bool has_default =
        name == compress_parameter().name || name == compress_block_parameter().name;
    return has_default ? MethodSettings::parse(canonical).value(std::string(name))
                       : setting_in(canonical, name);
  }
  const std::string_view probe = canonical.substr(kProbePrefix.size());
  return setting_in(probe.substr(0, probe.find(' ')), name);
}

std::string variant_of(const Cell& cell) {
  std::string out = cell.method;
  constexpr std::string_view kBudget = "budget=";
  for (std::size_t at = out.find(kBudget); at != std::string::npos; at = out.find(kBudget, at)) {
    if (at == 0 ||
        (out[at - 1] != ':' && out[at - 1] != ',')) {  // the name is the end of a longer word
      at += kBudget.size();
      continue;
    }
    const std::size_t end = std::min(out.find_first_of(",+", at), out.size());
    if (end < out.size() && out[end] == ',') {
      out.erase(at, end + 1 - at);
    } else {
      out.erase(at - 1, end - (at - 1));
    }
  }
  return out;
}

std::string cell_key(const Cell& cell) {
  return hash_text(
      Json::array({cell.model_hash, cell.dataset_hash, cell.position, cell.method_canonical,
                   cell.history, cell.answers, cell.metric, cell.postprocess, cell.protocol})
          .dump());
}

}  // namespace turnbench
