// Dialogues with the model's own answers: what tools/train_retrieval_head.py reads.

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "common/error.h"
#include "common/file.h"
#include "inference/engine/sampler.h"
#include "methods/actions/action.h"

namespace turnbench {
namespace {

/// Appends the greedy answer to a prompt under full attention: at most `limit` tokens, and the stop
/// token if the answer ended.  Returns the index behind the answer.
std::size_t append_own_answer(Engine& engine, int limit, std::span<const int> stops,
                              std::vector<int>& ids) {
  const std::size_t end = ids.size() + static_cast<std::size_t>(limit);
  Sequence sequence = engine.make_sequence({});
  const Pass first{.sequence = &sequence, .tokens = ids, .prompt_end = true};
  std::vector<float> logits = engine.prefill({&first, 1})[0];
  while (true) {
    const int token = argmax(logits);
    const bool stop = std::find(stops.begin(), stops.end(), token) != stops.end();
    if (!stop && ids.size() == end) return end;
    ids.push_back(token);
    if (stop) return ids.size() - 1;
    const Pass next{.sequence = &sequence, .tokens = {&token, 1}, .kind = Pass::Kind::kDecode};
    logits = engine.forward({&next, 1})[0];
  }
}

ActionResult answer_dialogues(ActionContext& context) {
  const std::string& file = context.option("output");
  require_own_file(file, "file of dialogues",
                   [&] { return read_file(file).starts_with("{\"ids\":"); });
  const int limit = context.integer("answer-tokens"), longest = context.integer("longest");
  const std::vector<int>& stops = context.checkpoint().config.eos_tokens;
  std::string lines;
  std::size_t dialogues = 0, too_long = 0, tokens = 0, answer_tokens = 0;
  context.for_each_dialogue([&](const TokenizedDialogue& dialogue) {
    std::vector<int> ids = dialogue.tokens;
    ids.resize(dialogue.prompt_tokens);
    if (std::ssize(ids) + limit > longest) {
      ++too_long;
      return;
    }
    OrderedJson spans = OrderedJson::array();
    const auto add = [&](std::size_t begin, std::size_t end) {
      spans.push_back({{"kind", "answer"}, {"begin", begin}, {"end", end}});
      answer_tokens += end - begin;
    };
    for (const Span& span : dialogue.spans) {
      const auto end = static_cast<std::size_t>(span.end);
      if (span.kind == SpanKind::kAnswer && end <= dialogue.prompt_tokens)
        add(static_cast<std::size_t>(span.begin), end);
    }
    const std::size_t end = append_own_answer(context.engine(), limit, stops, ids);
    add(dialogue.prompt_tokens, end);
    tokens += ids.size();
    ++dialogues;
    lines += OrderedJson{{"ids", ids}, {"spans", std::move(spans)}}.dump() + "\n";
  });
  if (dialogues == 0) {
    throw input_error("{}: found {} dialogues, all too long, expected one of at most {} tokens",
                      context.option("dataset"), too_long, longest);
  }
  write_file(file, lines);
  return {{{"dialogues", dialogues},
           {"too_long", too_long},
           {"tokens", tokens},
           {"answer_tokens", answer_tokens},
           {"file", file}},
          fmt::format("{}: {} dialogues of {} tokens in total, {} of them answers{}\n", file,
                      dialogues, tokens, answer_tokens,
                      too_long > 0 ? fmt::format(" (left out: {} too long)", too_long) : "")};
}

}  // namespace

MethodAction retrieval_head_dialogues() {
  using Kind = ActionOption::Kind;
  return {
      .name = "dialogues",
      .summary =
          "Answer dialogues with the model, and write what tools/train_retrieval_head.py reads",
      .example = "--model DIR --dataset mt-squad --data squad=DIR --limit 400 -o dialogues.jsonl",
      .notes =
          "The last question of each dialogue is answered greedily under full attention, after the "
          "references as answers to the earlier ones.",
      .options = {{.name = "output",
                   .letter = 'o',
                   .required = true,
                   .description = "file to write: token ids and the spans of answers, as JSON, one "
                                  "dialogue a line"},
                  {.name = "answer-tokens",
                   .kind = Kind::kInteger,
                   .fallback = "32",
                   .description = "tokens of an answer, at most",
                   .min = 1,
                   .max = 1 << 16},
                  {.name = "longest",
                   .kind = Kind::kInteger,
                   .fallback = "2048",
                   .description =
                       "tokens of a prompt and --answer-tokens together; dialogues with more are "
                       "left out",
                   .min = 2,
                   .max = 1 << 24}},
      .reads_dialogues = true,
      .run = answer_dialogues};
}

}  // namespace turnbench
