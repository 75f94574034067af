// What there is: list, describe, doctor.

#include <fmt/format.h>
#include <sqlite3.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "common/error.h"
#include "common/file.h"
#include "common/text.h"
#include "common/thread_pool.h"
#include "datasets/catalog.h"
#include "harness/build.h"
#include "harness/cli.h"
#include "inference/tokenizer/chat_template.h"
#include "judges/rubric.h"
#include "metrics/metric.h"
#include "metrics/postprocess.h"

namespace turnbench {
namespace {

namespace fs = std::filesystem;

std::string_view kind_name(ParameterInfo::Kind kind) {
  switch (kind) {
    case ParameterInfo::Kind::kBudget:
      return "budget";
    case ParameterInfo::Kind::kInteger:
      return "integer";
    case ParameterInfo::Kind::kNumber:
      return "number";
    case ParameterInfo::Kind::kFlag:
      return "flag";
    case ParameterInfo::Kind::kChoice:
      return "choice";
    case ParameterInfo::Kind::kFile:
      return "file";
    case ParameterInfo::Kind::kLayers:
      return "layers";
  }
  return "";
}

OrderedJson to_json(const ParameterInfo& p) {
  return {{"name", p.name},
          {"kind", kind_name(p.kind)},
          {"default", p.fallback},
          {"unit", p.unit},
          {"description", p.description}};
}

OrderedJson to_json(const MethodInfo& m) {
  OrderedJson out = {{"name", m.name},         {"summary", m.summary},
                     {"paper", m.paper},       {"budget", m.counts},
                     {"deviates", m.deviates}, {"parameters", OrderedJson::array()}};
  for (const ParameterInfo& p : m.parameters) out["parameters"].push_back(to_json(p));
  return out;
}

std::string_view name_of(ProbeInfo::Sees sees) {
  switch (sees) {
    case ProbeInfo::Sees::kText:
      return "the prompt's text";
    case ProbeInfo::Sees::kPrompt:
      return "attention over the prompt";
    case ProbeInfo::Sees::kAnswer:
      return "attention over the prompt and of the answer";
  }
  return "";
}

OrderedJson to_json(const ProbeInfo& p) {
  OrderedJson out = {{"name", p.name},          {"summary", p.summary},
                     {"paper", p.paper},        {"metric", p.metric},
                     {"sees", name_of(p.sees)}, {"compares_dialogues", p.compares},
                     {"deviates", p.deviates},  {"parameters", OrderedJson::array()}};
  for (const ParameterInfo& parameter : p.parameters)
    out["parameters"].push_back(to_json(parameter));
  return out;
}

std::vector<std::string> below(const char* variable) {
  std::vector<std::string> out;
  const char* root = std::getenv(variable);
  if (root == nullptr || *root == '\0') return out;
  if (!is_folder(root))
    throw input_error("${}: found \"{}\", expected a directory", variable, printable(root));
  for (const fs::path& entry : entries_of(root)) out.push_back(entry.string());
  return out;
}

/// name, one-line description, and the whole thing as JSON.
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
  } else if (what == "datasets") {
    for (const Dataset& d : all_datasets()) {
      out.push_back({d.name,
                     d.description,
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
    add("tiny", "the embedded model: made-up facts, trained for this program");
    for (const std::string& path : below("TURNBENCH_MODELS")) {
      if (is_there(fs::path(path) / "config.json")) add(fs::path(path).filename().string(), path);
    }
  } else {
    const fs::path directory = project_directory("experiments");
    if (directory.empty()) return out;
    std::vector<fs::path> files;
    for (const auto& entry : fs::recursive_directory_iterator(directory)) {
      if (entry.path().extension() == ".json") files.push_back(entry.path());
    }
    std::sort(files.begin(), files.end());
    for (const fs::path& file : files) {
      const Manifest m = load_manifest(file);
      add(m.name, m.title + " (" + file.string() + ")");
    }
  }
  return out;
}

std::string gibibytes(double bytes) {
  return fmt::format("{:.1f} GiB", bytes / (1 << 30));
}

/// What a model's directory lacks to be run.
std::vector<std::string> missing_in_model(const fs::path& directory) {
  const auto has = [&](const char* file) { return is_there(directory / file); };
  std::vector<std::string> out;
  if (!is_folder(directory)) return {"the directory"};
  if (!has("config.json")) out.push_back("config.json");
  const std::vector<fs::path> files = entries_of(directory);
  const bool weights = std::any_of(files.begin(), files.end(), [](const fs::path& file) {
    return file.extension() == ".safetensors";
  });
  if (!weights) out.push_back("weights (*.safetensors)");
  const bool tokenizer =
      has("tokenizer.json") || has("tokenizer.model") || (has("vocab.json") && has("merges.txt"));
  if (!tokenizer) out.push_back("tokenizer");
  return out;
}

/// A directory of records: how many of its collection's datasets are there, and which are not.
std::string describe_collection(const std::string& name, const fs::path& directory) {
  std::size_t known = 0;
  std::vector<std::string> missing;
  for (const Dataset& dataset : all_datasets()) {
    // Multi-turn variants are made of the same files.
    if (dataset.collection != name || !dataset.needs_source || dataset.name.starts_with("mt-")) {
      continue;
    }
    ++known;
    if (!has_file(dataset, directory)) missing.push_back(dataset.name);
  }
  if (known == 0) return directory.string();
  std::string out =
      fmt::format("{}: {} of {} datasets", directory.string(), known - missing.size(), known);
  if (!missing.empty()) out += ", missing " + join(missing, ", ");
  return out;
}

void print_doctor(bool json) {
  std::vector<std::pair<std::string, std::string>> facts;
  facts.emplace_back("program", build_description());
  facts.emplace_back("backend", make_backend({}, 0)->description());
  facts.emplace_back("processors", std::to_string(available_processors()));
  facts.emplace_back("memory", gibibytes(static_cast<double>(sysconf(_SC_PHYS_PAGES)) *
                                         static_cast<double>(sysconf(_SC_PAGESIZE))));
  facts.emplace_back("gpu", cuda_description());
  facts.emplace_back("sqlite", sqlite3_libversion());
  struct statvfs disk {};
  if (statvfs(".", &disk) == 0) {
    facts.emplace_back(
        "disk", gibibytes(static_cast<double>(disk.f_bavail) * static_cast<double>(disk.f_frsize)) +
                    " free here");
  }
  facts.emplace_back("model tiny", "embedded");
  for (const std::string& path : below("TURNBENCH_MODELS")) {
    const std::string missing = join(missing_in_model(path), ", ");
    facts.emplace_back("model " + fs::path(path).filename().string(),
                       missing.empty() ? path : path + ": missing " + missing);
  }
  if (std::getenv("TURNBENCH_MODELS") == nullptr)
    facts.emplace_back("models",
                       "$TURNBENCH_MODELS is not set: only tiny, or a directory given by --model");
  for (const std::string& path : below("TURNBENCH_DATA")) {
    const std::string name = fs::path(path).filename().string();
    facts.emplace_back("data " + name, describe_collection(name, path));
  }
  if (std::getenv("TURNBENCH_DATA") == nullptr)
    facts.emplace_back(
        "data",
        "$TURNBENCH_DATA is not set: only generated dialogues, or a directory given by --data");
  if (json) {
    OrderedJson out;
    for (const auto& [name, value] : facts) out[name] = value;
    fmt::print("{}\n", out.dump());
    return;
  }
  for (const auto& [name, value] : facts) fmt::print("{:<14} {}\n", name, value);
}

/// A label and a text of several lines beside it.
void print_paragraph(std::string_view label, std::string_view text) {
  constexpr std::size_t kWidth = 86;
  std::string line;
  for (const std::string& word : split(text, " ")) {
    if (!line.empty() && line.size() + 1 + word.size() > kWidth) {
      fmt::print("  {:<9} {}\n", label, line);
      label = "";
      line.clear();
    }
    line += (line.empty() ? "" : " ") + word;
  }
  fmt::print("  {:<9} {}\n", label, line);
}

void describe_parameters(const char* title, const std::vector<ParameterInfo>& parameters) {
  if (parameters.empty()) return;
  fmt::print("\n  {}\n", title);
  std::size_t name = 0, value = 0, unit = 0;
  const auto value_of = [](const ParameterInfo& p) {
    return p.fallback.empty() ? std::string_view("(required)") : p.fallback;
  };
  for (const ParameterInfo& p : parameters) {
    name = std::max(name, p.name.size());
    value = std::max(value, value_of(p).size());
    unit = std::max(unit, p.unit.size());
  }
  for (const ParameterInfo& p : parameters) {
    fmt::print("    {:<{}}  {:<{}}  {:<{}}  {}\n", p.name, name, value_of(p), value, p.unit, unit,
               p.description);
  }
  const bool has_budget =
      std::any_of(parameters.begin(), parameters.end(),
                  [](const ParameterInfo& p) { return p.kind == ParameterInfo::Kind::kBudget; });
  if (has_budget) {
    fmt::print(
        "    (whole numbers are tokens; with a decimal point, a slash or a % it is a share: 0.2, "
        "1/5, "
        "20%, and 1.0 is all)\n");
  }
}

constexpr const char* kParameters = "parameters: name, default, unit or choices";

void describe(const MethodInfo& m) {
  fmt::print("{}\n  {}\n\n", m.name, m.summary);
  print_paragraph("paper", m.paper);
  print_paragraph("budget", m.counts);
  if (!m.deviates.empty()) print_paragraph("decided", m.deviates);
  describe_parameters(kParameters, m.parameters);
  describe_parameters("placement, as for every method", placement_parameters());
}

void describe(const ProbeInfo& p) {
  fmt::print("{}\n  {}\n\n", p.name, p.summary);
  print_paragraph("paper", p.paper);
  print_paragraph("metric", p.metric);
  print_paragraph("sees",
                  fmt::format("{}{}", name_of(p.sees), p.compares ? ", of all dialogues" : ""));
  if (!p.deviates.empty()) print_paragraph("decided", p.deviates);
  describe_parameters(kParameters, p.parameters);
}

}  // namespace

void add_list_command(CLI::App& app, const CommonOptions& common) {
  auto what = std::make_shared<std::string>();
  CLI::App* command = app.add_subcommand(
      "list", "What there is: models, methods, probes, datasets, metrics, rubrics, experiments");
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

void add_describe_command(CLI::App& app, const CommonOptions& common) {
  struct Options {
    std::string what, name;
  };
  auto o = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand(
      "describe", "A method or probe in full: parameters, defaults, units, paper");
  command->footer("Example: turnbench describe method snapkv");
  command->add_option("what", o->what, "method or probe")
      ->required()
      ->check(one_of({"method", "probe"}));
  command->add_option("name", o->name, "which; see list methods")->required();
  command->callback([o, &common] {
    const auto print = [&](const auto& info) {
      if (common.json) {
        fmt::print("{}\n", to_json(info).dump(1));
      } else {
        describe(info);
      }
    };
    if (o->what == "probe") {
      print(find_probe(o->name, "describe"));
    } else {
      print(find_method(o->name, "describe"));
    }
  });
}

void add_doctor_command(CLI::App& app, const CommonOptions& common) {
  CLI::App* command =
      app.add_subcommand("doctor", "What this machine offers, and which models and data are found");
  command->footer("Example: turnbench doctor");
  command->callback([&common] { print_doctor(common.json); });
}

}  // namespace turnbench
