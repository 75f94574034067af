// The commands that need no model weights: tokenize, score, dialogues.

#include <fmt/format.h>

#include <iostream>
#include <nlohmann/json.hpp>

#include "common/error.h"
#include "common/text.h"
#include "datasets/catalog.h"
#include "datasets/dialogue_io.h"
#include "datasets/dialogue_stats.h"
#include "harness/cli.h"
#include "metrics/score_file.h"

namespace turnbench {
namespace {

/// Ids as {"ids": [...]}, an array, or numbers between commas and spaces.
std::vector<int> ids_of(const std::string& text, const std::string& source) {
  std::vector<int> out;
  const std::string trimmed = trim(text);
  if (trimmed.starts_with('{') || trimmed.starts_with('[')) {
    const Json json = parse_json(trimmed, source);
    const JsonView view(json, source);
    for (const JsonView& id : (view.is_object() ? view.at("ids") : view).items()) {
      out.push_back(static_cast<int>(id.as_integer(0, INT32_MAX)));
    }
    return out;
  }
  std::string number;
  for (char c : trimmed + " ") {
    if (c >= '0' && c <= '9' && number.size() < 9) {
      number += c;
    } else if (c == ',' || c == ' ' || c == '\n' || c == '\t' || c == '\r') {
      if (!number.empty()) out.push_back(std::stoi(number));
      number.clear();
    } else {
      throw input_error("{}: found \"{}\", expected token ids", source,
                        printable(std::string(1, c)));
    }
  }
  return out;
}

struct TokenizeOptions {
  std::string model, file;
  bool decode = false, special = false, lines = false;
};

void tokenize(const TokenizeOptions& o) {
  const Tokenizer tokenizer =
      o.model == "tiny" ? open_tokenizer(Checkpoint::open("tiny")) : Tokenizer::open(o.model);
  const std::string input = read_input(o.file), source = o.file.empty() ? "stdin" : o.file;
  std::vector<std::string> documents;
  if (o.lines) {
    documents = split(input, "\n");
    if (!documents.empty() && documents.back().empty()) documents.pop_back();
  } else {
    documents = {input};
  }
  for (const std::string& document : documents) {
    if (o.decode) {
      fmt::print("{}{}", tokenizer.decode(ids_of(document, source), !o.special),
                 o.lines ? "\n" : "");
    } else {
      OrderedJson out;
      out["ids"] = tokenizer.encode(document, {.parse_special = o.special, .add_special = false});
      fmt::print("{}\n", out.dump());
    }
  }
}

struct DialogueOptions {
  std::string dataset, source, positions = "end", model;
  BuildOptions build;
  bool stats = false;
};

void print_dialogues(const DialogueOptions& o) {
  std::vector<Position> positions;
  for (const std::string& name : split(o.positions, ","))
    positions.push_back(parse_position(trim(name), "--positions"));
  const Dataset& dataset = find_dataset(o.dataset, "--dataset");
  if (dataset.needs_source && o.source.empty()) {
    throw input_error("--source: found none, expected the file or directory that {} is read from",
                      dataset.name);
  }
  const std::vector<Dialogue> dialogues = load_dialogues(o.dataset, o.source, o.build);
  if (o.stats) {
    const Tokenizer tokenizer = o.model.empty() || o.model == "tiny"
                                    ? open_tokenizer(Checkpoint::open("tiny"))
                                    : Tokenizer::open(o.model);
    const DialogueStats stats = dialogue_stats(
        dialogues, [&](std::string_view text) { return tokenizer.encode(text, {}).size(); });
    const PublishedDataset* paper = find_published_dataset(o.dataset);
    fmt::print("{:<22} {:>10} {:>8} {:>14} {:>16}\n", "", "dialogues", "turns", "tokens a turn",
               "tokens a dialogue");
    fmt::print("{:<22} {:>10} {:>8.2f} {:>14.2f} {:>16.2f}\n", o.dataset, stats.dialogues,
               stats.mean_turns, stats.mean_turn_tokens, stats.mean_tokens);
    if (paper != nullptr) {
      fmt::print("{:<22} {:>10} {:>8} {:>14.2f}\n", "LoopServe, Table 3", paper->dialogues,
                 paper->turns, paper->mean_tokens);
    }
    return;
  }
  for (const Dialogue& dialogue : dialogues) {
    for (Position position : positions) {
      Dialogue moved = at_position(dialogue, position);
      // One line a position: ids stay unique.
      moved.id += fmt::format(":{}", name_of(position));
      fmt::print("{}\n", to_json_line(moved));
    }
  }
}

}  // namespace

void add_tokenize_command(CLI::App& app) {
  auto o = std::make_shared<TokenizeOptions>();
  CLI::App* command = app.add_subcommand("tokenize", "Text to token ids as JSON, and back");
  command->footer("Example: echo 'hello world' | turnbench tokenize --model tiny");
  command->add_option("--model", o->model, "Hugging Face directory, or tiny")->required();
  command->add_option("file", o->file, "text; otherwise stdin");
  command->add_flag("--decode", o->decode, "ids to text");
  command->add_flag("--special", o->special,
                    "special tokens in the text count as such; decoding shows them");
  command->add_flag("--lines", o->lines, "one document a line");
  command->callback([o] { tokenize(*o); });
}

void add_score_command(CLI::App& app, const CommonOptions& common) {
  struct Options {
    std::string file;
    ScoreRequest request;
  };
  auto o = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand(
      "score", "Scores of a file of predictions, line by line, and their mean x100");
  command->footer("Example: turnbench score --metric qa_f1 predictions.jsonl");
  command->add_option("file", o->file, "jsonl of {\"prediction\", \"references\", \"classes\"}")
      ->required();
  command->add_option("--metric", o->request.metric, "metric; otherwise the dataset's");
  command->add_option("--dataset", o->request.dataset,
                      "LongBench dataset, whose post-processing applies");
  command->callback([o, &common] {
    if (o->request.metric.empty() && o->request.dataset.empty()) {
      throw input_error("score: found neither --metric nor --dataset, expected at least one");
    }
    const FileScores scores = score_file(o->file, o->request);
    fmt::print("{}", common.json ? to_json(scores).dump() + "\n" : to_text(scores));
  });
}

void add_dialogues_command(CLI::App& app) {
  auto o = std::make_shared<DialogueOptions>();
  CLI::App* command =
      app.add_subcommand("dialogues", "Built dialogues as jsonl, one line a dialogue and position");
  command->footer(
      "Example: turnbench dialogues --dataset mt-hotpotqa --source longbench/ --positions "
      "begin,middle,end --limit 2");
  command->add_option("--dataset", o->dataset, "dataset; see list datasets")->required();
  command->add_option("--source", o->source, "file or directory of its records");
  command->add_option("--turns", o->build.turns, "0: the set's own")->check(CLI::Range(0, 100));
  command->add_option("--positions", o->positions, "begin, middle, end, separated by commas");
  command->add_option("--seed", o->build.seed, "of the builder");
  command->add_option("--limit", o->build.limit, "dialogues; 0: the set's own number");
  command->add_option("--length", o->build.length,
                      "of generated dialogues, in words and marks; 0: the generator's own");
  command->add_flag("--stats", o->stats,
                    "turns and mean tokens beside the published ones, instead of the dialogues");
  command->add_option("--model", o->model, "whose tokenizer counts, for --stats; otherwise tiny");
  command->callback([o] { print_dialogues(*o); });
}

}  // namespace turnbench
