#include "datasets/locomo.h"

#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "common/error.h"
#include "common/file.h"
#include "common/json.h"
#include "common/python_text.h"
#include "common/random.h"
#include "common/text.h"
#include "datasets/source_file.h"

namespace turnbench {
namespace {

constexpr int kLocomoAnswerTokens = 32;  // as in the official code for GPT models

constexpr int kTemporal = 2, kOpenDomain = 3, kAdversarial = 5;

constexpr MemoryCategory kLocomoCategories[] = {
    {1, "multi-hop", "answers from several sessions of a conversation", "locomo_multi_hop"},
    {kTemporal, "temporal", "times of events in a conversation", "locomo_f1"},
    {kOpenDomain, "open-domain", "conclusions from a conversation and general knowledge",
     "locomo_f1"},
    {4, "single-hop", "facts from one session of a conversation", "locomo_f1"},
    {kAdversarial, "adversarial", "questions that a conversation does not answer",
     "locomo_adversarial"},
};

constexpr std::string_view kNotMentioned = "Not mentioned in the conversation";

/// Adds the options to an adversarial question.  `wrong` is the wrong answer.
void add_missing_option(Turn& turn, const std::string& wrong, std::string_view id) {
  const bool first = Random::from({seed_of(id)}).below(2) == 0;
  turn.question += fmt::format("\nOptions: (a) {} (b) {}", first ? kNotMentioned : wrong,
                               first ? wrong : kNotMentioned);
  turn.references = {std::string(kNotMentioned), first ? "(a)" : "(b)"};
  // The official evaluation compares texts only, and some of the wrong answers contain the phrase.
  const std::string text = python::lower(wrong);
  if (python::contains(text, "not mentioned") || python::contains(text, "no information available"))
    turn.references.emplace_back(first ? "(b)" : "(a)");
}

Turn locomo_turn(const JsonView& view, int category, const std::string& id,
                 std::span<const Paragraph> messages) {
  Turn turn;
  turn.question = question_text(view);
  turn.relevance = evidence_of(view.at("evidence"), messages);
  turn.max_new_tokens = kLocomoAnswerTokens;
  if (category == kAdversarial) {
    const char* key = view.has("answer") ? "answer" : "adversarial_answer";
    add_missing_option(turn, answer_text(view.at(key)), id);
  } else {
    std::string answer = answer_text(view.at("answer"));
    if (category == kOpenDomain) answer = trim(answer.substr(0, answer.find(';')));
    if (answer.empty()) view.at("answer").fail("an answer before \";\"");
    if (category == kTemporal)
      turn.question += " Use the dates of the sessions; an approximate date is enough.";
    turn.references = {std::move(answer)};
  }
  turn.gold = turn.references.front();
  return turn;
}

std::string instruction_of(const JsonView& conversation, int category) {
  return fmt::format(
      "The following text is a conversation between {} and {} over several months. Each session "
      "begins with its date. {}",
      conversation.at("speaker_a").as_string(), conversation.at("speaker_b").as_string(),
      category == kAdversarial ? "Answer the question with the right option."
                               : "Answer the question with a short phrase, if possible in the "
                                 "words of the conversation.");
}

}  // namespace

std::span<const MemoryCategory> locomo_categories() {
  return kLocomoCategories;
}

std::vector<std::string> locomo_files() {
  return {"locomo10.json", "data/locomo10.json"};
}

std::vector<Dialogue> read_locomo(const std::filesystem::path& source,
                                  const MemoryCategory& category, MemoryForm form,
                                  const std::string& name, const BuildOptions& options) {
  const std::filesystem::path file = find_source_file(source, locomo_files());
  const Json json = parse_json(read_file(file), file.string());
  LeftOutQuestions left_out(options.leave_out);
  std::vector<MemoryConversation> out;
  std::set<std::string> ids;
  for (const JsonView& view : JsonView(json, file.string()).items()) {
    view.require_known_keys(
        {"sample_id", "conversation", "qa", "event_summary", "observation", "session_summary"});
    MemoryConversation read;
    read.id = view.at("sample_id").as_string();
    if (read.id.empty() || !ids.insert(read.id).second) view.at("sample_id").fail("a unique id");
    const JsonView conversation = view.at("conversation");
    for (const std::string& key : conversation.keys()) {
      if (!is_session_key(key) && key != "speaker_a" && key != "speaker_b")
        conversation.at(key).fail("no such key");
    }
    read.instruction = instruction_of(conversation, category.number);
    read.messages = read_sessions(conversation, "text", {"img_url", "query", "re-download"});
    std::size_t index = 0;
    for (const JsonView& qa : view.at("qa").items()) {
      qa.require_known_keys({"question", "answer", "evidence", "category", "adversarial_answer"});
      const auto number = static_cast<int>(qa.at("category").as_integer(1, kAdversarial));
      const std::string id = fmt::format("{}_qa{}", read.id, index);
      const bool by_sample = left_out.contains(id),
                 by_place = left_out.contains(fmt::format("locomo_{}_qa{}", ids.size() - 1, index));
      ++index;
      if (by_sample || by_place || number != category.number) continue;
      read.questions.push_back({id, locomo_turn(qa, number, id, read.messages)});
    }
    out.push_back(std::move(read));
  }
  left_out.require_found(file.string());
  return memory_dialogues(out, form, name, category.metric, options);
}

}  // namespace turnbench
