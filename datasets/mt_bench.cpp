#include "datasets/mt_bench.h"

#include <set>

#include "common/error.h"
#include "common/text.h"
#include "datasets/jsonl.h"

namespace turnbench {
namespace {

constexpr int kMtBenchAnswerTokens = 1024;

std::vector<Turn> user_turns(const JsonView& view) {
  const std::vector<std::string> questions = view.at("turns").as_strings();
  if (questions.empty()) view.at("turns").fail("at least one question");
  std::vector<std::string> references(questions.size());
  if (view.has("reference")) {
    references = view.at("reference").as_strings();
    if (references.size() != questions.size()) {
      view.at("reference").fail(fmt::format("as many references as turns ({})", questions.size()));
    }
  }
  std::vector<Turn> out;
  for (std::size_t i = 0; i < questions.size(); ++i) {
    if (trim(questions[i]).empty()) view.at("turns")[i].fail("a question");
    Turn turn;
    turn.question = questions[i];
    turn.references = {references[i]};
    turn.gold = references[i];
    turn.max_new_tokens = kMtBenchAnswerTokens;
    out.push_back(std::move(turn));
  }
  return out;
}

}  // namespace

std::vector<Dialogue> read_mt_bench(const std::filesystem::path& file, bool referenced,
                                    const std::string& name, std::size_t limit) {
  std::vector<Dialogue> out;
  std::set<std::int64_t> ids;
  for_each_json_line(file, [&](const JsonView& view) {
    if (limit != 0 && out.size() == limit) return;
    view.require_known_keys({"question_id", "category", "turns", "reference"});
    const std::int64_t id = view.at("question_id").as_integer(0);
    if (!ids.insert(id).second) view.at("question_id").fail("a unique id");
    Dialogue dialogue = {.id = fmt::format("{}-{}", name, id),
                         .dataset = name,
                         .task = view.at("category").as_string(),
                         .metric = "qa_f1",
                         .turns = user_turns(view)};
    while (referenced && !dialogue.turns.empty() && dialogue.turns.back().gold.empty()) {
      dialogue.turns.pop_back();
    }
    if (!dialogue.turns.empty()) out.push_back(std::move(dialogue));
  });
  return out;
}

}  // namespace turnbench
