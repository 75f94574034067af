#include "datasets/tiny_qa.h"

#include <fmt/format.h>
#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "common/json.h"
#include "common/random.h"
#include "common/text.h"
#include "datasets/filler.h"

extern "C" {
extern const char turnbench_tiny_lexicon_begin[], turnbench_tiny_lexicon_end[];
}

namespace turnbench {
namespace {

// Distribution of the model's training data: models/tiny/training/data.py.
constexpr double kFactShare = 0.5;   // share of a turn's length for facts
constexpr double kEarlier = 0.35;    // share of later questions about an earlier turn
constexpr std::size_t kNames = 64;   // people in a dialogue
constexpr int kQuestionLength = 14;  // reserved for the question
constexpr int kWeekLength = 60,
              kLabelLength = 24;    // maximum length of a week and of a noun's examples
constexpr std::size_t kUnseen = 2;  // adjectives of each noun without an example

struct Lexicon {
  using Words = std::vector<std::string>;
  Words names, attributes, relations, days, values, labels, adjectives, nouns, verbs, adverbs,
      prepositions;

  Lexicon() {
    const Json json =
        parse_json({turnbench_tiny_lexicon_begin, turnbench_tiny_lexicon_end}, "lexicon.json");
    const JsonView view(json, "lexicon.json");
    for (auto& [key, words] : {std::pair("names", &names), std::pair("attributes", &attributes),
                               std::pair("relations", &relations), std::pair("days", &days),
                               std::pair("values", &values), std::pair("labels", &labels),
                               std::pair("adjectives", &adjectives), std::pair("nouns", &nouns),
                               std::pair("verbs", &verbs), std::pair("adverbs", &adverbs),
                               std::pair("prepositions", &prepositions)}) {
      *words = view.at(key).as_strings();
    }
  }
};

const Lexicon& lexicon() {
  static const Lexicon instance;
  return instance;
}

/// Number of tokens of a sentence: one per word or mark.
int length_of(const std::string& sentence) {
  return static_cast<int>(count_words_and_marks(sentence));
}

int length_of(const std::vector<std::string>& sentences) {
  int out = 0;
  for (const std::string& s : sentences) out += length_of(s);
  return out;
}

/// Maximum length of the facts for one more question.
int room_of(TinyTask task) {
  switch (task) {
    case TinyTask::kFact:
      return 10;
    case TinyTask::kHop:
      return 17;
    case TinyTask::kLabel:
      return kLabelLength;
    case TinyTask::kList:
      return kWeekLength;
  }
  return 0;
}

struct Fact {
  std::string value;
  int turn;
};

/// The facts that a dialogue has stated so far.
class World {
 public:
  explicit World(Random& random) : random_(random), names_(lexicon().names) {
    random_.shuffle(names_);
    names_.resize(kNames);
  }

  using Key = std::pair<std::string, std::string>;
  std::map<Key, Fact> attributes, relations;
  std::map<std::string, std::map<std::string, Fact>> weeks;  // name -> day -> fact
  std::map<std::string, Fact> labels;                     // noun -> label (turn of first example)
  std::map<std::string, std::set<std::string>> examples;  // noun -> adjectives shown
  std::map<std::string, std::set<int>> label_turns;       // noun -> turns with examples

  std::vector<std::string> attribute(int turn) {
    for (int attempt = 0; attempt < 20; ++attempt) {
      const Key key{random_.choice(lexicon().attributes), random_.choice(names_)};
      if (attributes.contains(key)) continue;
      constexpr int kLengths[] = {2, 2, 3, 3, 4};
      attributes[key] = {values(kLengths[random_.below(5)]), turn};
      return {fmt::format("the {} of {} is {}.", key.first, key.second, attributes[key].value)};
    }
    return {};
  }

  std::vector<std::string> relation(int turn) {
    std::vector<std::string> out;
    if (attributes.empty() || random_.uniform() < 0.5) out = attribute(turn);
    const Key key{random_.choice(lexicon().relations), random_.choice(names_)};
    auto other = attributes.begin();
    std::advance(other, static_cast<std::ptrdiff_t>(random_.below(attributes.size())));
    const std::string& person = other->first.second;
    if (relations.contains(key) || person == key.second) return out;
    relations[key] = {person, turn};
    out.push_back(fmt::format("the {} of {} is {}.", key.first, key.second, person));
    return out;
  }

  std::vector<std::string> label(int turn) {
    const std::string& noun = random_.choice(lexicon().nouns);
    const Fact& fact =
        labels.try_emplace(noun, Fact{random_.choice(lexicon().labels), turn}).first->second;
    std::vector<std::string> adjectives = lexicon().adjectives, out;
    random_.shuffle(adjectives);
    const std::size_t count = 2 + random_.below(2);
    std::set<std::string>& shown = examples[noun];
    for (std::size_t i = 0; i < count; ++i) {
      if (!shown.contains(adjectives[i]) && shown.size() + kUnseen == adjectives.size()) continue;
      shown.insert(adjectives[i]);
      out.push_back(fmt::format("the label of {} {} is {}.", adjectives[i], noun, fact.value));
    }
    label_turns[noun].insert(turn);
    return out;
  }

  std::vector<std::string> week(int turn) {
    const std::string& name = random_.choice(names_);
    if (weeks.contains(name)) return {};
    std::vector<std::string> out;
    for (const std::string& day : lexicon().days) {
      weeks[name][day] = {values(4), turn};
      out.push_back(fmt::format("the {} of {} is {}.", day, name, weeks[name][day].value));
    }
    return out;
  }

  std::string filler() {
    const Lexicon& l = lexicon();
    const auto pick = [&](const Lexicon::Words& words) { return random_.choice(words); };
    // Each word is drawn in a separate statement, because the evaluation order of arguments is
    // undefined.
    const double kind = random_.uniform();
    const std::string n1 = pick(l.nouns), n2 = pick(l.nouns), n3 = pick(l.nouns),
                      a = pick(l.adjectives);
    const std::string v1 = pick(l.verbs), v2 = pick(l.verbs), adverb = pick(l.adverbs),
                      at = pick(l.prepositions);
    if (kind < 0.35) return fmt::format("the {} {} {} the {} {} the {}.", a, n1, v1, n2, at, n3);
    if (kind < 0.6) return fmt::format("{}, the {} {} a {} {}.", adverb, n1, v1, a, n2);
    if (kind < 0.8) return fmt::format("the {} {} the {} was very {}.", n1, at, n2, a);
    return fmt::format("the {} {} the {} and {} {} the {} {}.", n1, v1, n2, adverb, v2, a, n3);
  }

 private:
  std::string values(int count) {
    std::string out;
    for (int i = 0; i < count; ++i) out += (i == 0 ? "" : " ") + random_.choice(lexicon().values);
    return out;
  }

  Random& random_;
  std::vector<std::string> names_;
};

struct Question {
  std::string key, text, answer, reference;
  std::set<int> turns;  // the turns on which the answer depends
};

template <typename Map>
const typename Map::value_type& random_entry(const Map& map, Random& random) {
  auto it = map.begin();
  std::advance(it, static_cast<std::ptrdiff_t>(random.below(map.size())));
  return *it;
}

/// A question of the given kind; nullopt if there is no such fact.
std::optional<Question> ask(TinyTask task, const World& world, Random& random) {
  Question q;
  switch (task) {
    case TinyTask::kFact: {
      if (world.attributes.empty()) return std::nullopt;
      const auto& [key, fact] = random_entry(world.attributes, random);
      q.text = fmt::format("what is the {} of {}?", key.first, key.second);
      q.answer = fmt::format("the {} of {} is {}.", key.first, key.second, fact.value);
      q.reference = fact.value;
      q.turns = {fact.turn};
      break;
    }
    case TinyTask::kHop: {
      if (world.relations.empty()) return std::nullopt;
      const auto& [key, other] = random_entry(world.relations, random);
      std::vector<std::pair<std::string, Fact>> known;
      for (const auto& [attribute, fact] : world.attributes) {
        if (attribute.second == other.value) known.emplace_back(attribute.first, fact);
      }
      const auto& [attribute, fact] = random.choice(known);
      q.text = fmt::format("for the {} of {}, what is the {}?", key.first, key.second, attribute);
      q.answer = fmt::format("the {} of {} is {}, the {} of {} is {}.", key.first, key.second,
                             other.value, attribute, other.value, fact.value);
      q.reference = fact.value;
      q.turns = {other.turn, fact.turn};
      break;
    }
    case TinyTask::kLabel: {
      if (world.labels.empty()) return std::nullopt;
      const auto& [noun, fact] = random_entry(world.labels, random);
      std::vector<std::string> unseen;
      for (const std::string& a : lexicon().adjectives) {
        if (!world.examples.at(noun).contains(a)) unseen.push_back(a);
      }
      const std::string& adjective = random.choice(unseen);
      q.text = fmt::format("what is the label of {} {}?", adjective, noun);
      q.answer = fmt::format("the label of {} {} is {}.", adjective, noun, fact.value);
      q.reference = fact.value;
      q.turns = world.label_turns.at(noun);
      break;
    }
    case TinyTask::kList: {
      if (world.weeks.empty()) return std::nullopt;
      const auto& [name, week] = random_entry(world.weeks, random);
      q.text = fmt::format("what is the week of {}?", name);
      for (const std::string& day : lexicon().days) {
        const Fact& fact = week.at(day);
        q.answer += fmt::format("{}the {} of {} is {}", q.answer.empty() ? "" : ", ", day, name,
                                fact.value);
        q.reference += (q.reference.empty() ? "" : " ") + fact.value;
        q.turns.insert(fact.turn);
      }
      q.answer += ".";
      break;
    }
  }
  q.key = q.text;
  return q;
}

class TinyBuilder {
 public:
  TinyBuilder(TinyTask task, std::uint64_t seed) : task_(task), random_(seed), world_(random_) {}

  Turn turn(int index, int length) {
    std::vector<std::string> sentences = facts(index, length);
    Turn out;
    const Question q = question(index, length - kQuestionLength, sentences);
    int used = length_of(sentences);
    while (used + kQuestionLength < length) {
      sentences.push_back(world_.filler());
      used += length_of(sentences.back());
    }
    random_.shuffle(sentences);
    for (std::size_t i = 0; i < sentences.size();) {
      const std::size_t count = std::min<std::size_t>(3 + random_.below(8), sentences.size() - i);
      Paragraph p{fmt::format("turn-{}", index + 1), sentences[i]};
      for (std::size_t j = i + 1; j < i + count; ++j) p.text += " " + sentences[j];
      out.contexts.push_back(std::move(p));
      i += count;
    }
    out.question = q.text;
    out.references = {q.reference};
    out.gold = q.answer;
    for (int t : q.turns) out.relevance.push_back(fmt::format("turn-{}", t + 1));
    if (task_ == TinyTask::kLabel) out.classes = lexicon().labels;
    out.max_new_tokens = task_ == TinyTask::kList ? 96 : task_ == TinyTask::kHop ? 32 : 20;
    return out;
  }

 private:
  /// Facts of all kinds.  Short turns leave room for the facts of the question.
  std::vector<std::string> facts(int index, int length) {
    std::vector<std::string> out;
    int used = 0;
    while (used < kFactShare * length) {
      const int room = length - kQuestionLength - room_of(task_) - used;
      if (room < kLabelLength) break;
      const std::uint64_t kind = random_.below(9);
      const bool has_week = length - used > 100 && room >= kWeekLength;
      const std::vector<std::string> more = kind < 5   ? world_.attribute(index)
                                            : kind < 7 ? world_.relation(index)
                                            : kind < 8 ? world_.label(index)
                                            : has_week ? world_.week(index)
                                                       : world_.attribute(index);
      used += length_of(more);
      out.insert(out.end(), more.begin(), more.end());
    }
    return out;
  }

  /// A new question.  If there is no fact to ask about, adds facts of its kind while `room` for the
  /// turn's sentences permits.
  Question question(int index, int room, std::vector<std::string>& sentences) {
    const bool earlier = index > 0 && random_.uniform() < kEarlier;
    bool any_turn = false;
    for (int attempt = 0;; ++attempt) {
      if (std::optional<Question> q = ask(task_, world_, random_)) {
        const bool is_earlier = *q->turns.begin() < index;
        if (!asked_.contains(q->key) && (any_turn || is_earlier == earlier)) {
          asked_.insert(q->key);
          return *q;
        }
      }
      // After many attempts any question is accepted, because there may be facts of only one kind.
      if (attempt == 200) any_turn = true;
      if (attempt % 50 != 49) continue;
      if (!any_turn && length_of(sentences) + room_of(task_) > room) {
        any_turn = true;
        continue;
      }
      const std::vector<std::string> more = task_ == TinyTask::kHop     ? world_.relation(index)
                                            : task_ == TinyTask::kLabel ? world_.label(index)
                                            : task_ == TinyTask::kList  ? world_.week(index)
                                                                        : world_.attribute(index);
      sentences.insert(sentences.end(), more.begin(), more.end());
    }
  }

  TinyTask task_;
  Random random_;
  World world_;
  std::set<std::string> asked_;
};

}  // namespace

std::string_view name_of(TinyTask task) {
  switch (task) {
    case TinyTask::kFact:
      return "tiny-fact";
    case TinyTask::kHop:
      return "tiny-hop";
    case TinyTask::kLabel:
      return "tiny-label";
    case TinyTask::kList:
      return "tiny-list";
  }
  return "";
}

int min_turn_length(TinyTask task) {
  return kQuestionLength + room_of(task);
}

std::vector<Dialogue> make_tiny_dialogues(TinyTask task, const TinyOptions& options) {
  std::vector<Dialogue> out;
  for (std::size_t i = 0; i < options.count; ++i) {
    const int turns = options.turns > 0 ? options.turns : 2 + static_cast<int>(i % 2);
    TinyBuilder builder(task, Random::from({seed_of(name_of(task)), options.seed, i}).next());
    Dialogue d;
    d.id = fmt::format("{}-{}-{:05}", name_of(task), options.seed, i);
    d.dataset = name_of(task);
    d.task = std::string(name_of(task)).substr(5);
    d.metric = task == TinyTask::kLabel ? "accuracy" : "qa_f1";
    for (int t = 0; t < turns; ++t) d.turns.push_back(builder.turn(t, options.length / turns));
    out.push_back(std::move(d));
  }
  return out;
}

}  // namespace turnbench
