#include "harness/experiment/protocol.h"

#include <nlohmann/json.hpp>

#include "common/file.h"

namespace turnbench {

std::string protocol_card(const Experiment& experiment, const ResolvedModel& model,
                          const ResolvedDataset& dataset) {
  const Manifest& m = experiment.manifest;
  const Decoding decoding = experiment.decoding(model);
  const PromptRenderer renderer = experiment.renderer(model);
  // The rendered template: a change of its text changes the card.
  Dialogue probe;
  Turn turn;
  turn.instruction = "instruction";
  turn.contexts = {{"a", "first context"}, {"b", "second context"}};
  turn.question = "question?";
  turn.position = Position::kMiddle;
  turn.gold = "answer";
  probe.turns = {turn, turn};
  std::vector<int> rendered = renderer.render(probe, 0, 0).tokens;
  // A model's own template may support only one turn; the hash of its text covers the rest.
  const bool own = model.chat_template.name == "own";
  if (!own) {
    for (const auto& more :
         {renderer.gold_answer_tokens(turn), renderer.render(probe, 1, 0).tokens}) {
      rendered.insert(rendered.end(), more.begin(), more.end());
    }
  }
  OrderedJson card;
  if (!m.smoke.empty()) card["smoke"] = m.smoke;
  // In smoke runs, the stand-in model: cells of several labels are equal there.
  const bool stands_in = !m.smoke.empty() && !model.entry.path.empty();
  card["model"] = {{"name", stands_in ? model.entry.path : model.entry.name},
                   {"weights", model.hash},
                   {"dtype", name_of(model.dtype)},
                   {"kv_dtype", name_of(model.entry.kv_dtype)},
                   {"arithmetic", name_of(model.entry.math)}};
  card["prompt"] = {
      {"template", model.chat_template.name},
      {"template_hash", hash_bytes(std::as_bytes(std::span(rendered)))},
      {"system_prompt", m.system_prompt},
      {"stop_tokens", renderer.stop_tokens()},
      {"max_prompt_tokens", decoding.max_prompt_tokens},
      {"truncation", dataset.entry.official_prompts
                         ? "LongBench's: first and last half of max_prompt_tokens, decoded and "
                           "joined before the template wraps them"
                         : "each turn to its equal share of max_prompt_tokens; tokens leave the "
                           "middle of its contexts"}};
  if (m.past_positions) card["prompt"]["past_positions"] = "allowed";
  if (own) card["prompt"]["template_text"] = hash_text(model.chat_template.text);
  card["decoding"] = {
      {"temperature", decoding.temperature},
      {"seed", decoding.seed},
      {"max_new_tokens", decoding.max_new_tokens > 0 ? OrderedJson(decoding.max_new_tokens)
                                                     : OrderedJson("the dataset's own")}};
  if (decoding.isolated)
    card["isolated"] = "each cell by itself after a warm-up; answers of exactly max_new_tokens";
  if (decoding.link_gbps > 0) card["link_gbps"] = decoding.link_gbps;
  if (decoding.fidelity) card["fidelity"] = {{"along", name_of(*decoding.fidelity)}};
  card["dataset"] = {{"name", dataset.entry.name},
                     {"dialogues", dataset.hash},
                     {"count", dataset.size},
                     {"metric", dataset.metric},
                     {"postprocess", dataset.postprocess}};
  return card.dump(1);
}

}  // namespace turnbench
