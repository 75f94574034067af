#include "datasets/native_sets.h"

#include "common/error.h"
#include "datasets/leval.h"
#include "datasets/locomo.h"
#include "datasets/longbench_v2.h"
#include "datasets/longbench_write.h"
#include "datasets/mt_bench.h"
#include "datasets/qmsum.h"
#include "datasets/realtalk.h"
#include "datasets/scbench.h"
#include "datasets/source_file.h"

namespace turnbench {
namespace {

namespace fs = std::filesystem;

/// Reads the dialogues of a set, one per document.
using ReadDocuments = std::function<std::vector<Dialogue>(
    const fs::path& file, const std::string& name, std::size_t limit)>;

/// Adds both forms of a set with several questions per document.
void add_documents(std::vector<Dataset>& out, const Dataset& common, const ReadDocuments& read) {
  out.push_back(native_dataset(
      common, [read](const fs::path& file, const std::string& name, const BuildOptions& o) {
        return split_into_single_turns(read(file, name, o.limit), o.limit);
      }));
  Dataset several = common;
  several.name = "mt-" + common.name;
  several.description += ", over several turns";
  out.push_back(
      native_dataset(several, [read](const fs::path& file, const std::string& name,
                                     const BuildOptions& o) { return read(file, name, o.limit); }));
}

void add_longbench_write(std::vector<Dataset>& out, const std::string& name,
                         const std::string& file, const std::string& description) {
  out.push_back(
      native_dataset({.name = name,
                      .description = description,
                      .task = "writing",
                      .metric = "longbench_write_length",
                      .collection = "longbench_write",
                      .files = {file, "evaluation/" + file}},
                     [](const fs::path& path, const std::string& set, const BuildOptions& o) {
                       return read_longbench_write(path, set, o.limit);
                     }));
}

void add_longbench_v2(std::vector<Dataset>& out, const LongBenchV2Set& set) {
  Dataset dataset = {.name = fmt::format("longbench-v2{}", set.suffix),
                     .description = fmt::format("{} (LongBench v2)", set.description),
                     .task = "qa",
                     .metric = "longbench_v2",
                     .collection = "longbench_v2",
                     .files = {"data.json"}};
  dataset.has_official_prompts = true;
  out.push_back(native_dataset(
      dataset, [&set](const fs::path& file, const std::string& name, const BuildOptions& o) {
        return read_longbench_v2(file, set, name, o.limit,
                                 o.official_prompts ? load_longbench_v2_prompt(file) : "");
      }));
}

void add_qmsum(std::vector<Dataset>& out, const std::string& name, MeetingQueries queries,
               const std::string& domain, const std::string& description) {
  add_documents(
      out,
      {.name = "qmsum-" + name,
       .description = description + " (QMSum)",
       .task = "summary",
       .metric = "rouge_score_l",
       .collection = "qmsum",
       .files = {fmt::format("{}_test.jsonl", domain), fmt::format("{}/jsonl/test.jsonl", domain),
                 fmt::format("data/{}/jsonl/test.jsonl", domain)}},
      [queries](const fs::path& file, const std::string& set, std::size_t limit) {
        return read_qmsum(file, queries, set, limit);
      });
}

void add_mt_bench(std::vector<Dataset>& out, bool referenced) {
  out.push_back(native_dataset(
      {.name = referenced ? "mtbench-reference" : "mtbench",
       .description = referenced ? "questions of two turns that have a reference"
                                 : "questions of two turns, most without a reference: no scores",
       .task = "chat",
       .metric = "qa_f1",
       .collection = "mt_bench",
       .files = {"question.jsonl", "data/mt_bench/question.jsonl"}},
      [referenced](const fs::path& file, const std::string& name, const BuildOptions& o) {
        return read_mt_bench(file, referenced, name, o.limit);
      }));
}

void add_leval(std::vector<Dataset>& out, const LEvalTask& task) {
  add_documents(out,
                {.name = fmt::format("leval-{}", task.name),
                 .description = fmt::format("{} (L-Eval)", task.description),
                 .task = std::string(task.kind),
                 .metric = std::string(task.metric),
                 .collection = "leval",
                 .files = leval_files(task)},
                [&task](const fs::path& file, const std::string& name, std::size_t limit) {
                  return read_leval(file, task, name, limit);
                });
}

void add_scbench(std::vector<Dataset>& out, const SCBenchTask& task) {
  add_documents(out,
                {.name = fmt::format("scbench-{}", task.name),
                 .description = fmt::format("{} (SCBench)", task.description),
                 .task = std::string(task.kind),
                 .metric = std::string(task.metric),
                 .collection = "scbench",
                 .files = {fmt::format("scbench_{}.jsonl", task.name),
                           fmt::format("data/scbench_{}.jsonl", task.name)}},
                [&task](const fs::path& file, const std::string& name, std::size_t limit) {
                  return read_scbench(file, task, name, limit);
                });
}

/// The dataset with its loader, which calls `read` with the source.
Dataset source_dataset(Dataset dataset, const ReadFile& read, bool takes_turns = false) {
  dataset.needs_source = dataset.takes_source = true;
  dataset.turns = 0;
  dataset.load = [=, name = dataset.name](const fs::path& source, const BuildOptions& options) {
    if (options.turns != 0 && !takes_turns) {
      throw input_error("{}: found {} turns, expected none: its records have their own", name,
                        options.turns);
    }
    return read(source, name, options);
  };
  return dataset;
}

using ReadMemory = std::vector<Dialogue> (*)(const fs::path& source, const MemoryCategory& category,
                                             MemoryForm form, const std::string& name,
                                             const BuildOptions& options);

/// Adds both forms of a category of LoCoMo or REALTALK.
void add_memory(std::vector<Dataset>& out, const MemoryCategory& category,
                const std::string& collection, const std::string& title,
                const std::vector<std::string>& files, ReadMemory read) {
  for (const MemoryForm form : {MemoryForm::kSingleTurn, MemoryForm::kConversation}) {
    const bool several = form == MemoryForm::kConversation;
    Dataset dataset = {
        .name = fmt::format("{}{}-{}", several ? "mt-" : "", collection, category.name),
        .description = fmt::format("{} ({}){}", category.description, title,
                                   several ? ", over several turns" : ""),
        .task = "memory",
        .metric = std::string(category.metric),
        .collection = collection,
        .files = files};
    dataset.has_question_ids = true;
    out.push_back(source_dataset(
        dataset,
        [&category, form, read](const fs::path& source, const std::string& name,
                                const BuildOptions& o) {
          return read(source, category, form, name, o);
        },
        several));
  }
}

void add_locomo(std::vector<Dataset>& out) {
  for (const MemoryCategory& category : locomo_categories())
    add_memory(out, category, "locomo", "LoCoMo", locomo_files(), read_locomo);
}

void add_realtalk(std::vector<Dataset>& out) {
  for (const MemoryCategory& category : realtalk_categories())
    add_memory(out, category, "realtalk", "REALTALK", realtalk_files(), read_realtalk);
}

}  // namespace

Dataset native_dataset(Dataset dataset, const ReadFile& read) {
  return source_dataset(
      dataset, [read, files = dataset.files](const fs::path& source, const std::string& name,
                                             const BuildOptions& options) {
        return read(find_source_file(source, files), name, options);
      });
}

void add_question_datasets(std::vector<Dataset>& out) {
  add_longbench_write(out, "longbench-write", "longbench_write.jsonl",
                      "texts of a requested length, up to 20,000 words");
  add_longbench_write(out, "longbench-write-en", "longbench_write_en.jsonl",
                      "texts of a requested length, English only");
  for (const LongBenchV2Set& set : longbench_v2_sets()) add_longbench_v2(out, set);
  add_qmsum(out, "general", MeetingQueries::kGeneral, "ALL", "summaries of meetings");
  add_qmsum(out, "specific", MeetingQueries::kSpecific, "ALL", "queries on parts of meetings");
  for (const char* domain : {"Academic", "Committee", "Product"}) {
    std::string name = domain;
    name[0] = static_cast<char>(name[0] - 'A' + 'a');
    add_qmsum(out, name, MeetingQueries::kAll, domain, fmt::format("all queries, {}", name));
  }
  for (const LEvalTask& task : leval_tasks()) add_leval(out, task);
  add_locomo(out);
  add_realtalk(out);
  add_mt_bench(out, false);
  add_mt_bench(out, true);
  for (const SCBenchTask& task : scbench_tasks()) add_scbench(out, task);
}

}  // namespace turnbench
