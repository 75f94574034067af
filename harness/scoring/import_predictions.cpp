#include "harness/scoring/import_predictions.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <tuple>

#include "common/error.h"
#include "common/file.h"
#include "common/text.h"
#include "datasets/catalog.h"
#include "datasets/jsonl.h"
#include "harness/experiment/published.h"
#include "harness/scoring/score_answer.h"
#include "harness/store/provenance.h"
#include "metrics/metric.h"
#include "metrics/postprocess.h"

namespace turnbench {
namespace {

struct Prediction {
  std::size_t dialogue = 0;
  int turn = 0;
  Position position = Position::kEnd;
  std::string answer, place;  ///< file and line
};

/// Finds dialogues by their ids.
class ById {
 public:
  explicit ById(const ImportTarget& target) : target_(target) {
    for (std::size_t i = 0; i < target.dialogues.size(); ++i) places_[target.dialogues[i].id] = i;
  }

  Prediction read(const JsonView& line, Position position) const {
    Prediction out;
    out.position = position;
    const std::string id = line.at("dialogue").as_string();
    auto found = places_.find(id);
    for (Position p : {Position::kBegin, Position::kMiddle, Position::kEnd}) {
      const std::string ending = fmt::format(":{}", name_of(p));
      if (found != places_.end() || !id.ends_with(ending)) continue;
      found = places_.find(id.substr(0, id.size() - ending.size()));
      out.position = p;
    }
    if (found == places_.end()) line.at("dialogue").fail(a_dialogue());
    out.dialogue = found->second;
    const auto turns = static_cast<std::int64_t>(target_.dialogues[out.dialogue].turns.size());
    if (turns > 1) line.at("turn");  // required
    out.turn = static_cast<int>(line.get_integer("turn", 1, 1, turns)) - 1;
    out.answer = line.at("answer").as_string();
    return out;
  }

 private:
  std::string a_dialogue() const {
    const std::string out = "a dialogue of " + target_.cell.dataset;
    if (target_.dialogues.empty()) return out + ", which has none";
    return fmt::format("{}, which has {}, from \"{}\" to \"{}\"", out, target_.dialogues.size(),
                       printable(target_.dialogues.front().id),
                       printable(target_.dialogues.back().id));
  }

  const ImportTarget& target_;
  std::map<std::string, std::size_t> places_;
};

/// LongBench's lines have no ids: lines correspond to dialogues by the order of the dataset's file,
/// or by their answers.
class ByAnswers {
 public:
  explicit ByAnswers(const ImportTarget& target) : target_(target) {
    for (std::size_t i = 0; i < target.dialogues.size(); ++i) {
      if (target.dialogues[i].turns.size() != 1) {
        throw input_error(
            "dataset {}: found dialogues of several turns, expected lines of {{\"dialogue\", "
            "\"turn\", \"answer\"}} for them",
            printable(target.cell.dataset));
      }
      const auto [known, is_new] = places_.emplace(references(i), i);
      if (!is_new) known->second = kSeveral;
    }
  }

  Prediction read(const JsonView& line, Position position) {
    Prediction out;
    out.position = position;
    const char* answers = line.has("answers") ? "answers" : "references";
    const std::vector<std::string> wanted = line.at(answers).as_strings();
    const std::size_t next = next_++;
    if (target_.in_file_order && next < target_.dialogues.size() && references(next) == wanted) {
      out.dialogue = next;
      if (ambiguous_.empty() && places_.at(wanted) == kSeveral) ambiguous_ = line.source();
    } else {
      const auto found = places_.find(wanted);
      if (found == places_.end())
        line.at(answers).fail("the answers of a dialogue of " + target_.cell.dataset);
      if (found->second == kSeveral) {
        line.at(answers).fail(fmt::format(
            "{}, as dialogues of {} have the same answers",
            target_.in_file_order ? "the lines in the order of the dataset's file"
                                  : "--manifest, which also tells the order of the dataset's file",
            target_.cell.dataset));
      }
      out.dialogue = found->second;
    }
    out.answer = line.at(line.has("pred") ? "pred" : "prediction").as_string();
    return out;
  }

  /// After the last line.  Without some of its lines, a file's order identifies no dialogues.
  void finish() const {
    if (ambiguous_.empty() || next_ == target_.dialogues.size()) return;
    throw input_error(
        "{}: found an answer of several dialogues of {}, expected all {} lines in the order of the "
        "dataset's file",
        ambiguous_, printable(target_.cell.dataset), target_.dialogues.size());
  }

 private:
  static constexpr std::size_t kSeveral = SIZE_MAX;
  const std::vector<std::string>& references(std::size_t i) const {
    return target_.dialogues[i].turns.front().references;
  }

  const ImportTarget& target_;
  std::map<std::vector<std::string>, std::size_t> places_;
  std::size_t next_ = 0;
  std::string ambiguous_;  ///< the first line whose dialogue only the order tells
};

/// The missing predictions of a file, as a clause; "" if there are none.  Every turn must be
/// present at each position that occurs in the file.
std::string missing_of(const std::vector<Prediction>& predictions, const ImportTarget& target) {
  std::set<Position> positions;
  std::set<std::tuple<std::size_t, int, Position>> there;
  for (const Prediction& p : predictions) {
    positions.insert(p.position);
    there.emplace(p.dialogue, p.turn, p.position);
  }
  std::size_t turns = 0;
  std::set<std::size_t> counts;  // of turns
  std::string first;
  for (std::size_t d = 0; d < target.dialogues.size(); ++d) {
    const Dialogue& dialogue = target.dialogues[d];
    turns += dialogue.turns.size();
    counts.insert(dialogue.turns.size());
    for (std::size_t t = 0; t < dialogue.turns.size(); ++t) {
      for (const Position position : positions) {
        if (!first.empty() || there.contains({d, static_cast<int>(t), position})) continue;
        first = fmt::format("{}, turn {}, {}", printable(dialogue.id), t + 1, name_of(position));
      }
    }
  }
  if (first.empty()) return "";
  const std::string each = counts.size() == 1 ? fmt::format(" x {} turns", *counts.begin())
                                              : fmt::format(" of {} turns", turns);
  return fmt::format("found {} predictions, expected {} ({} dialogues{}{}); first missing: {}",
                     predictions.size(), turns * positions.size(), target.dialogues.size(), each,
                     positions.size() == 1 ? "" : fmt::format(" x {} positions", positions.size()),
                     first);
}

std::vector<Prediction> read_lines(const ImportRequest& request, const ImportTarget& target) {
  std::vector<Prediction> out;
  std::optional<ById> by_id;
  std::optional<ByAnswers> by_answers;
  std::set<std::tuple<std::size_t, int, Position>> seen;
  for_each_json_line(request.file, [&](const JsonView& line) {
    if (!by_id && !by_answers) {  // the first line determines the kind of all lines
      if (line.has("pred") || line.has("prediction")) {
        by_answers.emplace(target);
      } else {
        by_id.emplace(target);
      }
    }
    out.push_back(by_id ? by_id->read(line, request.position)
                        : by_answers->read(line, request.position));
    const Prediction& p = out.back();
    if (!seen.emplace(p.dialogue, p.turn, p.position).second) {
      line.at(by_id                 ? "dialogue"
              : line.has("answers") ? "answers"
                                    : "references")
          .fail("each turn of a dialogue once");
    }
    out.back().place = line.source();
    const std::string position(name_of(p.position));
    if (!target.positions.empty() && !target.positions.contains(position)) {
      throw input_error("{}: found the position {}, expected one that the experiment has: {}",
                        line.source(), position, join(target.positions, ", "));
    }
  });
  if (by_answers) by_answers->finish();
  return out;
}

/// The known circumstances of the predictions; unknown ones are marked as such.
std::string import_card(const std::string& label, const Cell& cell, const std::string& hash) {
  OrderedJson card;
  card["imported"] = {{"label", label}, {"predictions", hash}};
  card["model"] = {{"name", cell.model}, {"weights", "not seen"}};
  card["prompt"] = "not seen";
  card["decoding"] = "not seen";
  card["dataset"] = {{"name", cell.dataset},
                     {"dialogues", cell.dataset_hash},
                     {"metric", cell.metric},
                     {"postprocess", cell.postprocess}};
  return card.dump(1);
}

/// The position of predictions without one.
std::string default_position(const std::set<std::string>& positions) {
  return positions.size() == 1 ? *positions.begin() : std::string(name_of(Position::kEnd));
}

/// The name of a manifest's only model; "" if it has several.
std::string only_model(const Manifest& manifest) {
  return manifest.models.size() == 1 ? manifest.models.front().name : "";
}

}  // namespace

ImportTarget import_target(const Manifest& manifest, const std::string& label,
                           const Locations& locations) {
  const DatasetEntry& entry = manifest.dataset(label);
  Experiment experiment;
  experiment.manifest = manifest;
  experiment.published = read_published(manifest);
  const ResolvedDataset& dataset =
      experiment.datasets.emplace_back(resolve_dataset(entry, manifest, locations, 0));
  ImportTarget out;
  out.experiment = stored_experiment(experiment);
  out.cell.dataset = entry.label;
  out.cell.dataset_hash = dataset.hash;
  out.cell.task = dataset.task;
  out.cell.metric = dataset.metric;
  out.cell.postprocess = dataset.postprocess;
  out.cell.history = name_of(manifest.histories.front());
  out.cell.answers = name_of(manifest.answers.front());
  out.cell.model = only_model(manifest);
  out.dialogues = dataset.dialogues;
  for (const Position position : dataset.positions) out.positions.emplace(name_of(position));
  out.cell.position = manifest.own_positions ? std::string(name_of(dataset.positions.front()))
                                             : default_position(out.positions);
  return out;
}

ImportTarget import_target(const Store& store, const std::string& experiment,
                           const std::string& label) {
  ImportTarget out;
  out.experiment.name = experiment;
  out.experiment.manifest = store.manifest(experiment);
  const Manifest manifest = parse_manifest(
      out.experiment.manifest, store.path() + ": manifest of " + experiment, ManifestUse::kReport);
  out.experiment.title = manifest.title;
  out.experiment.directory = store.directory(experiment);
  out.experiment.published = store.published(experiment);
  const std::vector<Cell> cells = store.cells(experiment);
  std::vector<std::string_view> labels;
  for (const DatasetEntry& e : manifest.datasets) labels.push_back(e.label);
  const std::string wanted =
      label.empty() && labels.size() == 1 ? std::string(labels.front()) : label;
  const auto like = std::find_if(cells.begin(), cells.end(), [&](const Cell& c) {
    return c.dataset == wanted && !is_probe(c);
  });
  if (like == cells.end()) {
    throw input_error("--dataset: found \"{}\", expected {}", printable(label),
                      nearest_or_all(label, labels));
  }
  out.cell = *like;
  out.cell.model = only_model(manifest);
  for (const Cell& cell : cells) {
    if (cell.dataset == wanted && !is_probe(cell) && !is_imported(cell))
      out.positions.insert(cell.position);
  }
  if (!manifest.own_positions) out.cell.position = default_position(out.positions);
  for (const auto& [id, turns] : store.turn_counts(like->dataset_hash)) {
    out.dialogues.push_back(store.parse(store.dialogue(like->dataset_hash, id)));
  }
  out.in_file_order = false;
  return out;
}

ImportTarget import_target(const std::string& dataset, const Locations& locations) {
  find_dataset(dataset, "--dataset");
  const auto list = [](std::initializer_list<std::string> items) { return OrderedJson(items); };
  const OrderedJson table = {{"rows", list({"model", "method"})},
                             {"columns", list({"dataset", "position"})}};
  const OrderedJson manifest = {{"name", "imported-" + dataset},
                                {"models", list({"imported"})},
                                {"datasets", list({dataset})},
                                {"methods", list({"full"})},
                                {"tables", OrderedJson::array({table})}};
  return import_target(parse_manifest(manifest.dump(1), "--dataset"), dataset, locations);
}

ImportedPredictions read_predictions(const ImportRequest& request, const ImportTarget& target,
                                     const Segmenter* segmenter) {
  const std::string model = request.model.empty() ? target.cell.model : request.model;
  if (model.empty()) {
    throw input_error("--model: found none, expected the name of the model that was asked");
  }
  if (printable(model) != model) {
    throw input_error("--model: found \"{}\", expected a name", printable(model));
  }
  const std::vector<Prediction> predictions = read_lines(request, target);
  const std::string hash = hash_text(read_file(request.file));
  Cell cell = target.cell;
  cell.model = model;
  cell.model_hash = hash_text("imported " + model);
  cell.method = "imported:" + request.label;
  cell.method_canonical = cell.method + " " + hash;
  cell.protocol_text = import_card(request.label, cell, hash);
  cell.protocol = hash_text(cell.protocol_text);

  ImportedPredictions out;
  out.missing = missing_of(predictions, target);
  out.experiment = target.experiment;
  out.experiment.models = {
      {cell.model_hash, model + ": as imported predictions name it, not seen"}};
  const std::string machine = environment_card();
  OrderedJson environment = OrderedJson::parse(machine);
  environment["imported"] = {{"file", printable(std::filesystem::absolute(request.file).string())},
                             {"hash", hash}};
  out.experiment.environment = environment.dump(1);
  const Scorer scorer{&find_metric(target.cell.metric, target.cell.dataset),
                      &find_postprocess(target.cell.postprocess, target.cell.dataset), segmenter};
  std::map<Position, std::string> keys;
  for (const Prediction& p : predictions) {
    if (!keys.contains(p.position)) {
      cell.position = name_of(p.position);
      cell.key = keys[p.position] = cell_key(cell);
      out.experiment.cells.push_back(cell);
    }
    const Dialogue& dialogue = target.dialogues[p.dialogue];
    const Turn& turn = dialogue.turns[p.turn];
    Record& record = out.records.emplace_back();
    record.cell = keys[p.position];
    record.dialogue = dialogue.id;
    record.turn = p.turn;
    record.answer = p.answer;
    try {
      check_position(dialogue, p.position);
      if (const std::optional<double> score = score_answer(scorer, turn, p.answer)) {
        out.scores.push_back({record.cell, record.dialogue, record.turn, target.cell.metric,
                              target.cell.postprocess, *score});
      }
    } catch (const Error& error) {
      throw Error(error.kind(), fmt::format("{}: {}", p.place, error.what()));
    }
  }
  return out;
}

void store_predictions(Store& store, const ImportedPredictions& imported) {
  const std::vector<std::string> known = store.experiments();
  const bool is_there =
      std::find(known.begin(), known.end(), imported.experiment.name) != known.end();
  if (is_there && store.manifest(imported.experiment.name) == imported.experiment.manifest) {
    for (const Cell& c : store.cells(imported.experiment.name)) {
      for (const Cell& ours : imported.experiment.cells) {
        if (c.key != ours.key && c.method == ours.method && c.model == ours.model &&
            c.dataset == ours.dataset && c.position == ours.position) {
          throw input_error(
              "--label: found {} in {} already, of other predictions, expected another label",
              printable(c.method), store.path());
        }
      }
    }
  }
  store.add_imported(imported.experiment);
  store.add_records(imported.records, imported.scores);
}

}  // namespace turnbench
