#include "datasets/catalog.h"

#include "common/error.h"
#include "common/json.h"
#include "common/text.h"
#include "datasets/longbench.h"
#include "datasets/tiny_qa.h"

namespace turnbench {
namespace {

namespace fs = std::filesystem;

/// Official evaluation keeps the first line of an answer to a few-shot prompt.
std::string postprocess_of(const LongBenchTask& task) {
  return task.kind == "few-shot" ? "first_line" : "none";
}

/// LoopServe's metrics where they differ from LongBench's: its Rouge-L is recall, and TREC counts
/// right answers.  Its table lists accuracy for SAMSum, which has no labels: Rouge-L too.
std::string multi_turn_metric(const LongBenchTask& task) {
  if (task.kind == "summary" || task.name == "samsum") return "rouge_l_recall";
  return task.name == "trec" ? "accuracy" : std::string(task.metric);
}

Dataset tiny(TinyTask task, const std::string& description) {
  const auto load = [task](const fs::path&, const BuildOptions& options) {
    TinyOptions tiny;
    tiny.turns = options.turns;
    tiny.seed = options.seed;
    if (options.length > 0) tiny.length = options.length;
    if (options.limit > 0) tiny.count = options.limit;
    return make_tiny_dialogues(task, tiny);
  };
  return {.name = std::string(name_of(task)),
          .description = description,
          .task = std::string(name_of(task)).substr(5),
          .metric = task == TinyTask::kLabel ? "accuracy" : "qa_f1",
          .postprocess = task == TinyTask::kList ? "all_values" : "last_value",
          .collection = "",
          .turns = 2,
          .needs_source = false,
          .load = load};
}

Dataset single_turn(const LongBenchTask& task, const std::string& name) {
  const auto load = [name](const fs::path& source, const BuildOptions& options) {
    if (options.turns > 1) {
      throw input_error("{}: found {} turns, expected 1, or the dataset mt-{}", name, options.turns,
                        name);
    }
    std::vector<Dialogue> out;
    for (const LongBenchRecord& record : read_longbench(source, name)) {
      if (options.limit != 0 && out.size() == options.limit) break;
      out.push_back(longbench_dialogue(name, record));
    }
    return out;
  };
  return {
      .name = name,
      .description = std::string(task.description) + (name == task.name ? "" : " (LongBench-E)"),
      .task = std::string(task.kind),
      .metric = std::string(task.metric),
      .postprocess = postprocess_of(task),
      .collection = "longbench",
      .turns = 1,
      .needs_source = true,
      .load = load};
}

Dataset multi_turn(const LongBenchTask& task) {
  const auto load = [&task](const fs::path& source, const BuildOptions& options) {
    std::vector<Dialogue> out = build_multi_turn(task, read_longbench(source, task.name), options);
    for (Dialogue& d : out) d.metric = multi_turn_metric(task);
    return out;
  };
  return {.name = "mt-" + std::string(task.name),
          .description = std::string(task.description) + ", over several turns",
          .task = std::string(task.kind),
          .metric = multi_turn_metric(task),
          .postprocess = postprocess_of(task),
          .collection = "longbench",
          .turns = task.turns,
          .needs_source = true,
          .load = load};
}

std::vector<Dataset> make_catalog() {
  std::vector<Dataset> out = {
      tiny(TinyTask::kFact, "made-up facts: one fact"),
      tiny(TinyTask::kHop, "made-up facts: two facts, one leading to the other"),
      tiny(TinyTask::kLabel, "made-up facts: a label by examples"),
      tiny(TinyTask::kList, "made-up facts: a week, day by day; long answers")};
  for (const LongBenchTask& task : longbench_tasks()) {
    out.push_back(single_turn(task, std::string(task.name)));
  }
  for (const LongBenchTask& task : longbench_tasks()) {
    if (task.in_e) out.push_back(single_turn(task, std::string(task.name) + "_e"));
  }
  for (const LongBenchTask& task : longbench_tasks()) out.push_back(multi_turn(task));
  return out;
}

}  // namespace

const std::vector<Dataset>& all_datasets() {
  static const std::vector<Dataset> datasets = make_catalog();
  return datasets;
}

const Dataset& find_dataset(std::string_view name, const std::string& where) {
  std::vector<std::string_view> known;
  for (const Dataset& dataset : all_datasets()) {
    if (dataset.name == name) return dataset;
    known.push_back(dataset.name);
  }
  const std::string near = nearest_name(name, known);
  throw input_error("{}: found the dataset \"{}\", expected {}", where,
                    printable(shorten(name, 60)),
                    near.empty() ? "one of: " + join(known, ", ") : "\"" + near + "\"");
}

std::vector<Dialogue> load_dialogues(std::string_view name, const fs::path& source,
                                     const BuildOptions& options) {
  const Dataset& dataset = find_dataset(name, "dataset");
  if (dataset.needs_source && source.empty()) {
    throw input_error("{}: found no source, expected a file or a directory", name);
  }
  return dataset.load(source, options);
}

}  // namespace turnbench
