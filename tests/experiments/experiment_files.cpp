#include "tests/experiments/experiment_files.h"

#include <algorithm>
#include <initializer_list>
#include <set>

#include "datasets/catalog.h"

namespace turnbench::test {
namespace {

namespace fs = std::filesystem;

const fs::path kFolder = TURNBENCH_SOURCE_DIR "/experiments";

std::vector<std::string> manifests_in(std::initializer_list<const char*> folders) {
  std::vector<std::string> out;
  for (const char* folder : folders) {
    for (const auto& entry : fs::directory_iterator(kFolder / folder)) {
      if (entry.path().extension() == ".json")
        out.push_back(fs::relative(entry.path(), kFolder).string());
    }
  }
  std::sort(out.begin(), out.end());
  return out;
}

}  // namespace

std::vector<std::string> paper_manifests() {
  return manifests_in(
      {"loopserve", "pqcache", "published", "round-attention", "sablock", "specontext"});
}

std::vector<std::string> smollm2_manifests() {
  return manifests_in({"smollm2"});
}

Manifest load_experiment(const std::string& name) {
  return load_manifest(kFolder / name);
}

std::vector<PublishedNumber> published_of(const Manifest& manifest) {
  return parse_published(read_published(manifest), manifest.published);
}

std::vector<NamedCell> named_cells(const Manifest& manifest) {
  std::vector<NamedCell> out;
  for (const ModelEntry& model : manifest.models) {
    for (const DatasetEntry& entry : manifest.datasets) {
      const Dataset& dataset = find_dataset(entry.name, manifest.name);
      NamedCell cell = {{"model", model.name},
                        {"dataset", entry.label},
                        {"task", entry.task.empty() ? dataset.task : entry.task}};
      const auto add = [&](const std::string& label, std::string_view metric, History history) {
        cell["method"] = label;
        cell["metric"] = metric;
        cell["history"] = name_of(history);
        for (Position position : manifest.positions) {
          for (Answers answers : manifest.answers) {
            cell["position"] = name_of(position);
            cell["answers"] = name_of(answers);
            out.push_back(cell);
          }
        }
      };
      std::set<std::string> metrics = {entry.metric.empty() ? dataset.metric : entry.metric};
      for (const TableSpec& table : manifest.tables) {
        for (const std::string& value : table.values) {
          if (value != "score") metrics.insert(value);
        }
      }
      for (const Method& method : manifest.methods) {
        for (History history : manifest.histories) {
          for (const std::string& metric : metrics) add(method.label(), metric, history);
        }
      }
      for (const ProbeSpec& probe : manifest.probes)
        add(probe.label(), probe.info().metric, History::kReprefill);
    }
  }
  return out;
}

bool agrees(const PublishedNumber& row, const NamedCell& cell) {
  return row.matches([&](const std::string& dimension) { return cell.at(dimension); });
}

}  // namespace turnbench::test
