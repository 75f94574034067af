#include "datasets/needle_dialogues.h"

#include <algorithm>
#include <cmath>

#include "common/error.h"
#include "common/text.h"
#include "datasets/filler.h"
#include "datasets/sample.h"

namespace turnbench {
namespace {

constexpr std::size_t kNoQuestion = SIZE_MAX;

/// A sentence, and the turn whose question it answers.
struct Sentence {
  std::string text;
  std::size_t question = kNoQuestion;
  double depth = 0;
};

/// Makes one dialogue.
class NeedleDialogueBuilder {
 public:
  NeedleDialogueBuilder(const NeedleTask& kind, const std::string& name,
                        std::span<const std::string> essays, const BuildOptions& options,
                        std::size_t index)
      : kind_(kind),
        options_(options),
        turns_(static_cast<std::size_t>(options.turns)),
        random_(Random::from({options.seed, seed_of(kind.name), index})),
        filler_random_(Random::from({options.seed, seed_of(kind.name), index, seed_of("filler")})),
        next_filler_(kind.in_uuid_pairs ? random_uuid_pairs(filler_random_)
                     : essays.empty()   ? random_sentences(filler_random_)
                                        : cyclic_sentences(essays, filler_random_)) {
    dialogue_ = {.id = fmt::format("{}-{}-{:05}", name, options.seed, index),
                 .dataset = name,
                 .task = std::string(kind.task),
                 .metric = std::string(kind.metric),
                 .turns = std::vector<Turn>(turns_)};
  }

  Dialogue build() {
    std::vector<std::vector<Sentence>> hidden(turns_);
    UniqueValues supply(random_);
    for (std::size_t j = 0; j < turns_; ++j) {
      const NeedleQuestion question = kind_.make(supply);
      place(question, j, hidden);
      Turn& turn = dialogue_.turns[j];
      turn.instruction = kind_.instruction;
      turn.question = question.question;
      turn.references = question.references;
      turn.classes = question.classes;
      turn.gold = question.gold;
      turn.max_new_tokens = kind_.max_new_tokens;
    }
    for (std::size_t j = 0; j < turns_; ++j) {
      std::vector<Sentence> around = filler(j, hidden[j]);
      add_paragraphs(j, merge(std::move(hidden[j]), std::move(around)));
    }
    return std::move(dialogue_);
  }

 private:
  /// Distributes the needles of a question over the turns up to its own.
  void place(const NeedleQuestion& question, std::size_t turn,
             std::vector<std::vector<Sentence>>& hidden) {
    const std::size_t n = question.needles.size();
    const std::size_t parts = 1 + random_.below(std::min(turn + 1, n));
    const std::vector<std::size_t> places = sample_without_replacement(turn + 1, parts, random_);
    std::vector<std::size_t> ends = sample_without_replacement(n - 1, parts - 1, random_);
    ends.push_back(n - 1);
    std::size_t next = 0;
    for (std::size_t part = 0; part < parts; ++part) {
      const std::size_t count = ends[part] + 1 - next;
      for (double depth : depths(count)) {
        hidden[places[part]].push_back({question.needles[next++], turn, depth});
      }
    }
    for (const std::string& text : question.distractors) {
      const std::size_t at = random_.below(turn + 1);
      hidden[at].push_back({text, kNoQuestion, random_.uniform()});
    }
  }

  /// In ascending order, from 0 to 1.  Random draws do not depend on a given depth.
  std::vector<double> depths(std::size_t count) {
    std::vector<double> out;
    for (std::size_t i = 0; i < count; ++i) out.push_back(random_.uniform());
    std::sort(out.begin(), out.end());
    if (options_.depth) std::fill(out.begin(), out.end(), *options_.depth / 100);
    return out;
  }

  /// The filler of a turn up to its length.
  std::vector<Sentence> filler(std::size_t turn, const std::vector<Sentence>& hidden) {
    const Turn& t = dialogue_.turns[turn];
    std::size_t used = count_words_and_marks(t.instruction) + count_words_and_marks(t.question);
    for (const Sentence& s : hidden) used += count_words_and_marks(s.text);
    const std::size_t length = static_cast<std::size_t>(options_.length) / turns_;
    std::vector<Sentence> out;
    for (;;) {
      std::string text = next_filler_();
      used += count_words_and_marks(text);
      if (used > length) return out;
      out.push_back({std::move(text)});
    }
  }

  static std::vector<Sentence> merge(std::vector<Sentence> hidden, std::vector<Sentence> filler) {
    std::stable_sort(hidden.begin(), hidden.end(),
                     [](const Sentence& a, const Sentence& b) { return a.depth < b.depth; });
    std::vector<std::size_t> before = {0};  // words and marks before each place between sentences
    for (const Sentence& s : filler)
      before.push_back(before.back() + count_words_and_marks(s.text));
    std::vector<Sentence> out;
    std::size_t slot = 0;
    const auto copy_to = [&](std::size_t end) {
      for (; slot < end; ++slot) out.push_back(std::move(filler[slot]));
    };
    for (Sentence& s : hidden) {
      const double target = s.depth * static_cast<double>(before.back());
      const auto distance = [&](std::size_t length) {
        return std::abs(static_cast<double>(length) - target);
      };
      const auto nearest =
          std::min_element(before.begin(), before.end(),
                           [&](std::size_t a, std::size_t b) { return distance(a) < distance(b); });
      copy_to(static_cast<std::size_t>(nearest - before.begin()));
      out.push_back(std::move(s));
    }
    copy_to(filler.size());
    return out;
  }

  void add_paragraphs(std::size_t turn, const std::vector<Sentence>& sentences) {
    auto& contexts = dialogue_.turns[turn].contexts;
    const std::string_view separator = kind_.in_uuid_pairs ? "\n" : " ";
    std::size_t left = 0;
    for (const Sentence& s : sentences) {
      if (left-- == 0) {
        left = 3 + filler_random_.below(5);
        contexts.push_back({fmt::format("turn-{}#{}", turn + 1, contexts.size() + 1), s.text});
      } else {
        contexts.back().text.append(separator).append(s.text);
      }
      if (s.question == kNoQuestion) continue;
      auto& relevance = dialogue_.turns[s.question].relevance;
      const std::string& source = contexts.back().source;
      if (relevance.empty() || relevance.back() != source) relevance.push_back(source);
    }
  }

  const NeedleTask& kind_;
  const BuildOptions& options_;
  const std::size_t turns_;
  Random random_, filler_random_;
  SentenceGenerator next_filler_;
  Dialogue dialogue_;
};

}  // namespace

std::vector<Dialogue> make_needle_dialogues(const NeedleTask& kind, const std::string& name,
                                            std::span<const std::string> essays,
                                            const BuildOptions& options) {
  check_generated(name, options, kMaxNeedleTurns, kMinNeedleTurnLength);
  std::vector<Dialogue> out;
  for (std::size_t i = 0; i < options.limit; ++i) {
    out.push_back(NeedleDialogueBuilder(kind, name, essays, options, i).build());
  }
  return out;
}

}  // namespace turnbench
