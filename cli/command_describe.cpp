#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cli/catalog_json.h"
#include "cli/cli.h"
#include "cli/method_actions.h"
#include "cli/method_settings.h"
#include "common/text.h"

namespace turnbench {
namespace {

/// Prints a label and a text of several lines next to it.
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

/// keeps_answers: the budget limits tokens of prompts only.
void describe_parameters(const char* title, const std::vector<ParameterInfo>& parameters,
                         bool keeps_answers = false) {
  if (parameters.empty()) return;
  fmt::print("\n  {}\n", title);
  std::size_t name = 0, value = 0, unit = 0;
  const auto value_of = [](const ParameterInfo& p) {
    return p.fallback.empty() ? std::string_view("(required)") : p.fallback;
  };
  for (const ParameterInfo& p : parameters) {
    name = std::max(name, p.name.size());
    value = std::max(value, value_of(p).size());
    unit = std::max(unit, unit_or_values(p).size());
  }
  for (const ParameterInfo& p : parameters) {
    fmt::print("    {:<{}}  {:<{}}  {:<{}}  {}{}\n", p.name, name, value_of(p), value,
               unit_or_values(p), unit, p.description,
               p.only_with.empty() ? "" : fmt::format(" (with {} only)", p.only_with));
  }
  const bool has_budget =
      std::any_of(parameters.begin(), parameters.end(),
                  [](const ParameterInfo& p) { return p.kind == ParameterInfo::Kind::kBudget; });
  if (has_budget) {
    fmt::print(
        "    (whole numbers are tokens; with a decimal point, a slash or a % it is a share of the "
        "prompt: 0.2, 1/5, 20%.\n"
        "    1.0 is the number of prompt tokens. {})\n",
        keeps_answers
            ? "Tokens of the answer are kept in addition."
            : "Answer tokens count, and take the place of others, unless the budget above\n"
              "    excludes them.");
  }
}

constexpr const char* kParameters = "parameters: name, default, unit or choices";

void describe(const MethodInfo& m) {
  fmt::print("{}\n  {}\n\n", m.name, m.summary);
  print_paragraph("paper", m.paper);
  print_paragraph("budget", m.budget_unit);
  if (!m.deviations.empty()) print_paragraph("decided", m.deviations);
  const MethodSettings settings = settings_of(m);
  describe_parameters(kParameters, m.parameters, settings.evicts_at_prompt_ends);
  if (const auto compression = settings.compression(); !compression.empty())
    describe_parameters("when it evicts, as for other methods that evict", compression);
  if (settings.placement.empty()) {
    fmt::print("\n  placement: device only\n");
  } else {
    describe_parameters("placement, as for every method", settings.placement);
  }
  if (!m.actions.empty())
    fmt::print("\n  actions: turnbench method {} ACTION\n{}", m.name, actions_text(m));
}

void describe(const ProbeInfo& p) {
  fmt::print("{}\n  {}\n\n", p.name, p.summary);
  print_paragraph("paper", p.paper);
  print_paragraph("metric", p.metric);
  print_paragraph("sees", fmt::format("{}{}", name_of(p.input),
                                      p.compares_dialogues ? ", of all dialogues" : ""));
  if (!p.deviations.empty()) print_paragraph("decided", p.deviations);
  describe_parameters(kParameters, p.parameters);
}

}  // namespace

void add_describe_command(CLI::App& app, const CommonOptions& common) {
  struct Options {
    std::string what, name;
  };
  auto o = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand(
      "describe", "Describe a method or probe: parameters, defaults, units, paper, actions");
  command->footer("Example: turnbench describe method snapkv");
  command->add_option("what", o->what, "method or probe")
      ->required()
      ->check(one_of({"method", "probe"}));
  command->add_option("name", o->name, "its name; see list methods, list probes")->required();
  command->callback([o, &common] {
    const auto print = [&](const auto& info) {
      if (common.json) {
        fmt::print("{}\n", to_json(info).dump(1));
      } else {
        describe(info);
      }
    };
    // Settings after the name are those of a run and are ignored.
    const std::string name = o->name.substr(0, o->name.find_first_of(":@"));
    if (o->what == "probe") {
      print(find_probe(name, "describe"));
    } else {
      print(find_method(name, "describe"));
    }
  });
}

}  // namespace turnbench
