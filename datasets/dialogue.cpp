#include "datasets/dialogue.h"

#include "common/error.h"
#include "common/json.h"
#include "common/text.h"

namespace turnbench {

std::string_view name_of(Position position) {
  switch (position) {
    case Position::kBegin:
      return "begin";
    case Position::kMiddle:
      return "middle";
    case Position::kEnd:
      return "end";
  }
  return "";
}

Position parse_position(std::string_view name, const std::string& where) {
  for (Position position : {Position::kBegin, Position::kMiddle, Position::kEnd}) {
    if (name == name_of(position)) return position;
  }
  throw input_error("{}: found the position \"{}\", expected begin, middle or end", where,
                    printable(shorten(name, 60)));
}

std::string_view name_of(Layout layout) {
  switch (layout) {
    case Layout::kPieces:
      return "pieces";
    case Layout::kVerbatim:
      return "verbatim";
    case Layout::kPlain:
      return "plain";
  }
  return "";
}

std::size_t question_index(const Turn& turn) {
  const std::size_t n = turn.contexts.size();
  if (turn.position == Position::kEnd) return n;
  if (turn.position == Position::kBegin || n < 2) return 0;
  std::size_t total = 0;
  for (const Paragraph& paragraph : turn.contexts) total += paragraph.text.size();
  std::size_t best = 1, best_distance = SIZE_MAX, before = 0;
  for (std::size_t slot = 1; slot < n; ++slot) {
    before += turn.contexts[slot - 1].text.size();
    const std::size_t twice = 2 * before;
    const std::size_t distance = twice > total ? twice - total : total - twice;
    if (distance < best_distance) {
      best_distance = distance;
      best = slot;
    }
  }
  return best;
}

std::string gold_answer_text(const Turn& turn) {
  if (!turn.has_gold) return "";
  return turn.gold.empty() && !turn.references.empty() ? turn.references[0] : turn.gold;
}

void check_position(const Dialogue& dialogue, Position position) {
  for (const Turn& turn : dialogue.turns) {
    if (turn.layout != Layout::kPieces && position != Position::kEnd) {
      throw input_error("{}: found the position {}, expected end, where the official prompt has it",
                        dialogue.dataset, name_of(position));
    }
  }
}

std::optional<Position> common_position(std::span<const Dialogue> dialogues) {
  std::optional<Position> out;
  for (const Dialogue& dialogue : dialogues) {
    for (const Turn& turn : dialogue.turns) {
      if (out && *out != turn.position) return std::nullopt;
      out = turn.position;
    }
  }
  return out;
}

Dialogue with_questions_at(Dialogue dialogue, Position position) {
  check_position(dialogue, position);
  for (Turn& turn : dialogue.turns) turn.position = position;
  return dialogue;
}

std::vector<Dialogue> split_into_single_turns(std::span<const Dialogue> dialogues,
                                              std::size_t limit) {
  std::vector<Dialogue> out;
  for (const Dialogue& dialogue : dialogues) {
    const Turn& first = dialogue.turns[0];
    for (std::size_t i = 0; i < dialogue.turns.size(); ++i) {
      if (limit != 0 && out.size() == limit) return out;
      out.push_back({.id = fmt::format("{}-{}", dialogue.id, i + 1),
                     .dataset = dialogue.dataset,
                     .task = dialogue.task,
                     .metric = dialogue.metric,
                     .turns = {}});
      Turn& alone = out.back().turns.emplace_back(dialogue.turns[i]);
      if (i == 0) continue;
      alone.instruction = first.instruction;
      alone.contexts = first.contexts;
    }
  }
  return out;
}

}  // namespace turnbench
