#include "datasets/catalog.h"

#include "common/error.h"
#include "common/file.h"
#include "common/json.h"
#include "common/text.h"
#include "datasets/custom.h"
#include "datasets/filler.h"
#include "datasets/gsm8k.h"
#include "datasets/infinitebench.h"
#include "datasets/longbench.h"
#include "datasets/longeval.h"
#include "datasets/longmemeval.h"
#include "datasets/multi_turn.h"
#include "datasets/native_sets.h"
#include "datasets/needle_dialogues.h"
#include "datasets/ruler.h"
#include "datasets/sharegpt.h"
#include "datasets/source_file.h"
#include "datasets/squad.h"
#include "datasets/tiny_qa.h"
#include "datasets/word_lists.h"

namespace turnbench {
namespace {

namespace fs = std::filesystem;

constexpr int kGeneratedTurns = 3;      // for the multi-turn variants of generated sets
constexpr int kGeneratedLength = 4000;  // for their dialogues
constexpr std::size_t kGeneratedDialogues = 100;
constexpr int kMostTinyTurns = 3;  // of tiny-* by default: alternately two and three

void require_one_turn(const std::string& name, const BuildOptions& options) {
  if (options.turns <= 1) return;
  throw input_error("{}: found {} turns, expected 1, or the dataset mt-{}", name, options.turns,
                    name);
}

/// Official evaluation uses only the first line of an answer to a few-shot prompt.
std::string postprocess_of(const LongBenchTask& task) {
  return task.kind == "few-shot" ? "first_line" : "none";
}

/// LoopServe's metrics, which partly differ from LongBench's: its Rouge-L is recall, and TREC
/// counts right answers.  Its table lists accuracy for SAMSum, which has no labels, so Rouge-L is
/// used here.
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
    BuildOptions made = options;
    if (made.turns == 0) made.turns = kMostTinyTurns;
    made.length = tiny.length;
    made.limit = tiny.count;
    check_generated(std::string(name_of(task)), made, kMaxTinyTurns, min_turn_length(task));
    return make_tiny_dialogues(task, tiny);
  };
  return {.name = std::string(name_of(task)),
          .description = description,
          .task = std::string(name_of(task)).substr(5),
          .metric = task == TinyTask::kLabel ? "accuracy" : "qa_f1",
          .postprocess = task == TinyTask::kList ? "all_values" : "last_value",
          .collection = "",
          .turns = 2,
          .has_length = true,
          .min_turn_length = min_turn_length(task),
          .load = load};
}

/// A generated set in both forms: NAME with one turn and mt-NAME with several.
void add_generated(std::vector<Dataset>& out, const Dataset& common, const auto& generate) {
  for (const bool several : {false, true}) {
    Dataset dataset = common;
    dataset.has_length = true;
    if (several) {
      dataset.name = "mt-" + common.name;
      dataset.description += ", over several turns";
      dataset.turns = kGeneratedTurns;
    }
    dataset.load = [generate, several, name = dataset.name](const fs::path& source,
                                                            BuildOptions options) {
      if (!several) require_one_turn(name, options);
      if (options.turns == 0) options.turns = several ? kGeneratedTurns : 1;
      if (options.length == 0) options.length = kGeneratedLength;
      if (options.limit == 0) options.limit = kGeneratedDialogues;
      return generate(name, source, options);
    };
    out.push_back(std::move(dataset));
  }
}

void add_needle_dataset(std::vector<Dataset>& out, const NeedleTask& kind) {
  const Dataset common = {.name = std::string(kind.name),
                          .description = std::string(kind.description),
                          .task = std::string(kind.task),
                          .metric = std::string(kind.metric),
                          .collection = kind.in_uuid_pairs ? "" : "essays",
                          .takes_source = !kind.in_uuid_pairs,
                          .min_turn_length = kMinNeedleTurnLength,
                          .has_depth = kind.single_depth};
  add_generated(
      out, common,
      [&kind](const std::string& name, const fs::path& source, const BuildOptions& options) {
        std::vector<std::string> essays;
        if (!source.empty()) essays = read_sentences(source);
        return make_needle_dialogues(kind, name, essays, options);
      });
}

void add_word_lists(std::vector<Dataset>& out, WordListTask task, const std::string& description) {
  const Dataset common = {.name = std::string(name_of(task)),
                          .description = description,
                          .task = "aggregation",
                          .metric = "ruler_match_all",
                          .min_turn_length = kMinListTurnLength};
  add_generated(out, common,
                [task](const std::string& name, const fs::path&, const BuildOptions& options) {
                  return make_word_lists(task, name, options);
                });
}

Dataset single_turn(const LongBenchTask& task, const std::string& name) {
  const auto load = [name](const fs::path& source, const BuildOptions& options) {
    require_one_turn(name, options);
    const std::string prompt = options.official_prompts ? official_prompt(source, name) : "";
    std::vector<Dialogue> out;
    for (const LongBenchRecord& record : read_longbench(source, name)) {
      if (options.limit != 0 && out.size() == options.limit) break;
      out.push_back(prompt.empty() ? longbench_dialogue(name, record)
                                   : official_dialogue(name, record, prompt));
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
      .files = longbench_files(name),
      .turns = 1,
      .needs_source = true,
      .takes_source = true,
      .has_official_prompts = true,
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
          .files = longbench_files(task.name),
          .turns = task.turns,
          .needs_source = true,
          .takes_source = true,
          .load = load};
}

void add_longeval(std::vector<Dataset>& out) {
  out.push_back(
      native_dataset({.name = "longeval-topics",
                      .description = "first of several discussed topics",
                      .task = "retrieval",
                      .metric = "ruler_match_all",
                      .collection = "longeval",
                      .files = {"topics/5_topics.jsonl"}},
                     [](const fs::path& file, const std::string& name, const BuildOptions& o) {
                       return read_longeval_topics(file, name, o.limit);
                     }));
  out.push_back(
      native_dataset({.name = "longeval-lines",
                      .description = "number in one of many lines",
                      .task = "retrieval",
                      .metric = "gsm8k",
                      .collection = "longeval",
                      .files = {"lines/200_lines.jsonl"}},
                     [](const fs::path& file, const std::string& name, const BuildOptions& o) {
                       return read_longeval_lines(file, name, o.limit);
                     }));
  out.push_back(native_dataset({.name = "longeval-summary",
                                .description = "summaries of two of three discussed topics",
                                .task = "summary",
                                .metric = "rouge_l_recall",
                                .collection = "longeval",
                                .files = {"topics/conversations.jsonl"}},
                               make_longeval_summaries));
}

void add_ruler(std::vector<Dataset>& out, const RulerTask& task) {
  out.push_back(
      native_dataset({.name = fmt::format("ruler-{}", task.name),
                      .description = fmt::format("{} (RULER)", task.description),
                      .task = std::string(task.kind),
                      .metric = std::string(task.metric),
                      .collection = "ruler",
                      .files = ruler_files(task)},
                     [&task](const fs::path& file, const std::string& name, const BuildOptions& o) {
                       return read_ruler(file, task, name, o.limit);
                     }));
}

void add_infinitebench(std::vector<Dataset>& out, const InfiniteBenchTask& task) {
  out.push_back(
      native_dataset({.name = fmt::format("infinitebench-{}", task.name),
                      .description = fmt::format("{} (InfiniteBench)", task.description),
                      .task = std::string(task.kind),
                      .metric = fmt::format("infinitebench_{}", task.name),
                      .collection = "infinitebench",
                      .files = {fmt::format("{}.jsonl", task.name)}},
                     [&task](const fs::path& file, const std::string& name, const BuildOptions& o) {
                       return read_infinitebench(file, task, name, o.limit);
                     }));
}

void add_gsm8k(std::vector<Dataset>& out) {
  const Dataset plain = {.name = "gsm8k",
                         .description = "grade school mathematics",
                         .task = "reasoning",
                         .metric = "gsm8k",
                         .collection = "gsm8k",
                         .files = {"test.jsonl"}};
  out.push_back(native_dataset(
      plain, [](const fs::path& file, const std::string& name, const BuildOptions& o) {
        return read_gsm8k(file, "", name, o.limit);
      }));
  Dataset with_examples = plain;
  with_examples.name = "gsm8k-cot";
  with_examples.description += ", with worked examples";
  with_examples.files = {"gsm8k_cot_prompt_formal.txt"};
  out.push_back(native_dataset(
      with_examples, [](const fs::path& examples, const std::string& name, const BuildOptions& o) {
        return read_gsm8k(examples.parent_path() / "test.jsonl", examples, name, o.limit);
      }));
}

using MakeFromPassages = std::vector<Dialogue> (*)(const fs::path& file, const std::string& name,
                                                   BuildOptions options);

Dataset of_passages(const std::string& name, const std::string& description,
                    const std::string& collection, const std::vector<std::string>& files,
                    MakeFromPassages make) {
  return {.name = name,
          .description = description,
          .task = "qa",
          .metric = "qa_f1",
          .collection = collection,
          .files = files,
          .turns = kPassageTurns,
          .needs_source = true,
          .takes_source = true,
          .has_length = true,
          .min_turn_length = kMinPassageTurnLength,
          .load = [=](const fs::path& source, const BuildOptions& options) {
            return make(find_source_file(source, files), name, options);
          }};
}

void add_passages(std::vector<Dataset>& out) {
  out.push_back(of_passages("mt-squad", "SQuAD's questions, over several turns", "squad",
                            {"squad.json", "dev-v1.1.json", "dev-v2.0.json"},
                            make_squad_dialogues));
  out.push_back(of_passages("mt-hotpotqa-distractor", "HotpotQA's questions, over several turns",
                            "hotpotqa", {"hotpotqa.json", "hotpot_dev_distractor_v1.json"},
                            make_hotpotqa_dialogues));
}

void add_longmemeval(std::vector<Dataset>& out, const std::string& variant,
                     const std::string& description) {
  out.push_back(
      native_dataset({.name = "longmemeval-" + variant,
                      .description = description,
                      .task = "memory",
                      .metric = "qa_f1",
                      .collection = "longmemeval",
                      .files = {fmt::format("longmemeval_{}.json", variant),
                                fmt::format("longmemeval_{}_cleaned.json", variant)}},
                     [](const fs::path& file, const std::string& name, const BuildOptions& o) {
                       return read_longmemeval(file, name, o.limit);
                     }));
  Dataset replayed = out.back();
  replayed.name = "mt-" + replayed.name;
  replayed.description = description + ", turn by turn";
  out.push_back(native_dataset(
      replayed, [](const fs::path& file, const std::string& name, const BuildOptions& o) {
        return read_longmemeval(file, name, o.limit, ChatForm::kReplayed);
      }));
}

void add_sharegpt(std::vector<Dataset>& out, const std::string& name, RoundRange rounds,
                  const std::string& description) {
  out.push_back(native_dataset(
      {.name = name,
       .description = description,
       .task = "chat",
       .metric = "rouge_l_recall",
       .collection = "sharegpt",
       .files = {"sharegpt.jsonl", "sharegpt.json", "ShareGPT_V3_unfiltered_cleaned_split.json"}},
      [rounds](const fs::path& file, const std::string& set, const BuildOptions& o) {
        return read_sharegpt(file, set, o.limit, rounds);
      }));
}

Dataset custom() {
  Dataset out =
      native_dataset({.name = "jsonl",
                      .description = "custom dialogues, one per line",
                      .task = "custom",
                      .metric = "qa_f1",
                      .collection = "jsonl",
                      .files = {"dialogues.jsonl"}},
                     [](const fs::path& file, const std::string& name, const BuildOptions& o) {
                       return read_custom(file, o.fields, name, o.limit);
                     });
  out.has_fields = true;
  return out;
}

std::vector<Dataset> make_catalog() {
  std::vector<Dataset> out = {
      tiny(TinyTask::kFact, "generated facts: single facts"),
      tiny(TinyTask::kHop, "generated facts: two-hop facts"),
      tiny(TinyTask::kLabel, "generated facts: few-shot labels"),
      tiny(TinyTask::kList, "generated facts: a week, day by day; long answers")};
  for (const NeedleTask& kind : needle_tasks()) add_needle_dataset(out, kind);
  add_word_lists(out, WordListTask::kCommon, "ten most common words of a long list");
  add_word_lists(out, WordListTask::kFrequent,
                 "three most frequent words of a long list of generated words");
  for (const LongBenchTask& task : longbench_tasks()) {
    out.push_back(single_turn(task, std::string(task.name)));
  }
  for (const LongBenchTask& task : longbench_tasks()) {
    if (task.in_longbench_e) out.push_back(single_turn(task, std::string(task.name) + "_e"));
  }
  for (const LongBenchTask& task : longbench_tasks()) out.push_back(multi_turn(task));
  add_longeval(out);
  for (const RulerTask& task : ruler_tasks()) add_ruler(out, task);
  for (const InfiniteBenchTask& task : infinitebench_tasks()) add_infinitebench(out, task);
  add_gsm8k(out);
  add_passages(out);
  add_longmemeval(out, "oracle",
                  "questions about earlier chats, given the chats with the answer only");
  add_longmemeval(out, "s", "questions about some 50 earlier chats");
  add_longmemeval(out, "m", "questions about some 500 earlier chats");
  add_sharegpt(out, "sharegpt", {}, "chats of several turns, as recorded");
  // Round Attention's classes.
  add_sharegpt(out, "sharegpt-mini", {1, 10}, "chats of up to 10 turns");
  add_sharegpt(out, "sharegpt-small", {11, 30}, "chats of 11 to 30 turns");
  add_sharegpt(out, "sharegpt-medium", {31, 50}, "chats of 31 to 50 turns");
  add_sharegpt(out, "sharegpt-large", {51, 100}, "chats of 51 to 100 turns");
  add_question_datasets(out);
  out.push_back(custom());
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
  throw input_error("{}: found the dataset \"{}\", expected {}", where,
                    printable(shorten(name, 60)), nearest_or_listed(name, known, "datasets"));
}

bool has_file(const Dataset& dataset, const fs::path& source) {
  if (!path_exists(source)) return false;
  try {
    find_source_file(source, dataset.files);
    return true;
  } catch (const Error&) {
    return false;
  }
}

std::vector<Dialogue> load_dialogues(std::string_view name, const fs::path& source,
                                     const BuildOptions& options) {
  const Dataset& dataset = find_dataset(name, "dataset");
  if (dataset.needs_source && source.empty()) {
    throw input_error("{}: found no source, expected a file or a directory", name);
  }
  if (!dataset.takes_source && !source.empty()) {
    throw input_error("{}: found the source \"{}\", expected none: it is generated", name,
                      printable(source.string()));
  }
  if (!dataset.has_length && options.length > 0) {
    throw input_error("{}: found the length {}, expected none: it is read from files", name,
                      options.length);
  }
  if (!dataset.has_depth && options.depth) {
    throw input_error(
        "{}: found the depth {}, expected none: the dataset has no single place to choose", name,
        *options.depth);
  }
  if (!dataset.has_fields && !options.fields.empty()) {
    throw input_error("{}: found names of fields, expected none: its files have their own", name);
  }
  if (!dataset.has_official_prompts && options.official_prompts) {
    throw input_error(
        "{}: found official prompts, expected none: only LongBench's single-turn tasks "
        "and LongBench v2 have them",
        name);
  }
  if (!dataset.has_question_ids && !options.leave_out.empty()) {
    throw input_error(
        "{}: found questions to leave out, expected none: only LoCoMo's and REALTALK's datasets "
        "have ids of questions",
        name);
  }
  return dataset.load(source, options);
}

}  // namespace turnbench
