#include "dialogue_checks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <set>
#include <sstream>

#include "common/error.h"
#include "common/text.h"
#include "tests/datasets/dialogue_text.h"

namespace turnbench::test {
namespace {

/// Length in words, or in characters for Chinese.
std::size_t length_of(const LongBenchTask& task, const std::string& text) {
  if (task.language == "zh") return to_code_points(text).size();
  std::istringstream words(text);
  return static_cast<std::size_t>(std::distance(std::istream_iterator<std::string>(words),
                                                std::istream_iterator<std::string>()));
}

/// The first paragraph of a chunk without its heading, which identifies the document.
std::string without_heading(const LongBenchTask& task, const std::string& text) {
  if (task.wording.document_label.empty()) return text;
  const std::size_t end = text.find('\n');
  EXPECT_TRUE(text.starts_with("[") || text.starts_with("【")) << text.substr(0, 60);
  return text.substr(end + 1);
}

/// "Report B" of "[Report B, part 1 of 2]".
std::string label_in(const std::string& heading) {
  const bool zh = heading.starts_with("【");
  const std::size_t start = zh ? std::string_view("【").size() : 1;
  const std::size_t end = std::min(heading.find(zh ? "，" : ","), heading.find(zh ? "】" : "]"));
  return heading.substr(start, end - start);
}

}  // namespace

Source parse_source(const std::string& name) {
  const std::size_t hash = name.rfind('#'), dash = name.rfind('-');
  return {name.substr(0, hash), std::stoul(name.substr(hash + 1, dash - hash - 1)),
          std::stoul(name.substr(dash + 1))};
}

std::map<std::string, Placed> placed_chunks(const Dialogue& dialogue) {
  std::map<std::string, Placed> out;
  for (std::size_t t = 0; t < dialogue.turns.size(); ++t) {
    const auto& contexts = dialogue.turns[t].contexts;
    for (std::size_t i = 0; i < contexts.size(); ++i) {
      const bool begins = i == 0 || contexts[i - 1].source != contexts[i].source;
      Placed& placed = out[contexts[i].source];
      EXPECT_TRUE(!begins || placed.texts.empty()) << "in two places: " << contexts[i].source;
      placed.turn = t;
      placed.texts.push_back(contexts[i].text);
    }
  }
  return out;
}

const LongBenchRecord& record_named(const Records& records, const std::string& id) {
  const auto found =
      std::find_if(records.begin(), records.end(), [&](const auto& r) { return r.id == id; });
  if (found == records.end()) throw runtime_error("no record {}", id);
  return *found;
}

void check_dialogue(const LongBenchTask& task, const Records& records, const Dialogue& dialogue,
                    const BuildOptions& options) {
  SCOPED_TRACE(dialogue.id);
  const bool examples = task.grouping == Grouping::kExamples;
  const std::size_t turns = static_cast<std::size_t>(options.turns ? options.turns : task.turns);
  ASSERT_EQ(dialogue.turns.size(), turns);
  EXPECT_EQ(dialogue.dataset, fmt::format("mt-{}", task.name));
  EXPECT_EQ(dialogue.task, task.kind);
  EXPECT_EQ(dialogue.metric, task.metric);
  const auto chunks = placed_chunks(dialogue);
  std::set<std::string> relevant, asked;
  std::map<std::string, std::string> labels;
  for (std::size_t j = 0; j < turns; ++j) {
    const Turn& turn = dialogue.turns[j];
    ASSERT_GE(turn.relevance.size(), 1u);
    ASSERT_LE(turn.relevance.size(), j + 1);
    const LongBenchRecord& record = record_named(records, parse_source(turn.relevance[0]).record);
    EXPECT_TRUE(asked.insert(record.id).second || examples) << "asked twice: " << record.id;
    EXPECT_EQ(turn.references, record.answers);
    EXPECT_EQ(turn.gold, record.answers[0]);
    EXPECT_EQ(turn.classes, record.classes);
    EXPECT_EQ(turn.max_new_tokens, task.max_new_tokens);
    EXPECT_EQ(turn.position, Position::kEnd);
    EXPECT_EQ(turn.instruction,
              examples && j > 0 ? refine_instruction(task) : task.wording.instruction);
    EXPECT_NE(turn.question.find(record.input), std::string::npos);

    // The chunks of the relevance are in order and in different turns, none later than this turn.
    std::string text;
    std::size_t next = 1;
    std::set<std::size_t> places;
    for (const std::string& name : turn.relevance) {
      ASSERT_TRUE(chunks.contains(name)) << name;
      const Source source = parse_source(name);
      const Placed& placed = chunks.at(name);
      EXPECT_EQ(source.record, record.id);
      EXPECT_EQ(source.first, next);
      EXPECT_EQ(source.last + 1 - source.first, placed.texts.size());
      EXPECT_LE(placed.turn, j);
      EXPECT_TRUE(places.insert(placed.turn).second);
      EXPECT_GE(placed.turn, *places.rbegin());
      next = source.last + 1;
      relevant.insert(name);
      for (std::size_t i = 0; i < placed.texts.size(); ++i) {
        text += i == 0 ? without_heading(task, placed.texts[0]) : placed.texts[i];
        text += "\n";
      }
      // The question names the document as its headings do.
      if (!task.wording.document_label.empty()) {
        const std::string heading = placed.texts[0].substr(0, placed.texts[0].find('\n'));
        const std::string label = label_in(heading);
        EXPECT_NE(turn.question.find(label), std::string::npos)
            << heading << " / " << turn.question;
        EXPECT_EQ(labels.emplace(record.id, label).first->second, label);
      }
    }
    // The relevant chunks of a question together are exactly the context.
    if (!examples || j + 1 == turns) {
      EXPECT_EQ(without_space(text), without_space(record.context));
    }
  }
  std::set<std::string> names;
  for (const auto& [id, label] : labels) EXPECT_TRUE(names.insert(label).second) << label;

  // All other chunks are irrelevant: at most one per turn, from other records, within the limits.
  std::set<std::size_t> noisy;
  std::set<std::string> noise_records;
  for (const auto& [name, placed] : chunks) {
    if (relevant.contains(name)) continue;
    const Source source = parse_source(name);
    EXPECT_FALSE(asked.contains(source.record)) << name;
    EXPECT_TRUE(noisy.insert(placed.turn).second);
    EXPECT_TRUE(noise_records.insert(source.record).second);
    EXPECT_LE(placed.texts.size(), options.max_irrelevant_paragraphs);
    EXPECT_EQ(source.last + 1 - source.first, placed.texts.size());
    const std::string context = without_space(record_named(records, source.record).context);
    std::size_t length = 0;
    for (std::size_t i = 0; i < placed.texts.size(); ++i) {
      const std::string text = i == 0 ? without_heading(task, placed.texts[0]) : placed.texts[i];
      EXPECT_NE(context.find(without_space(text)), std::string::npos);
      length += length_of(task, text);
    }
    EXPECT_LE(length, options.max_irrelevant_length);
  }
  EXPECT_TRUE(!examples || noisy.empty());

  // The position of the question does not change the text.
  for (Position position : {Position::kBegin, Position::kMiddle, Position::kEnd}) {
    const Dialogue moved = with_questions_at(dialogue, position);
    EXPECT_EQ(moved.id, dialogue.id);
    for (const Turn& turn : moved.turns) {
      const std::size_t n = turn.contexts.size(), slot = question_index(turn);
      EXPECT_TRUE(position != Position::kBegin || slot == 0);
      EXPECT_TRUE(position != Position::kEnd || slot == n);
      EXPECT_TRUE(position != Position::kMiddle || n < 2 || (slot > 0 && slot < n));
    }
  }
}

}  // namespace turnbench::test
