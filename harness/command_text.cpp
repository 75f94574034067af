// The commands that need no model weights: tokenize, score, dialogues.

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "common/error.h"
#include "common/text.h"
#include "datasets/catalog.h"
#include "datasets/dialogue_io.h"
#include "datasets/dialogue_stats.h"
#include "harness/cli.h"
#include "harness/plan.h"
#include "metrics/longbench_scoring.h"
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

void tokenize(const TokenizeOptions& o, bool json) {
  const Tokenizer tokenizer =
      o.model == "tiny" ? open_tokenizer(Checkpoint::open("tiny")) : Tokenizer::open(o.model);
  const std::string input = read_text(o.file), source = input_name(o.file);
  std::vector<std::string> documents;
  if (o.lines) {
    documents = split(input, "\n");
    if (!documents.empty() && documents.back().empty()) documents.pop_back();
  } else {
    documents = {input};
  }
  std::string out;  // printed once it is whole
  for (std::size_t i = 0; i < documents.size(); ++i) {
    if (!o.decode) {
      const std::vector<int> ids =
          tokenizer.encode(documents[i], {.parse_special = o.special, .add_special = false});
      out += dump({{"ids", ids}}) + "\n";
      continue;
    }
    const std::string place = o.lines ? fmt::format("{}: line {}", source, i + 1) : source;
    const std::string text = tokenizer.decode(ids_of(documents[i], place), !o.special);
    out += json ? dump({{"text", text}}) + "\n" : o.lines ? text + "\n" : text;
  }
  fmt::print("{}", out);
}

struct DialogueOptions {
  std::string dataset, source, positions = "end", model;
  BuildOptions build;
  bool stats = false;
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

/// Of the dialogues as built, beside the published ones.
void print_stats(const std::string& dataset, const DialogueStats& stats, bool json) {
  const PublishedDataset* paper = find_published_dataset(dataset);
  if (json) {
    OrderedJson out = {{"dataset", dataset},
                       {"dialogues", stats.dialogues},
                       {"turns", stats.mean_turns},
                       {"turn_tokens", stats.mean_turn_tokens},
                       {"dialogue_tokens", stats.mean_tokens},
                       {"published", nullptr}};
    if (paper != nullptr) {
      out["published"] = {{"dialogues", paper->dialogues},
                          {"turns", paper->turns},
                          {"turn_tokens", paper->mean_tokens}};
    }
    fmt::print("{}\n", dump(out));
    return;
  }
  fmt::print("{:<22} {:>10} {:>8} {:>14} {:>16}\n", "", "dialogues", "turns", "tokens a turn",
             "tokens a dialogue");
  fmt::print("{:<22} {:>10} {:>8.2f} {:>14.2f} {:>16.2f}\n", dataset, stats.dialogues,
             stats.mean_turns, stats.mean_turn_tokens, stats.mean_tokens);
  if (paper != nullptr) {
    fmt::print("{:<22} {:>10} {:>8} {:>14.2f}\n", "LoopServe, Table 3", paper->dialogues,
               paper->turns, paper->mean_tokens);
  }
}

void print_dialogues(const DialogueOptions& o, bool json) {
  const std::vector<Position> positions = parse_positions(o.positions);
  const Dataset& dataset = find_dataset(o.dataset, "--dataset");
  if (dataset.needs_source && o.source.empty()) {
    throw input_error("--source: found none, expected the file or directory that {} is read from",
                      dataset.name);
  }
  if (!dataset.needs_source && !o.source.empty()) {
    throw input_error("--source: found \"{}\", expected none: {} is generated", printable(o.source),
                      dataset.name);
  }
  const std::vector<Dialogue> dialogues = load_dialogues(o.dataset, o.source, o.build);
  if (o.stats) {
    const Tokenizer tokenizer = o.model.empty() || o.model == "tiny"
                                    ? open_tokenizer(Checkpoint::open("tiny"))
                                    : Tokenizer::open(o.model);
    const DialogueStats stats = dialogue_stats(
        dialogues, [&](std::string_view text) { return tokenizer.encode(text, {}).size(); });
    print_stats(o.dataset, stats, json);
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

void add_tokenize_command(CLI::App& app, const CommonOptions& common) {
  auto o = std::make_shared<TokenizeOptions>();
  CLI::App* command = app.add_subcommand("tokenize", "Text to token ids as JSON, and back");
  command->footer("Example: echo 'hello world' | turnbench tokenize --model tiny");
  command->add_option("--model", o->model, "Hugging Face directory, or tiny")->required();
  command->add_option("file", o->file, "text; otherwise stdin");
  command->add_flag("--decode", o->decode, "ids to text");
  command->add_flag("--special", o->special,
                    "special tokens in the text count as such; decoding shows them");
  command->add_flag("--lines", o->lines, "one document a line");
  command->callback([o, &common] { tokenize(*o, common.json); });
}

void add_score_command(CLI::App& app, const CommonOptions& common) {
  struct Options {
    std::string file;
    std::vector<std::string> data;
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
  command
      ->add_option("--data", o->data,
                   "jieba=DIR: the dictionary that metrics of Chinese words need")
      ->allow_extra_args(false);
  command->callback([o, &common] {
    if (o->request.metric.empty() && o->request.dataset.empty()) {
      throw input_error("score: found neither --metric nor --dataset, expected at least one");
    }
    const std::string metric =
        o->request.metric.empty()
            ? std::string(find_longbench_scoring(o->request.dataset, "--dataset").metric)
            : o->request.metric;
    const auto segmenter =
        open_segmenter(find_metric(metric, "--metric"), {{}, names_and_values(o->data, "--data")});
    o->request.segmenter = segmenter.get();
    const FileScores scores = score_file(o->file, o->request);
    fmt::print("{}", common.json ? to_json(scores).dump() + "\n" : to_text(scores));
  });
}

void add_dialogues_command(CLI::App& app, const CommonOptions& common) {
  auto o = std::make_shared<DialogueOptions>();
  CLI::App* command =
      app.add_subcommand("dialogues", "Built dialogues as jsonl, one line a dialogue and position");
  command->footer(
      "Example: turnbench dialogues --dataset mt-hotpotqa --source longbench/ --positions "
      "begin,middle,end --limit 2");
  command->add_option("--dataset", o->dataset, "dataset; see list datasets")->required();
  command->add_option("--source", o->source, "file or directory of its records");
  command->add_option("--turns", o->build.turns, "0: the set's own")
      ->transform(whole_number(0, 100));
  command->add_option("--positions", o->positions, "begin, middle, end, separated by commas");
  command->add_option("--seed", o->build.seed, "of the builder")
      ->transform(whole_number(0, INT64_MAX));
  command->add_option("--limit", o->build.limit, "dialogues; 0: the set's own number")
      ->transform(whole_number(0, 1'000'000'000));
  command
      ->add_option("--length", o->build.length,
                   "of generated dialogues, in words and marks; 0: the generator's own")
      ->transform(whole_number(0, 10'000'000));
  command->add_flag("--stats", o->stats,
                    "turns and mean tokens beside the published ones, instead of the dialogues");
  command->add_option("--model", o->model, "whose tokenizer counts, for --stats; otherwise tiny");
  command->callback([o, &common] { print_dialogues(*o, common.json); });
}

}  // namespace turnbench
