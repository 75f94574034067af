#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cli/catalog_json.h"
#include "cli/cli.h"
#include "common/file.h"
#include "common/json.h"
#include "datasets/catalog.h"
#include "harness/experiment/locations.h"
#include "harness/experiment/table_values.h"
#include "harness/run/fidelity.h"
#include "judges/rubric.h"
#include "metrics/metric.h"

namespace turnbench {
namespace {

namespace fs = std::filesystem;

/// Name, one-line description, and all fields as JSON.
struct Item {
  std::string name, description;
  OrderedJson json;
};

std::vector<Item> items_of(const std::string& what) {
  std::vector<Item> out;
  const auto add = [&](std::string name, std::string description) {
    OrderedJson json = {{"name", name}, {"description", description}};
    out.push_back({std::move(name), std::move(description), std::move(json)});
  };
  if (what == "methods") {
    for (const MethodInfo& m : all_methods())
      out.push_back({std::string(m.name), std::string(m.summary), to_json(m)});
  } else if (what == "probes") {
    for (const ProbeInfo& p : all_probes())
      out.push_back({std::string(p.name), std::string(p.summary), to_json(p)});
  } else if (what == "metrics") {
    for (const Metric& m : all_metrics()) add(std::string(m.name), std::string(m.description));
    for (std::string_view name : kFidelityMetrics) {
      const TableValue& value = *find_table_value(name);
      add(std::string(name),
          fmt::format("{} ({}; \"fidelity\" in a manifest)", value.meaning, value.unit));
    }
  } else if (what == "datasets") {
    for (const Dataset& d : all_datasets()) {
      out.push_back({d.name,
                     d.description + "; metric: " + (d.metric.empty() ? "none" : d.metric),
                     {{"name", d.name},
                      {"description", d.description},
                      {"task", d.task},
                      {"metric", d.metric},
                      {"postprocess", d.postprocess},
                      {"turns", d.turns},
                      {"needs_source", d.needs_source},
                      {"takes_source", d.takes_source},
                      {"collection", d.collection},
                      {"has_length", d.has_length},
                      {"has_depth", d.has_depth}}});
    }
  } else if (what == "rubrics") {
    for (const std::string& name : rubric_names())
      add(name, (rubrics_directory() / (name + ".txt")).string());
  } else if (what == "models") {
    add("tiny", "the embedded model, trained for this program on generated facts");
    for (const std::string& path : list_models()) {
      const std::string name = fs::path(path).filename().string();
      if (path_exists(fs::path(path) / "config.json")) add(name, path);
    }
  } else {
    const fs::path directory = project_directory("experiments");
    if (directory.empty()) return out;
    std::vector<fs::path> files;
    for (const auto& entry : fs::recursive_directory_iterator(directory)) {
      if (entry.path().extension() == ".json") files.push_back(entry.path());
    }
    std::sort(files.begin(), files.end());
    for (const fs::path& file : files) {  // the files that a manifest names need not exist
      const Json json = parse_json(read_file(file), file.string());
      const JsonView manifest(json, file.string());
      std::string name = manifest.at("name").as_string();
      std::string title = manifest.get("title", name);
      add(std::move(name), title + " (" + file.string() + ")");
    }
  }
  return out;
}

}  // namespace

void add_list_command(CLI::App& app, const CommonOptions& common) {
  auto what = std::make_shared<std::string>();
  CLI::App* command = app.add_subcommand(
      "list", "List models, methods, probes, datasets, metrics, rubrics or experiments");
  command->footer("Example: turnbench list methods --json");
  command
      ->add_option("what", *what,
                   "models, methods, probes, datasets, metrics, rubrics or experiments")
      ->required()
      ->check(
          one_of({"models", "methods", "probes", "datasets", "metrics", "rubrics", "experiments"}));
  command->callback([what, &common] {
    const std::vector<Item> items = items_of(*what);
    if (common.json) {
      OrderedJson out = OrderedJson::array();
      for (const Item& i : items) out.push_back(i.json);
      fmt::print("{}\n", out.dump(1));
      return;
    }
    for (const Item& i : items) fmt::print("{:<26} {}\n", i.name, i.description);
  });
}

}  // namespace turnbench
