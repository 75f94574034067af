// method: actions that belong to one method, such as a calibration.

#include <fmt/format.h>

#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/catalog_json.h"
#include "cli/cli.h"
#include "cli/input_output.h"
#include "cli/method_actions.h"
#include "cli/shared_options.h"
#include "common/error.h"
#include "common/file.h"
#include "common/text.h"
#include "datasets/catalog.h"
#include "harness/experiment/experiment.h"
#include "harness/experiment/published.h"
#include "harness/run/prompt.h"
#include "inference/engine/checkpoint_tokenizer.h"

namespace turnbench {
namespace {

/// The options of one action, and what it reads by them.
class ActionCall : public ActionContext {
 public:
  void add_options(CLI::App& command, const MethodAction& action);
  ActionResult run(const MethodAction& action);

  const std::string& option(std::string_view name) const override {
    if (name == "model") return model_.model;
    if (name == "dataset") return dataset_.name;
    const auto found = values_.find(name);
    if (found == values_.end()) throw std::logic_error("undeclared option " + std::string(name));
    return found->second;
  }
  std::vector<int> numbers(std::string_view name, int min) const override {
    return number_list(option(name), option_text(name).c_str(), min);
  }
  std::string read_text(const std::string& file) const override { return read_utf8_input(file); }
  std::optional<PublishedValue> published(const std::string& file,
                                          const std::string& model) const override;
  Engine& engine() override { return *loaded().engine; }
  const Checkpoint& checkpoint() override { return loaded().checkpoint; }
  void for_each_dialogue(const std::function<void(const TokenizedDialogue&)>& visit) override;

 private:
  void add_option(CLI::App& command, const ActionOption& option);
  void add_dataset_options(CLI::App& command);
  const LoadedModel& loaded() {
    if (!loaded_) loaded_ = load_model(model_);
    return *loaded_;
  }

  ModelOptions model_;
  std::map<std::string, std::string, std::less<>> values_;
  ConversationOptions conversation_;
  DatasetEntry dataset_;
  std::vector<std::string> data_;
  std::optional<LoadedModel> loaded_;
};

void ActionCall::add_options(CLI::App& command, const MethodAction& action) {
  model_.add_to(command);
  if (action.reads_dialogues) add_dataset_options(command);
  for (const ActionOption& option : action.options) add_option(command, option);
}

void ActionCall::add_option(CLI::App& command, const ActionOption& option) {
  using Kind = ActionOption::Kind;
  std::string& value = values_[std::string(option.name)];
  value = option.fallback;
  std::string names = option_text(option.name);
  if (option.letter != 0) names = fmt::format("-{},{}", option.letter, names);
  const std::string description(option.description);
  if (option.kind == Kind::kFlag) {
    command.add_flag_callback(
        names, [&value] { value = "true"; }, description);
    return;
  }
  CLI::Option* added = command.add_option(names, value, description);
  added->required(option.required);
  if (!value.empty()) added->capture_default_str();
  if (option.kind == Kind::kInteger) added->transform(whole_number(option.min, option.max));
  if (option.kind == Kind::kChoice) added->check(one_of(split(option.choices, "|")));
}

void ActionCall::add_dataset_options(CLI::App& command) {
  command.add_option("--dataset", dataset_.name, "see list datasets")->required();
  command.add_option("--data", data_, "NAME=DIR: where the dataset or its collection lies")
      ->allow_extra_args(false);
  command.add_option("--turns", dataset_.turns, "of generated dialogues; 0: the set's own")
      ->transform(whole_number(0, 100));
  command
      .add_option("--length", dataset_.length,
                  "of generated dialogues, in words and symbols; 0: the generator's own")
      ->transform(whole_number(0, 10'000'000));
  command.add_option("--seed", dataset_.seed, "of generated dialogues")
      ->transform(whole_number(0, INT64_MAX));
  command.add_option("--limit", dataset_.limit, "number of dialogues; 0: the dataset's own")
      ->transform(whole_number(0, 1'000'000'000));
  conversation_.add_template_to(command);
  conversation_.add_system_to(command);
}

ActionResult ActionCall::run(const MethodAction& action) {
  if (action.reads_dialogues) {
    find_dataset(dataset_.name, "--dataset");  // before the model is loaded
    dataset_.label = dataset_.name;
  }
  return action.run(*this);
}

std::optional<PublishedValue> ActionCall::published(const std::string& file,
                                                    const std::string& model) const {
  for (const PublishedNumber& row : parse_published(read_file(file), file)) {
    const auto value_of = [&](const std::string& dimension) {
      return dimension == "model" ? model : "";
    };
    if (row.matches(value_of)) return PublishedValue{row.value, row.note};
  }
  return std::nullopt;
}

void ActionCall::for_each_dialogue(const std::function<void(const TokenizedDialogue&)>& visit) {
  const Tokenizer tokenizer = open_tokenizer(checkpoint());
  const ChatTemplate chat = conversation_.open(tokenizer, model_.model);
  const PromptRenderer renderer(tokenizer, chat, conversation_.system,
                                checkpoint().config.eos_tokens);
  Manifest options;
  options.path = "--dataset";  // for messages
  const ResolvedDataset dataset =
      resolve_dataset(dataset_, options, Locations{{}, parse_name_values(data_, "--data")}, 0);
  for (const Dialogue& dialogue : dataset.dialogues) {
    TokenizedDialogue out;
    out.id = dialogue.id;
    Prompt prompt;
    for (std::size_t t = 0; t < dialogue.turns.size(); ++t) {
      out.turn = static_cast<int>(t);
      out.history_tokens = prompt.tokens.size();
      prompt.add_turn(renderer.render(dialogue, out.turn, 0));
      out.prompt_tokens = prompt.tokens.size();
      prompt.add_answer(out.turn, renderer.gold_answer_tokens(dialogue.turns[t]));
    }
    out.tokens = std::move(prompt.tokens);
    out.spans = std::move(prompt.spans);
    visit(out);
  }
}

void add_action(CLI::App& method, const MethodAction& action, const CommonOptions& common) {
  CLI::App* command = method.add_subcommand(std::string(action.name), std::string(action.summary));
  command->group("Actions");
  std::string footer = fmt::format("Example: turnbench method {} {} {}", method.get_name(),
                                   action.name, action.example);
  if (!action.notes.empty()) footer += fmt::format("\n{}", action.notes);
  command->footer(footer);
  auto call = std::make_shared<ActionCall>();
  call->add_options(*command, action);
  command->callback([call, action, &common] {
    const ActionResult result = call->run(action);
    fmt::print("{}", common.json ? dump(result.json) + "\n" : result.text);
  });
}

/// Prints the actions of a method if the command line names no action.
void list_actions(const MethodInfo& method, bool json) {
  if (json) {
    fmt::print("{}\n", to_json(method)["actions"].dump(1));
    return;
  }
  fmt::print("{}\n{}\n  turnbench method {} ACTION --help: its options and an example\n",
             method.name, actions_text(method), method.name);
}

/// The names of the methods that have actions.
std::string methods_with_actions() {
  std::vector<std::string> out;
  for (const MethodInfo& method : all_methods()) {
    if (!method.actions.empty()) out.emplace_back(method.name);
  }
  return join(out, ", ");
}

void add_method(CLI::App& parent, const MethodInfo& method, const CommonOptions& common) {
  CLI::App* command = parent.add_subcommand(std::string(method.name), std::string(method.summary));
  if (method.actions.empty()) {
    command->group("");  // not in the help
    command->allow_extras();
    command->callback([&method] {
      throw input_error("method {}: found a method without actions, expected one with actions: {}",
                        method.name, methods_with_actions());
    });
    return;
  }
  command->group("Methods");
  command->footer(fmt::format("turnbench describe method {} prints its parameters.", method.name));
  for (const MethodAction& action : actions_of(method)) add_action(*command, action, common);
  command->callback([command, &method, &common] {
    if (command->get_subcommands().empty()) list_actions(method, common.json);
  });
}

}  // namespace

void add_method_command(CLI::App& app, const CommonOptions& common) {
  CLI::App* command = app.add_subcommand(
      "method", "Run an action of a method: a calibration, or a measurement of its settings");
  command->footer(
      "Example: turnbench method pqcache                                  (lists its actions)\n"
      "         turnbench method pqcache fit-costs --model DIR -o costs.json");
  command->require_subcommand(1);
  for (const MethodInfo& method : all_methods()) add_method(*command, method, common);
}

}  // namespace turnbench
