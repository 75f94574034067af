#include "datasets/word_lists.h"

#include <algorithm>
#include <set>

#include "common/error.h"
#include "common/random.h"
#include "common/text.h"
#include "datasets/chunks.h"
#include "datasets/filler.h"
#include "datasets/sample.h"
#include "datasets/vocabulary.h"

namespace turnbench {
namespace {

constexpr std::size_t kCommonWords = 10;   // asked for
constexpr std::size_t kRatio = 10;         // of common to other frequencies
constexpr std::size_t kFrequentWords = 3;  // asked for
constexpr std::size_t kParagraph = 20;     // words
constexpr double kZeta2 = 1.6449340668482264;
constexpr std::string_view kInstruction =
    "The following text holds lists of words, in which words occur several times. Remember how "
    "often: you will be asked about it. Reply with the words only.";

/// The items of one list, in order, and the words that the question asks for.
struct WordList {
  std::vector<std::string> items, answers;
};

/// Generates the lists of one dialogue; no word is in two lists.
class ListMaker {
 public:
  ListMaker(WordListTask task, std::size_t lists, Random& random)
      : task_(task), lists_(lists), random_(random) {
    if (task == WordListTask::kFrequent) return;
    for (std::string_view adjective : vocabulary::adjectives()) {
      for (std::string_view noun : vocabulary::nouns()) {
        compounds_.push_back(fmt::format("{}-{}", adjective, noun));
      }
    }
    random_.shuffle(compounds_);
    share_ = compounds_.size() / lists;
  }

  /// A list of at most `length` words and marks.
  WordList make(std::size_t length) {
    return task_ == WordListTask::kCommon ? common(length) : frequent(length);
  }

 private:
  WordList common(std::size_t length) {
    // "12. quiet-river" is a number, two words and two marks.
    const std::size_t n = length / 5;
    // Smallest frequency for which the list's share of the words suffices.
    const std::size_t needed = (n + share_ - 1) / share_;
    const std::size_t repeat = std::max<std::size_t>(n < 600 ? 1 : 3, needed);
    WordList out;
    std::vector<std::string> words;
    const auto add = [&](std::size_t times) {
      words.insert(words.end(), times, compounds_.back());
      compounds_.pop_back();
      return words.back();
    };
    while (out.answers.size() < kCommonWords) out.answers.push_back(add(kRatio * repeat));
    while (words.size() + repeat <= n) add(repeat);
    random_.shuffle(words);
    for (const std::string& word : words) {
      out.items.push_back(fmt::format("{}. {}", out.items.size() + 1, word));
    }
    return out;
  }

  WordList frequent(std::size_t length) {
    // The run of dots has three marks, and is 1 / zeta(2) of all words.
    const double n = static_cast<double>(length) / (1 + 2 / kZeta2);
    WordList out;
    for (double rank = 1;; ++rank) {
      const auto times = static_cast<std::size_t>(n / (kZeta2 * rank * rank));
      if (times == 0) break;
      const std::string word = rank == 1 ? "..." : coded_word();
      out.items.insert(out.items.end(), times, word);
      if (rank > 1 && out.answers.size() < kFrequentWords) out.answers.push_back(word);
    }
    random_.shuffle(out.items);
    return out;
  }

  std::string coded_word() {
    for (;;) {
      std::string out;
      for (int i = 0; i < 6; ++i) out += static_cast<char>('a' + random_.below(26));
      if (coded_.insert(out).second) return out;
    }
  }

  WordListTask task_;
  std::size_t lists_, share_ = 0;
  Random& random_;
  std::vector<std::string> compounds_;
  std::set<std::string> coded_;
};

/// Lines of twenty words, so that a list can be cut like a record's context.
SourceDocument document_of(const WordList& list, const LongBenchRecord& record) {
  SourceDocument out{&record, {}, {}};
  for (std::size_t i = 0; i < list.items.size(); i += kParagraph) {
    const std::size_t end = std::min(i + kParagraph, list.items.size());
    out.paragraphs.push_back(
        join(std::vector(list.items.begin() + static_cast<std::ptrdiff_t>(i),
                         list.items.begin() + static_cast<std::ptrdiff_t>(end)),
             " "));
  }
  return out;
}

std::string question_of(WordListTask task, std::string_view label) {
  return task == WordListTask::kCommon
             ? fmt::format("What are the {} most common words of {}?", kCommonWords, label)
             : fmt::format("What are the {} most frequent words of {}, not counting the dots?",
                           kFrequentWords, label);
}

Dialogue make_dialogue(WordListTask task, const std::string& name, const BuildOptions& options,
                       std::size_t index) {
  const auto turns = static_cast<std::size_t>(options.turns);
  Random random = Random::from({options.seed, seed_of(name_of(task)), index});
  ListMaker maker(task, turns, random);
  Dialogue out{.id = fmt::format("{}-{}-{:05}", name, options.seed, index),
               .dataset = name,
               .task = "aggregation",
               .metric = "ruler_match_all",
               .turns = std::vector<Turn>(turns)};
  for (std::size_t j = 0; j < turns; ++j) {
    const std::string label = fmt::format("List {}", static_cast<char>('A' + j));
    Turn& turn = out.turns[j];
    turn.instruction = kInstruction;
    turn.question = question_of(task, label);
    const std::size_t around =
        count_words_and_marks(turn.instruction) + count_words_and_marks(turn.question);
    const WordList list = maker.make(static_cast<std::size_t>(options.length) / turns - around);
    LongBenchRecord record;
    record.id = replace_all(label, "List ", "list-");
    const SourceDocument document = document_of(list, record);
    const std::vector<Chunk> parts = cut_at_random(
        document, 1 + random.below(std::min(j + 1, document.paragraphs.size())), random);
    const std::vector<std::size_t> places = sample_without_replacement(j + 1, parts.size(), random);
    for (std::size_t part = 0; part < parts.size(); ++part) {
      const std::string heading =
          parts.size() == 1 ? fmt::format("[{}]", label)
                            : fmt::format("[{}, part {} of {}]", label, part + 1, parts.size());
      append_chunk(out.turns[places[part]].contexts, parts[part], heading);
      turn.relevance.push_back(parts[part].source());
    }
    turn.references = list.answers;
    turn.gold = join(list.answers, ", ");
    turn.max_new_tokens = task == WordListTask::kCommon ? 120 : 50;
  }
  return out;
}

}  // namespace

std::string_view name_of(WordListTask task) {
  return task == WordListTask::kCommon ? "common-words" : "frequent-words";
}

std::vector<Dialogue> make_word_lists(WordListTask task, const std::string& name,
                                      const BuildOptions& options) {
  check_generated(name, options, 16, kMinListTurnLength);
  std::vector<Dialogue> out;
  for (std::size_t i = 0; i < options.limit; ++i) {
    out.push_back(make_dialogue(task, name, options, i));
  }
  return out;
}

}  // namespace turnbench
