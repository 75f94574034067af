#include "datasets/qmsum.h"

#include <charconv>

#include "common/error.h"
#include "common/text.h"
#include "datasets/jsonl.h"
#include "datasets/paragraphs.h"

namespace turnbench {
namespace {

constexpr int kQmSumAnswerTokens = 512;  // as for LongBench's summaries of the same meetings

/// The paragraphs of a meeting, and the paragraph of each utterance.
struct Transcript {
  std::vector<Paragraph> paragraphs;
  std::vector<std::size_t> paragraph_of;
};

Transcript transcript_of(const JsonView& view) {
  Transcript out;
  std::vector<std::size_t> first;  // utterance of each paragraph
  for (const JsonView& item : view.items()) {
    item.require_known_keys({"speaker", "content"});
    const std::string line =
        fmt::format("{}: {}", item.at("speaker").as_string(), trim(item.at("content").as_string()));
    if (out.paragraphs.empty() || out.paragraphs.back().text.size() >= kShortParagraph) {
      first.push_back(out.paragraph_of.size());
      out.paragraphs.push_back({"", line});
    } else {
      out.paragraphs.back().text += "\n" + line;
    }
    out.paragraph_of.push_back(out.paragraphs.size() - 1);
  }
  if (out.paragraphs.empty()) view.fail("at least one utterance");
  first.push_back(out.paragraph_of.size());
  for (std::size_t i = 0; i < out.paragraphs.size(); ++i) {
    out.paragraphs[i].source = fmt::format("utterances-{}-{}", first[i], first[i + 1] - 1);
  }
  return out;
}

/// The number of an utterance, which the files store as text.
std::size_t utterance_of(const JsonView& view, std::size_t count) {
  const std::string text = view.as_string();
  std::size_t out = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  if (error != std::errc() || end != text.data() + text.size() || out >= count) {
    view.fail(fmt::format("the number of an utterance, below {}", count));
  }
  return out;
}

/// Sources of the paragraphs that overlap the spans, in order.
std::vector<std::string> touched(const JsonView& spans, const Transcript& transcript) {
  std::vector<bool> marked(transcript.paragraphs.size());
  for (const JsonView& span : spans.items()) {
    if (span.size() != 2) span.fail("the first and the last utterance");
    const std::size_t count = transcript.paragraph_of.size();
    const std::size_t from = utterance_of(span[0], count), to = utterance_of(span[1], count);
    if (from > to) span.fail("the first utterance before the last");
    for (std::size_t i = from; i <= to; ++i) marked[transcript.paragraph_of[i]] = true;
  }
  std::vector<std::string> out;
  for (std::size_t i = 0; i < marked.size(); ++i) {
    if (marked[i]) out.push_back(transcript.paragraphs[i].source);
  }
  return out;
}

Turn turn_of(const JsonView& view, std::vector<std::string> relevance) {
  Turn turn;
  turn.question = view.at("query").as_string();
  if (trim(turn.question).empty()) view.at("query").fail("a query");
  turn.references = {view.at("answer").as_string()};
  if (trim(turn.references[0]).empty()) view.at("answer").fail("an answer");
  turn.gold = turn.references[0];
  turn.relevance = std::move(relevance);
  turn.max_new_tokens = kQmSumAnswerTokens;
  return turn;
}

std::vector<Turn> turns_of(const JsonView& view, MeetingQueries queries) {
  Transcript transcript = transcript_of(view.at("meeting_transcripts"));
  std::vector<std::string> all;
  for (const Paragraph& p : transcript.paragraphs) all.push_back(p.source);
  std::vector<Turn> out;
  for (const JsonView& item : view.at("general_query_list").items()) {
    item.require_known_keys({"query", "answer"});
    Turn turn = turn_of(item, all);
    if (queries != MeetingQueries::kSpecific) out.push_back(std::move(turn));
  }
  for (const JsonView& item : view.at("specific_query_list").items()) {
    item.require_known_keys({"query", "answer", "relevant_text_span"});
    Turn turn = turn_of(item, touched(item.at("relevant_text_span"), transcript));
    if (queries != MeetingQueries::kGeneral) out.push_back(std::move(turn));
  }
  if (out.empty()) return out;
  out[0].instruction = "The following is the transcript of a meeting. Answer in a few sentences.";
  out[0].contexts = std::move(transcript.paragraphs);
  return out;
}

}  // namespace

std::vector<Dialogue> read_qmsum(const std::filesystem::path& file, MeetingQueries queries,
                                 const std::string& name, std::size_t limit) {
  std::vector<Dialogue> out;
  std::size_t meetings = 0;
  for_each_json_line(file, [&](const JsonView& view) {
    if (limit != 0 && out.size() == limit) return;
    view.require_known_keys(
        {"topic_list", "general_query_list", "specific_query_list", "meeting_transcripts"});
    std::vector<Turn> turns = turns_of(view, queries);
    ++meetings;
    if (turns.empty()) return;
    out.push_back({.id = fmt::format("{}-{:03}", name, meetings),
                   .dataset = name,
                   .task = "summary",
                   .metric = "rouge_score_l",
                   .turns = std::move(turns)});
  });
  return out;
}

}  // namespace turnbench
