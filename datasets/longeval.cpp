#include "datasets/longeval.h"

#include <algorithm>
#include <set>

#include "common/error.h"
#include "common/random.h"
#include "common/text.h"
#include "datasets/jsonl.h"
#include "datasets/sample.h"

namespace turnbench {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kOpening = "USER: I would like to discuss the topic of ";
constexpr std::size_t kLinesOfParagraph = 8;  // a paragraph
constexpr std::size_t kTopicsOfSummary = 3;   // in a summary's dialogue; two are asked for
constexpr std::size_t kSummaries = 100;       // dialogues
constexpr std::int64_t kMaxInteger = 1LL << 53;

/// The three parts of a prompt.
struct Prompt {
  std::string instruction, record, question;
};

Prompt cut_prompt(const JsonView& view, std::string_view begin, std::string_view end) {
  const std::string text = view.as_string();
  const std::size_t from = text.find(begin), to = text.rfind(end);
  if (from == std::string::npos) view.fail(fmt::format("a prompt with \"{}\"", begin));
  const std::size_t start = from + begin.size();
  if (to == std::string::npos || to < start) {
    view.fail(fmt::format("a prompt with \"{}\" at its end", end));
  }
  return {text.substr(0, start), trim(text.substr(start, to - start)), trim(text.substr(to))};
}

/// A conversation, or several in a row, cut before each user message.
std::vector<std::string> exchanges_of(const std::string& text) {
  std::vector<std::string> out;
  for (const std::string& part : split(text, "USER: ")) {
    if (!trim(part).empty()) out.push_back("USER: " + trim(part));
  }
  return out;
}

Dialogue one_turn(const fs::path& file, std::size_t index, const std::string& name,
                  const std::string& task, const std::string& metric, Turn turn) {
  return {.id = fmt::format("{}-{:04}", printable(file.stem().string()), index),
          .dataset = name,
          .task = task,
          .metric = metric,
          .turns = {std::move(turn)}};
}

/// A topic of the pool.
struct Conversation {
  std::int64_t id = 0;
  std::string topic, text;
};

std::vector<Conversation> read_pool(const fs::path& file) {
  std::vector<Conversation> out;
  std::set<std::int64_t> ids;
  for_each_json_line(file, [&](const JsonView& view) {
    view.require_known_keys({"topic_id", "topic", "conversation"});
    out.push_back({view.at("topic_id").as_integer(0, kMaxInteger), view.at("topic").as_string(),
                   view.at("conversation").as_string()});
    if (!ids.insert(out.back().id).second) {
      view.at("topic_id").fail("a unique id");
    }
    if (!out.back().text.starts_with(kOpening)) {
      view.at("conversation").fail(fmt::format("a text that begins \"{}\"", kOpening));
    }
    if (out.back().topic.empty()) view.at("topic").fail("a topic");
  });
  return out;
}

}  // namespace

std::vector<Dialogue> read_longeval_topics(const fs::path& file, const std::string& name,
                                           std::size_t limit) {
  std::vector<Dialogue> out;
  for_each_json_line(file, [&](const JsonView& view) {
    if (limit != 0 && out.size() == limit) return;
    view.require_known_keys({"test_id", "prompt", "topics", "prompt_length"});
    const Prompt prompt =
        cut_prompt(view.at("prompt"), "Now the record start.", "Now the record ends.");
    const std::vector<std::string> topics = view.at("topics").as_strings();
    if (topics.empty()) view.at("topics").fail("at least one topic");
    Turn turn;
    turn.instruction = prompt.instruction;
    std::size_t topic = 0;
    for (std::string& text : exchanges_of(prompt.record)) {
      topic += text.starts_with(kOpening);
      turn.contexts.push_back({fmt::format("topic-{}", topic), std::move(text)});
    }
    if (topic != topics.size() || turn.contexts.front().source != "topic-1") {
      view.at("prompt").fail(
          fmt::format("{} conversations that begin \"{}\"", topics.size(), kOpening));
    }
    turn.question = prompt.question;
    turn.references = {topics.front()};
    turn.gold = topics.front();
    turn.relevance = {"topic-1"};
    turn.max_new_tokens = 50;
    out.push_back(
        one_turn(file, out.size(), name, "retrieval", "ruler_match_all", std::move(turn)));
  });
  return out;
}

std::vector<Dialogue> read_longeval_lines(const fs::path& file, const std::string& name,
                                          std::size_t limit) {
  std::vector<Dialogue> out;
  for_each_json_line(file, [&](const JsonView& view) {
    if (limit != 0 && out.size() == limit) return;
    view.require_known_keys({"random_idx", "expected_number", "num_lines", "token_size",
                             "correct_line", "prompt", "prompt_length"});
    const Prompt prompt =
        cut_prompt(view.at("prompt"), "Now the record start:", "Now the record is over.");
    const std::string correct = trim(view.at("correct_line").as_string());
    const std::string number =
        std::to_string(view.at("expected_number").as_integer(0, kMaxInteger));
    Turn turn;
    turn.instruction = prompt.instruction;
    std::vector<std::string> lines = split(prompt.record, "\n");
    const auto found = std::find(lines.begin(), lines.end(), correct);
    if (found == lines.end()) view.at("correct_line").fail("a line of the prompt");
    if (correct.find("<" + number + ">") == std::string::npos) {
      view.at("expected_number").fail("the number of correct_line");
    }
    for (std::size_t i = 0; i < lines.size(); ++i) {
      if (i % kLinesOfParagraph != 0) {
        turn.contexts.back().text += "\n" + lines[i];
        continue;
      }
      turn.contexts.push_back({fmt::format("lines-{}", i / kLinesOfParagraph + 1), lines[i]});
    }
    const auto at = static_cast<std::size_t>(found - lines.begin());
    turn.relevance = {turn.contexts[at / kLinesOfParagraph].source};
    turn.question = prompt.question;
    turn.references = {number};
    turn.gold = number;
    turn.max_new_tokens = 100;
    out.push_back(one_turn(file, out.size(), name, "retrieval", "gsm8k", std::move(turn)));
  });
  return out;
}

std::vector<Dialogue> make_longeval_summaries(const fs::path& file, const std::string& name,
                                              const BuildOptions& options) {
  const std::vector<Conversation> pool = read_pool(file);
  if (pool.size() < kTopicsOfSummary) {
    throw input_error("{}: found {} conversations, expected at least {}", file.string(),
                      pool.size(), kTopicsOfSummary);
  }
  std::vector<Dialogue> out;
  const std::size_t count = options.limit == 0 ? kSummaries : options.limit;
  for (std::size_t i = 0; i < count; ++i) {
    Random random = Random::from({options.seed, seed_of("longeval-summary"), i});
    std::vector<std::size_t> chosen =
        sample_without_replacement(pool.size(), kTopicsOfSummary, random);
    random.shuffle(chosen);
    std::vector<std::size_t> asked =
        sample_without_replacement(kTopicsOfSummary, kTopicsOfSummary - 1, random);
    Turn turn;
    turn.instruction = "The following is a record of our previous conversations.";
    for (std::size_t at : chosen) {
      for (std::string& text : exchanges_of(pool[at].text)) {
        turn.contexts.push_back({fmt::format("topic-{}", pool[at].id), std::move(text)});
      }
    }
    std::vector<std::string> names, texts;
    for (std::size_t j : asked) {
      const Conversation& conversation = pool[chosen[j]];
      names.push_back(fmt::format("\"{}\"", conversation.topic));
      texts.push_back(join(exchanges_of(conversation.text), "\n"));
      turn.relevance.push_back(fmt::format("topic-{}", conversation.id));
    }
    turn.question =
        fmt::format("Summarize what we discussed on the topics {}.", join(names, " and "));
    turn.references = {join(texts, "\n")};
    turn.gold = turn.references.front();
    turn.max_new_tokens = 512;
    Dialogue dialogue = one_turn(file, i, name, "summary", "rouge_l_recall", std::move(turn));
    dialogue.id = fmt::format("{}-{}-{:04}", name, options.seed, i);
    out.push_back(std::move(dialogue));
  }
  return out;
}

}  // namespace turnbench
