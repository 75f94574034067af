#include "datasets/squad.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <set>
#include <span>

#include "common/error.h"
#include "common/file.h"
#include "common/json.h"
#include "common/random.h"
#include "common/text.h"
#include "datasets/filler.h"

namespace turnbench {
namespace {

namespace fs = std::filesystem;

constexpr int kMostPassageTurns = 100;
constexpr int kAnswerTokens = 32;  // as in RULER

struct PassageQuestion {
  std::string text;
  std::vector<std::string> answers;  ///< different ones, in the order of the file
};

/// A passage and what is asked about it.
struct WikiPassage {
  std::string article;
  Paragraph paragraph;
  std::size_t length;  ///< in words and marks
  std::vector<PassageQuestion> questions = {};
};

WikiPassage passage(const std::string& article, const std::string& source,
                    const std::string& text) {
  const std::string title = replace_all(article, "_", " ");
  WikiPassage out{article, {source, fmt::format("{}\n{}", title, trim(text))}, 0};
  out.length = count_words_and_marks(out.paragraph.text);
  return out;
}

void fill_defaults(const std::string& name, BuildOptions& options) {
  if (options.turns == 0) options.turns = kPassageTurns;
  if (options.length == 0)
    options.length = std::max(kPassageLength, options.turns * kMinPassageTurnLength);
  if (options.limit == 0) options.limit = kPassageDialogues;
  check_generated(name, options, kMostPassageTurns, kMinPassageTurnLength);
}

Turn empty_turn(const PassageQuestion& question) {
  Turn turn;
  turn.instruction =
      "Answer the question with a few words from the passages. Reply with the answer only.";
  turn.question = question.text;
  turn.references = question.answers;
  turn.max_new_tokens = kAnswerTokens;
  return turn;
}

/// The passages of a dialogue's turns, without the articles of its questions.
class Distractors {
 public:
  /// `pool`: the passages to draw from, of a file.
  Distractors(const fs::path& file, const std::vector<WikiPassage>& pool,
              std::set<std::string> articles, Random& random)
      : file_(file),
        pool_(pool),
        articles_(std::move(articles)),
        random_(random),
        order_(pool.size()) {
    std::iota(order_.begin(), order_.end(), std::size_t{0});
  }

  /// Adds passages to a turn until it has at least `length` words and marks, and shuffles all of
  /// them.
  /// @throws Error (input) if there are too few passages.
  void fill(Turn& turn, std::size_t length) {
    std::size_t have = 0;
    for (const Paragraph& p : turn.contexts) have += count_words_and_marks(p.text);
    while (have < length) {
      if (next_ == order_.size()) {
        throw input_error(
            "{}: found passages of {} words and marks for a turn, expected {}: give a smaller "
            "length",
            file_.string(), have, length);
      }
      std::swap(order_[next_], order_[next_ + random_.below(order_.size() - next_)]);
      const WikiPassage& drawn = pool_[order_[next_++]];
      if (articles_.contains(drawn.article)) continue;
      turn.contexts.push_back(drawn.paragraph);
      have += drawn.length;
    }
    random_.shuffle(turn.contexts);
  }

 private:
  const fs::path& file_;
  const std::vector<WikiPassage>& pool_;
  std::set<std::string> articles_;
  Random& random_;
  std::vector<std::size_t> order_;
  std::size_t next_ = 0;  ///< the first of `order_` that was not drawn
};

/// Removes questions until one has a new text: passages may have a question in common, with
/// different answers.  Nothing if all were asked.
std::optional<PassageQuestion> draw(std::vector<PassageQuestion>& questions,
                                    std::set<std::string>& texts, Random& random) {
  while (!questions.empty()) {
    const auto at = questions.begin() + static_cast<std::ptrdiff_t>(random.below(questions.size()));
    PassageQuestion out = std::move(*at);
    questions.erase(at);
    if (texts.insert(out.text).second) return out;
  }
  return std::nullopt;
}

std::vector<PassageQuestion> answerable(const JsonView& questions) {
  std::vector<PassageQuestion> out;
  for (const JsonView& view : questions.items()) {
    view.require_known_keys({"id", "question", "answers", "is_impossible", "plausible_answers"});
    if (view.get("is_impossible", false)) continue;
    PassageQuestion question{trim(view.at("question").as_string()), {}};
    if (question.text.empty()) view.at("question").fail("a question");
    for (const JsonView& answer : view.at("answers").items()) {
      const std::string text = answer.at("text").as_string();
      std::vector<std::string>& known = question.answers;
      if (std::find(known.begin(), known.end(), text) == known.end()) known.push_back(text);
    }
    if (question.answers.empty()) view.at("answers").fail("at least one answer");
    out.push_back(std::move(question));
  }
  return out;
}

std::vector<WikiPassage> read_squad(const fs::path& file) {
  const Json json = parse_json(read_file(file), file.string());
  std::vector<WikiPassage> out;
  for (const JsonView& article : JsonView(json, file.string()).at("data").items()) {
    const std::string title = article.at("title").as_string();
    std::size_t number = 0;
    for (const JsonView& view : article.at("paragraphs").items()) {
      view.require_known_keys({"context", "qas"});
      out.push_back(
          passage(title, fmt::format("{}#{}", title, ++number), view.at("context").as_string()));
      out.back().questions = answerable(view.at("qas"));
    }
  }
  return out;
}

/// A question on several passages.
struct PassageRecord {
  std::string id;
  PassageQuestion question;
  std::vector<WikiPassage> supporting;
};

struct PassageRecords {
  std::vector<PassageRecord> records;
  std::vector<WikiPassage> others;  ///< passages that support no question of their record
};

PassageRecords read_hotpotqa(const fs::path& file) {
  const Json json = parse_json(read_file(file), file.string());
  PassageRecords out;
  std::set<std::string> seen;
  for (const JsonView& view : JsonView(json, file.string()).items()) {
    view.require_known_keys(
        {"_id", "question", "answer", "supporting_facts", "context", "type", "level"});
    PassageRecord record{view.at("_id").as_string(),
                         {trim(view.at("question").as_string()), {view.at("answer").as_string()}},
                         {}};
    if (record.question.text.empty()) view.at("question").fail("a question");
    std::set<std::string> supporting;
    for (const JsonView& fact : view.at("supporting_facts").items())
      supporting.insert(fact[0].as_string());
    for (const JsonView& pair : view.at("context").items()) {
      const std::string title = pair[0].as_string();
      WikiPassage made = passage(title, title, join(pair[1].as_strings(), ""));
      if (supporting.erase(title) > 0) {
        record.supporting.push_back(std::move(made));
      } else if (seen.insert(title).second) {
        out.others.push_back(std::move(made));
      }
    }
    if (!supporting.empty() || record.supporting.empty())
      view.at("supporting_facts").fail("titles of the context");
    out.records.push_back(std::move(record));
  }
  return out;
}

void require_sources(const fs::path& file, std::size_t found, int turns, const char* what) {
  if (found >= static_cast<std::size_t>(turns)) return;
  throw input_error("{}: found {} {}, expected at least {}, one for each turn", file.string(),
                    found, what, turns);
}

/// Dialogues of `options.turns` sources of questions each, until the sources or the limit are
/// reached.  Calls add_turns(sources, random, dialogue) for each; `kind` seeds the draws.
template <typename Source, typename AddTurns>
std::vector<Dialogue> dialogues_of(std::vector<const Source*> sources, const std::string& name,
                                   std::string_view kind, const BuildOptions& options,
                                   const AddTurns& add_turns) {
  const auto turns = static_cast<std::size_t>(options.turns);
  Random::from({options.seed, seed_of(kind)}).shuffle(sources);
  std::vector<Dialogue> out;
  for (std::size_t first = 0; first + turns <= sources.size() && out.size() < options.limit;
       first += turns) {
    Random random = Random::from({options.seed, seed_of(kind), out.size()});
    Dialogue dialogue{.id = fmt::format("{}-{}", name, out.size()),
                      .dataset = name,
                      .task = "qa",
                      .metric = "qa_f1",
                      .turns = {}};
    add_turns(std::span<const Source* const>(sources).subspan(first, turns), random, dialogue);
    out.push_back(std::move(dialogue));
  }
  return out;
}

std::size_t length_of_turn(const BuildOptions& options) {
  return static_cast<std::size_t>(options.length) / static_cast<std::size_t>(options.turns);
}

}  // namespace

std::vector<Dialogue> make_squad_dialogues(const fs::path& file, const std::string& name,
                                           BuildOptions options) {
  fill_defaults(name, options);
  const std::vector<WikiPassage> all = read_squad(file);
  std::vector<const WikiPassage*> asked;
  for (const WikiPassage& p : all) {
    if (!p.questions.empty()) asked.push_back(&p);
  }
  require_sources(file, asked.size(), options.turns, "passages with questions");
  const auto add_turns = [&](std::span<const WikiPassage* const> sources, Random& random,
                             Dialogue& dialogue) {
    std::set<std::string> articles;
    for (const WikiPassage* source : sources) articles.insert(source->article);
    Distractors distractors(file, all, std::move(articles), random);
    std::set<std::string> texts;                     // of the questions so far
    std::vector<std::vector<PassageQuestion>> left;  // of the passages of the turns so far
    for (std::size_t t = 0; t < sources.size(); ++t) {
      left.push_back(sources[t]->questions);
      std::size_t about = random.below(t + 1);
      std::optional<PassageQuestion> question = draw(left[about], texts, random);
      if (!question) {
        about = t;
        question = draw(left[t], texts, random);
      }
      Turn turn = empty_turn(question ? *question : sources[t]->questions.front());
      turn.relevance = {sources[about]->paragraph.source};
      turn.contexts = {sources[t]->paragraph};
      distractors.fill(turn, length_of_turn(options));
      dialogue.turns.push_back(std::move(turn));
    }
  };
  return dialogues_of(std::move(asked), name, "squad", options, add_turns);
}

std::vector<Dialogue> make_hotpotqa_dialogues(const fs::path& file, const std::string& name,
                                              BuildOptions options) {
  fill_defaults(name, options);
  const PassageRecords read = read_hotpotqa(file);
  require_sources(file, read.records.size(), options.turns, "records");
  std::vector<const PassageRecord*> asked;
  for (const PassageRecord& record : read.records) asked.push_back(&record);
  const auto add_turns = [&](std::span<const PassageRecord* const> sources, Random& random,
                             Dialogue& dialogue) {
    std::set<std::string> articles;
    for (std::size_t t = 0; t < sources.size(); ++t) {
      Turn& turn = dialogue.turns.emplace_back(empty_turn(sources[t]->question));
      std::vector<WikiPassage> supporting = sources[t]->supporting;
      random.shuffle(supporting);
      for (std::size_t i = 0; i < supporting.size(); ++i) {
        const WikiPassage& p = supporting[i];
        turn.relevance.push_back(p.paragraph.source);
        // Two questions of a dialogue may have a passage in common.
        if (!articles.insert(p.article).second) continue;
        dialogue.turns[i == 0 ? t : random.below(t + 1)].contexts.push_back(p.paragraph);
      }
    }
    Distractors distractors(file, read.others, std::move(articles), random);
    for (Turn& turn : dialogue.turns) distractors.fill(turn, length_of_turn(options));
  };
  return dialogues_of(std::move(asked), name, "hotpotqa", options, add_turns);
}

}  // namespace turnbench
