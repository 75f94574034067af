#include "datasets/multi_turn.h"

#include <algorithm>
#include <map>

#include "common/error.h"
#include "datasets/chunks.h"
#include "datasets/dialogue_stats.h"
#include "datasets/fill_template.h"
#include "datasets/sample.h"

namespace turnbench {
namespace {

constexpr int kMostTurns = 100;
constexpr std::size_t kMinExamples = 4;
constexpr std::size_t kDefaultDialogues = 500;

using Group = std::vector<const SourceDocument*>;

/// Makes the dialogues of one task; `documents` are all of its usable records.
class MultiTurnBuilder {
 public:
  MultiTurnBuilder(const LongBenchTask& task, std::span<const LongBenchRecord> records,
                   const BuildOptions& options)
      : task_(task),
        options_(options),
        name_("mt-" + std::string(task.name)),
        turns_(static_cast<std::size_t>(options.turns == 0 ? task.turns : options.turns)),
        documents_(split_documents(task, records)) {
    if (options.turns < 0 || options.turns > kMostTurns) {
      throw input_error("{}: found {} turns, expected from 1 to {}", name_, options.turns,
                        kMostTurns);
    }
    const bool examples = task.grouping == Grouping::kExamples;
    const std::size_t least = examples ? std::max(kMinExamples, turns_) : 1;
    std::erase_if(documents_, [&](const SourceDocument& d) { return d.paragraphs.size() < least; });
    if (examples && documents_.empty()) {
      throw input_error("{}: found no record with {} examples or more, expected one", name_, least);
    }
  }

  std::vector<Dialogue> build() {
    std::size_t limit = options_.limit;
    if (limit == 0) {
      const PublishedDataset* published = find_published_dataset(name_);
      limit = published == nullptr ? kDefaultDialogues : published->dialogues;
    }
    std::vector<Dialogue> out;
    for (std::uint64_t round = 0; out.size() < limit && (round == 0 || options_.reuse_records);
         ++round) {
      for (const Group& group : shuffled_groups(round)) {
        if (out.size() == limit) break;
        out.push_back(dialogue_of(group, out.size()));
      }
    }
    return out;
  }

 private:
  static bool alike(const LongBenchRecord& a, const LongBenchRecord& b) {
    return (!a.input.empty() && a.input == b.input) || a.context == b.context;
  }

  static bool any_alike(const Group& group, const SourceDocument& document) {
    return std::any_of(group.begin(), group.end(), [&](const SourceDocument* member) {
      return alike(*member->record, *document.record);
    });
  }

  /// All documents in random order, in groups of distinct documents.  A document that equals a
  /// member of the current group waits for the next group; an incomplete last group is dropped.
  std::vector<Group> shuffled_groups(std::uint64_t round) const {
    const std::size_t size = task_.grouping == Grouping::kExamples ? 1 : turns_;
    Random random = Random::from({options_.seed, seed_of(name_), seed_of("groups"), round});
    Group waiting;
    for (const SourceDocument& document : documents_) waiting.push_back(&document);
    random.shuffle(waiting);
    std::vector<Group> out;
    while (waiting.size() >= size) {
      Group group, later;
      for (const SourceDocument* document : waiting) {
        const bool fits = group.size() < size && !any_alike(group, *document);
        (fits ? group : later).push_back(document);
      }
      waiting = std::move(later);
      if (group.size() < size) break;
      out.push_back(std::move(group));
    }
    if (out.empty()) {
      throw input_error(
          "{}: found {} records, expected at least {} with different questions and contexts", name_,
          documents_.size(), size);
    }
    return out;
  }

  Dialogue dialogue_of(const Group& group, std::size_t index) const {
    Random random = Random::from({options_.seed, seed_of(name_), index});
    return {.id = fmt::format("{}-t{}-s{}-{:04}", name_, turns_, options_.seed, index),
            .dataset = name_,
            .task = std::string(task_.kind),
            .metric = std::string(task_.metric),
            .turns = task_.grouping == Grouping::kExamples ? example_turns(*group.front(), random)
                                                           : record_turns(group, random)};
  }

  /// A turn with the fields that are copied from its record.
  Turn turn_of(const LongBenchRecord& record) const {
    Turn turn;
    turn.instruction = task_.wording.instruction;
    turn.question = record.input;
    turn.references = record.answers;
    turn.classes = record.classes;
    turn.gold = record.answers.front();
    turn.max_new_tokens = task_.max_new_tokens;
    return turn;
  }

  std::vector<Turn> example_turns(const SourceDocument& document, Random& random) const {
    std::vector<Turn> out;
    std::vector<std::string> relevance;
    for (const Chunk& chunk : cut_at_random(document, turns_, random)) {
      Turn turn = turn_of(*document.record);
      if (!out.empty()) turn.instruction = refine_instruction(task_);
      append_chunk(turn.contexts, chunk, "");
      relevance.push_back(chunk.source());
      turn.relevance = relevance;
      out.push_back(std::move(turn));
    }
    return out;
  }

  std::vector<Turn> record_turns(const Group& group, Random& random) const {
    std::vector<std::vector<Chunk>> chunks(turns_);
    std::vector<Turn> out;
    for (std::size_t j = 0; j < turns_; ++j) {
      out.push_back(turn_of(*group[j]->record));
      const std::size_t most = std::min(j + 1, group[j]->paragraphs.size());
      const std::vector<Chunk> parts = cut_at_random(*group[j], 1 + random.below(most), random);
      const std::vector<std::size_t> places =
          sample_without_replacement(j + 1, parts.size(), random);
      for (std::size_t part = 0; part < parts.size(); ++part) {
        chunks[places[part]].push_back(parts[part]);
        out[j].relevance.push_back(parts[part].source());
      }
    }
    add_irrelevant(group, chunks, random);
    const Labels labels = label_documents(group, chunks, random);
    for (std::size_t j = 0; j < turns_; ++j) {
      random.shuffle(chunks[j]);
      for (const Chunk& chunk : chunks[j]) {
        append_chunk(out[j].contexts, chunk, heading_of(chunk, labels));
      }
      out[j].question = question_of(*group[j], labels);
    }
    return out;
  }

  /// Gives each turn consecutive paragraphs of a document outside the group, while there are such.
  void add_irrelevant(const Group& group, std::vector<std::vector<Chunk>>& chunks,
                      Random& random) const {
    if (options_.max_irrelevant_paragraphs == 0) return;
    Group others;
    for (const SourceDocument& document : documents_) {
      if (!any_alike(group, document)) others.push_back(&document);
    }
    random.shuffle(others);
    std::size_t turn = 0;
    for (const SourceDocument* other : others) {
      if (turn == turns_) break;
      const Chunk chunk = short_stretch(*other, random);
      if (chunk.document != nullptr) chunks[turn++].push_back(chunk);
    }
  }

  /// Random consecutive paragraphs within the options' bounds; none (no document) if every
  /// paragraph is too long.
  Chunk short_stretch(const SourceDocument& document, Random& random) const {
    const std::vector<std::size_t>& lengths = document.lengths;
    std::vector<std::size_t> starts;
    for (std::size_t i = 0; i < lengths.size(); ++i) {
      if (lengths[i] <= options_.max_irrelevant_length) starts.push_back(i);
    }
    if (starts.empty()) return {};
    const std::size_t most = 1 + random.below(options_.max_irrelevant_paragraphs);
    Chunk chunk{.document = &document, .first = random.choice(starts)};
    std::size_t length = 0;
    for (chunk.last = chunk.first; chunk.last < lengths.size(); ++chunk.last) {
      length += lengths[chunk.last];
      if (length > options_.max_irrelevant_length || chunk.last - chunk.first == most) break;
    }
    return chunk;
  }

  using Labels = std::map<const LongBenchRecord*, std::string>;

  /// A random letter for every document of the dialogue; empty if questions need none.
  Labels label_documents(const Group& group, const std::vector<std::vector<Chunk>>& chunks,
                         Random& random) const {
    Labels labels;
    if (task_.wording.document_label.empty()) return labels;
    std::vector<const LongBenchRecord*> records;
    for (const SourceDocument* member : group) records.push_back(member->record);
    for (const auto& turn : chunks) {
      for (const Chunk& chunk : turn) {
        if (std::find(records.begin(), records.end(), chunk.document->record) == records.end()) {
          records.push_back(chunk.document->record);
        }
      }
    }
    random.shuffle(records);
    for (std::size_t i = 0; i < records.size(); ++i) {
      labels[records[i]] =
          fill_template(task_.wording.document_label, {{"letter", letters(i)}}, name_);
    }
    return labels;
  }

  /// A, B, ..., Z, AA, AB, ...
  static std::string letters(std::size_t index) {
    std::string out(1, static_cast<char>('A' + index % 26));
    return index < 26 ? out : letters(index / 26 - 1) + out;
  }

  std::string heading_of(const Chunk& chunk, const Labels& labels) const {
    if (labels.empty()) return "";
    return chunk_heading(task_, labels.at(chunk.document->record), chunk.part, chunk.parts);
  }

  std::string question_of(const SourceDocument& document, const Labels& labels) const {
    const LongBenchRecord& record = *document.record;
    const std::string label = labels.empty() ? "" : labels.at(&record);
    return fill_template(record.input.empty() ? task_.wording.default_question
                                              : task_.wording.question_about_document,
                         {{"document", label}, {"input", record.input}}, name_);
  }

  const LongBenchTask& task_;
  const BuildOptions& options_;
  const std::string name_;
  const std::size_t turns_;
  std::vector<SourceDocument> documents_;
};

}  // namespace

std::vector<Dialogue> build_multi_turn(const LongBenchTask& task,
                                       std::span<const LongBenchRecord> records,
                                       const BuildOptions& options) {
  return MultiTurnBuilder(task, records, options).build();
}

}  // namespace turnbench
