#include "datasets/leval.h"

#include <algorithm>

#include "common/error.h"
#include "common/text.h"
#include "datasets/jsonl.h"

namespace turnbench {
namespace {

constexpr std::string_view kClosed = "Closed-ended-tasks", kOpen = "Open-ended-tasks";
constexpr int kLEvalAnswerTokens = 512;       // of the official LEval_config.py
constexpr std::string_view kFact = "[fact:";  // true outside the document

constexpr std::string_view kOneOption =
    "Answer the question about the following document. Reply with the letter of the right option "
    "only.";

// name, folder, description, kind, evaluation, metric, answer, flow, instruction
constexpr LEvalTask kLEvalTasks[] = {
    {"coursera", kClosed, "questions on lectures, several options may be right", "qa", "exam",
     "leval_letters", LEvalAnswer::kLetters, SplitRule::kProse,
     "Answer the question about the following document. One option or several are right. Reply "
     "with their letters only, like A or AB."},
    {"quality", kClosed, "questions on stories, with four options", "qa", "exam", "leval_letter",
     LEvalAnswer::kLetters, SplitRule::kProse, kOneOption},
    {"tpo", kClosed, "questions on lectures, with four options", "qa", "exam", "leval_letter",
     LEvalAnswer::kLetters, SplitRule::kProse, kOneOption},
    {"gsm100", kClosed, "grade school mathematics, with many worked examples", "reasoning", "exam",
     "gsm8k", LEvalAnswer::kWords, SplitRule::kProse,
     "Solve the last problem like the examples. End with \"The answer is\" and the number."},
    {"codeU", kClosed, "result of a call in a large code base", "code", "exam", "leval_code",
     LEvalAnswer::kWords, SplitRule::kCode,
     "Read the following code and its comments. Reply with what the call at the end gives."},
    {"sci_fi", kClosed, "statements on science fiction, true or false", "qa", "exam", "accuracy",
     LEvalAnswer::kTruth, SplitRule::kProse,
     "Is the statement true or false in the following story? Go by the story alone. Reply with "
     "True or False."},
    {"topic_retrieval_longchat", kClosed, "first, second and third of the discussed topics",
     "retrieval", "exam", "leval_stated", LEvalAnswer::kWords, SplitRule::kLines,
     "The following is a record of our conversations on several topics."},
    {"financial_qa", kOpen, "questions on earnings calls", "qa", "f1", "qa_f1"},
    {"legal_contract_qa", kOpen, "questions on contracts", "qa", "f1", "qa_f1"},
    {"multidoc_qa", kOpen, "questions on several documents, from talks", "qa", "f1", "qa_f1"},
    {"narrative_qa", kOpen, "questions on novels and scripts", "qa", "f1", "qa_f1"},
    {"natural_question", kOpen, "questions on encyclopedia pages", "qa", "f1", "qa_f1"},
    {"scientific_qa", kOpen, "questions on papers", "qa", "f1", "qa_f1"},
    {"gov_report_summ", kOpen, "summaries of government reports", "summary", "rouge",
     "rouge_score_l"},
    {"meeting_summ", kOpen, "summaries of meetings that answer a query", "summary", "rouge",
     "rouge_score_l", LEvalAnswer::kText, SplitRule::kLines},
    {"news_summ", kOpen, "summaries of several news articles", "summary", "rouge", "rouge_score_l"},
    {"paper_assistant", kOpen, "sections and reviews of papers", "summary", "rouge",
     "rouge_score_l"},
    {"patent_summ", kOpen, "summaries of patents", "summary", "rouge", "rouge_score_l"},
    {"review_summ", kOpen, "summaries of reviews of a hotel", "summary", "rouge", "rouge_score_l"},
    {"tv_show_summ", kOpen, "summaries of scripts of a series", "summary", "rouge", "rouge_score_l",
     LEvalAnswer::kText, SplitRule::kLines},
};

/// The letters from A to D in the first word, in this order.
std::string letters_of(const JsonView& output) {
  const std::string text = trim(output.as_string());
  std::string out;
  for (char c : text.substr(0, text.find_first_of(" \t\n\r\f\v"))) {
    if (c >= 'A' && c <= 'D') out += c;
  }
  if (out.empty()) output.fail("letters from A to D");
  return out;
}

Turn turn_of(const JsonView& instruction, const JsonView& output, const LEvalTask& task) {
  Turn turn;
  turn.question = trim(instruction.as_string());
  if (turn.question.empty()) instruction.fail("a question");
  std::string answer = output.as_string();
  switch (task.answer) {
    case LEvalAnswer::kText:
      turn.question += fmt::format("\nAnswer in about {} words.", count_words(answer));
      break;
    case LEvalAnswer::kLetters:
      answer = letters_of(output);
      break;
    case LEvalAnswer::kWords:
      answer = trim(answer);
      break;
    case LEvalAnswer::kTruth:
      answer = trim(answer.substr(0, answer.find(kFact)));
      if (answer != "True" && answer != "False") output.fail("True or False, and a fact");
      turn.classes = {"True", "False"};
  }
  if (trim(answer).empty()) output.fail("an answer");
  turn.references = {answer};
  turn.gold = std::move(answer);
  turn.relevance = {"document"};
  turn.max_new_tokens = kLEvalAnswerTokens;
  return turn;
}

std::vector<Turn> turns_of(const JsonView& view, const LEvalTask& task) {
  const std::vector<JsonView> instructions = view.at("instructions").items();
  const std::vector<JsonView> outputs = view.at("outputs").items();
  if (instructions.empty()) view.at("instructions").fail("at least one instruction");
  if (outputs.size() != instructions.size()) {
    view.at("outputs").fail(
        fmt::format("as many outputs as instructions ({})", instructions.size()));
  }
  std::vector<Turn> out;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    out.push_back(turn_of(instructions[i], outputs[i], task));
  }
  out[0].instruction = task.instruction;
  for (std::string& text : split_context(view.at("input").as_string(), {.split = task.split})) {
    out[0].contexts.push_back({"document", std::move(text)});
  }
  if (out[0].contexts.empty()) view.at("input").fail("a document");
  return out;
}

}  // namespace

std::span<const LEvalTask> leval_tasks() {
  return kLEvalTasks;
}

std::vector<std::string> leval_files(const LEvalTask& task) {
  return {fmt::format("{}/{}.jsonl", task.folder, task.name),
          fmt::format("LEval-data/{}/{}.jsonl", task.folder, task.name),
          fmt::format("{}.jsonl", task.name)};
}

std::vector<Dialogue> read_leval(const std::filesystem::path& file, const LEvalTask& task,
                                 const std::string& name, std::size_t limit) {
  std::vector<Dialogue> out;
  std::size_t documents = 0;
  for_each_json_line(file, [&](const JsonView& view) {
    if (limit != 0 && out.size() == limit) return;
    view.require_known_keys({"instructions", "outputs", "input", "source", "evaluation"});
    view.at("source").as_string();
    ++documents;
    const std::string evaluation = view.at("evaluation").as_string();
    if (evaluation == "human" || evaluation == "LLM") return;
    if (evaluation != task.evaluation) {
      view.at("evaluation").fail(fmt::format("\"{}\", human or LLM", task.evaluation));
    }
    out.push_back({.id = fmt::format("{}-{:03}", task.name, documents),
                   .dataset = name,
                   .task = std::string(task.kind),
                   .metric = std::string(task.metric),
                   .turns = turns_of(view, task)});
  });
  return out;
}

}  // namespace turnbench
