#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "cli/cli.h"
#include "cli/input_output.h"
#include "cli/shared_options.h"
#include "common/error.h"
#include "common/text.h"
#include "datasets/catalog.h"
#include "datasets/dialogue_io.h"
#include "datasets/dialogue_stats.h"
#include "harness/experiment/experiment.h"

namespace turnbench {
namespace {

struct DialogueOptions {
  std::string manifest, dataset, source;
  std::optional<std::string> model,
      system;  ///< default: the manifest's, or tiny and no system prompt
  std::optional<std::string> positions;
  std::vector<std::string> data;
  BuildOptions build;
  ConversationOptions conversation;
  bool stats = false, prompts = false;
};

std::vector<Position> parse_positions(const std::string& text) {
  std::vector<Position> out;
  for (const std::string& name : split(text, ",")) {
    out.push_back(parse_position(trim(name), "--positions"));
    if (std::count(out.begin(), out.end(), out.back()) > 1) {
      throw input_error("--positions: found {} twice, expected it once", name_of(out.back()));
    }
  }
  return out;
}

/// Dialogues of one dataset, and the positions of their questions.
struct Printed {
  std::string label, dataset, metric;
  std::vector<Dialogue> dialogues;
  std::vector<Position> positions;
};

/// A dataset of the catalog with the command's options.
Printed of_catalog(const DialogueOptions& o, const std::string& name) {
  Printed out = {name,
                 name,
                 find_dataset(name, "--dataset").metric,
                 load_dialogues(name, o.source, o.build),
                 {}};
  if (o.positions) {
    out.positions = parse_positions(*o.positions);
  } else if (!o.stats) {
    out.positions = {own_position(out.dialogues, name)};
  }
  return out;
}

/// A dataset of a manifest as in a run: with the same ids and positions.
Printed of_manifest(const DialogueOptions& o, Manifest manifest) {
  if (o.positions) {
    manifest.positions = parse_positions(*o.positions);
    manifest.own_positions = false;
  }
  ResolvedDataset dataset =
      resolve_dataset(manifest.dataset(o.dataset), manifest,
                      Locations{{}, parse_name_values(o.data, "--data")}, o.build.limit);
  for (Dialogue& dialogue : dataset.dialogues) dialogue.metric = dataset.metric;
  return {dataset.entry.label, dataset.entry.name, dataset.metric, std::move(dataset.dialogues),
          std::move(dataset.positions)};
}

/// A dataset's row: sizes as built, and as published.
struct StatsRow {
  std::string dataset, metric;
  std::optional<DialogueStats> built;  ///< nullopt if its files do not exist
  const PublishedDataset* paper = nullptr;
};

StatsRow stats_row(const Printed& printed, const Tokenizer& tokenizer) {
  StatsRow out = {printed.label, printed.metric, std::nullopt,
                  find_published_dataset(printed.dataset)};
  out.built = dialogue_stats(
      printed.dialogues, [&](std::string_view text) { return tokenizer.encode(text, {}).size(); });
  return out;
}

/// The rows of LoopServe's table 3 for which `source` has files.
std::vector<StatsRow> published_rows(const DialogueOptions& o, const Tokenizer& tokenizer) {
  std::vector<StatsRow> out;
  for (const PublishedDataset& paper : published_datasets()) {
    const std::string name(paper.name);
    out.push_back(has_file(find_dataset(name, "--dataset"), o.source)
                      ? stats_row(of_catalog(o, name), tokenizer)
                      : StatsRow{name, find_dataset(name, "").metric, std::nullopt, &paper});
  }
  return out;
}

OrderedJson to_json(const StatsRow& row) {
  OrderedJson out = {{"dataset", row.dataset}, {"dialogues", nullptr},       {"turns", nullptr},
                     {"turn_tokens", nullptr}, {"dialogue_tokens", nullptr}, {"metric", row.metric},
                     {"published", nullptr}};
  if (row.built) {
    out["dialogues"] = row.built->dialogues;
    out["turns"] = row.built->mean_turns;
    out["turn_tokens"] = row.built->mean_turn_tokens;
    out["dialogue_tokens"] = row.built->mean_tokens;
  }
  if (row.paper != nullptr) {
    out["published"] = {{"dialogues", row.paper->dialogues},
                        {"turns", row.paper->turns},
                        {"turn_tokens", row.paper->mean_tokens},
                        {"metric", row.paper->metric}};
  }
  return out;
}

void print_stats(const std::vector<StatsRow>& rows, bool json) {
  if (json) {
    for (const StatsRow& row : rows) fmt::print("{}\n", dump(to_json(row)));
    return;
  }
  fmt::print("{:<22} {:>10} {:>8} {:>14} {:>16}  {}\n", "", "dialogues", "turns", "tokens a turn",
             "tokens a dialogue", "metric");
  for (const StatsRow& row : rows) {
    if (row.built) {
      fmt::print("{:<22} {:>10} {:>8.2f} {:>14.2f} {:>16.2f}  {}\n", row.dataset,
                 row.built->dialogues, row.built->mean_turns, row.built->mean_turn_tokens,
                 row.built->mean_tokens, row.metric);
    } else {
      fmt::print("{:<22} no files\n", row.dataset);
    }
    if (row.paper != nullptr) {
      fmt::print("{:<22} {:>10} {:>8} {:>14.2f} {:>16}  {}\n", "  LoopServe, Table 3",
                 row.paper->dialogues, row.paper->turns, row.paper->mean_tokens, "",
                 row.paper->metric);
    }
  }
}

void check_source(const DialogueOptions& o) {
  if (o.dataset.empty()) {
    if (!o.stats) {
      throw input_error(
          "--dataset: found none, expected one (see list datasets), or a manifest, or --stats");
    }
    if (o.source.empty()) {
      throw input_error("--source: found none, expected LongBench's directory");
    }
    return;
  }
  const Dataset& dataset = find_dataset(o.dataset, "--dataset");
  if (dataset.needs_source && o.source.empty()) {
    throw input_error("--source: found none, expected the file or directory that {} is read from",
                      dataset.name);
  }
  if (!dataset.takes_source && !o.source.empty()) {
    throw input_error("--source: found \"{}\", expected none: {} is generated", printable(o.source),
                      dataset.name);
  }
}

/// The dialogue with each turn's "prompt": the text between the previous answer and this turn's
/// answer.
std::string with_prompts(const Dialogue& dialogue, const PromptRenderer& renderer) {
  OrderedJson out = OrderedJson::parse(to_json_line(dialogue));
  for (std::size_t i = 0; i < dialogue.turns.size(); ++i)
    out["turns"][i]["prompt"] = renderer.text(dialogue.turns[i], static_cast<int>(i)).text;
  return dump(out);
}

/// The settings for rendering prompts: model, template and system prompt, from the options or else
/// from the manifest.
struct Writer {
  std::string model = "tiny";
  ConversationOptions conversation;
};

Writer writer_of(const DialogueOptions& o, const std::optional<Manifest>& manifest) {
  Writer out{o.model.value_or("tiny"), o.conversation};
  if (manifest) {
    out.conversation.system = manifest->system_prompt;
    if (!o.model) {
      const ModelEntry& model = manifest->models.front();
      out.model = Locations{}.model_path(model);
      if (out.conversation.chat_template == "auto") {
        out.conversation.chat_template = model.chat_template;
        out.conversation.place = model.template_place;
        out.conversation.folder = manifest->path.parent_path();
      }
    }
  }
  if (o.system) out.conversation.system = *o.system;
  return out;
}

void print_dialogues(const DialogueOptions& o, const std::optional<Manifest>& manifest,
                     const Printed& printed) {
  std::optional<Tokenizer> tokenizer;
  std::optional<ChatTemplate> chat;
  std::optional<PromptRenderer> renderer;
  if (o.prompts) {
    const Writer writer = writer_of(o, manifest);
    tokenizer = open_model_tokenizer(writer.model);
    chat = writer.conversation.open(*tokenizer, writer.model);
    renderer.emplace(*tokenizer, *chat, writer.conversation.system, std::vector<int>());
  }
  for (const Dialogue& dialogue : printed.dialogues) {
    for (Position position : printed.positions) {
      Dialogue moved = with_questions_at(dialogue, position);
      // One line per position, so ids must differ.
      moved.id += fmt::format(":{}", name_of(position));
      fmt::print("{}\n", renderer ? with_prompts(moved, *renderer) : to_json_line(moved));
    }
  }
}

void dialogues(const DialogueOptions& o, bool json) {
  if (o.positions) parse_positions(*o.positions);
  if (o.manifest.empty()) check_source(o);
  std::optional<Manifest> manifest;
  if (!o.manifest.empty()) manifest = load_manifest(o.manifest);
  const auto printed = [&] {
    return manifest ? of_manifest(o, *manifest) : of_catalog(o, o.dataset);
  };
  if (!o.stats) return print_dialogues(o, manifest, printed());
  const Tokenizer tokenizer = open_model_tokenizer(o.model.value_or("tiny"));
  print_stats(o.manifest.empty() && o.dataset.empty()
                  ? published_rows(o, tokenizer)
                  : std::vector{stats_row(printed(), tokenizer)},
              json);
}

}  // namespace

void add_dialogues_command(CLI::App& app, const CommonOptions& common) {
  auto o = std::make_shared<DialogueOptions>();
  CLI::App* command = app.add_subcommand(
      "dialogues", "Build dialogues and print them as jsonl, one line per dialogue and position");
  command->footer(
      "Examples:\n"
      "  turnbench dialogues --dataset mt-hotpotqa --source longbench/ --positions "
      "begin,middle,end --limit 2\n"
      "  turnbench dialogues mine.json --data jsonl=mine.jsonl");
  CLI::Option* manifest =
      command->add_option("manifest,--manifest", o->manifest,
                          "experiment file; builds one of its datasets as a run does");
  command->add_option("--dataset", o->dataset,
                      "dataset of the manifest, if it has several, or of the catalog (see list "
                      "datasets); default with --stats: all of LoopServe's Table 3");
  command
      ->add_option("--data", o->data, "NAME=DIR: directory of the manifest's dataset or collection")
      ->allow_extra_args(false)
      ->needs(manifest);
  command->add_option(
      "--positions", o->positions,
      "begin, middle, end, separated by commas; default: the manifest's, or the dataset's own");
  command->add_option("--limit", o->build.limit, "number of dialogues; 0: the dataset's own")
      ->transform(whole_number(0, 1'000'000'000));
  command
      ->add_option("--source", o->source,
                   "file or directory with the dataset's records, or with essays")
      ->excludes(manifest);
  command->add_option("--turns", o->build.turns, "turns per dialogue; 0: the dataset's own")
      ->transform(whole_number(0, 100))
      ->excludes(manifest);
  command->add_option("--seed", o->build.seed, "seed of the builder")
      ->transform(whole_number(0, INT64_MAX))
      ->excludes(manifest);
  command
      ->add_option("--length", o->build.length,
                   "length of generated dialogues, in words and symbols; 0: the generator's own")
      ->transform(whole_number(0, 10'000'000))
      ->excludes(manifest);
  command
      ->add_option("--depth", o->build.depth,
                   "position of the hidden text, in percent; default: random")
      ->check(number(0, 100))
      ->excludes(manifest);
  command
      ->add_flag("--official-prompts", o->build.official_prompts,
                 "LongBench's own prompts, from config/dataset2prompt.json (LongBench v2: "
                 "prompts/0shot.txt) next to the records")
      ->excludes(manifest);
  command
      ->add_option("--leave-out", o->build.leave_out,
                   "file of ids of questions to leave out, one per line (LoCoMo, REALTALK)")
      ->excludes(manifest);
  CLI::Option* stats = command->add_flag(
      "--stats", o->stats,
      "print turns, mean tokens and metric next to the published ones, instead of the dialogues");
  command->add_option("--model", o->model,
                      "model whose tokenizer --stats and --template use; default: tiny, or for "
                      "--template the manifest's first model");
  CLI::Option* chat = o->conversation.add_template_to(*command);
  chat->description("add each turn's prompt under a chat template: auto for the model's, " +
                    join(chat_template_names(), ", ") + ", or a Jinja file")
      ->excludes(stats);
  const CLI::Option* system = o->conversation.add_system_to(*command)->needs(chat);
  command->callback([o, chat, system, &common] {
    o->prompts = chat->count() > 0;
    if (system->count() > 0) o->system = o->conversation.system;
    dialogues(*o, common.json);
  });
}

}  // namespace turnbench
