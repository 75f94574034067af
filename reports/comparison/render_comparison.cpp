#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "common/text.h"
#include "reports/comparison/method_comparison.h"
#include "reports/escape.h"
#include "reports/estimate_json.h"
#include "reports/number_text.h"

namespace turnbench {
namespace {

// Bytes of a text that an example shows.
constexpr std::size_t kExampleQuestion = 600, kExampleReferences = 300, kExampleAnswer = 600;

std::string example_text(std::string_view text, std::size_t most) {
  return escape_markdown(shorten(text, most));
}

std::string part_row(const ComparisonPart& part, int digits) {
  std::vector<std::string> fields = {
      part.dimension.empty() ? "all" : escape_markdown(part.dimension + " " + part.value),
      estimate_text(part.first, digits), estimate_text(part.second, digits)};
  if (part.difference) {
    const PValue& p = part.difference->against_zero;
    fields.push_back(estimate_text(part.difference->estimate, digits, /*sign=*/true));
    fields.push_back(p_text(p.p).substr(2));
    fields.push_back(p_text(p.adjusted).substr(2));
    fields.push_back(std::to_string(part.difference->estimate.dialogues));
  } else {
    fields.insert(fields.end(), 4, "");
  }
  return markdown_row(fields);
}

std::string example_markdown(const ComparisonExample& example, const MethodComparison& of) {
  const AnsweredTurn& turn = example.turn;
  const Cell& c = turn.cell;
  std::string out = fmt::format(
      "### {}, {}, turn {}\n\n{}, question at the {}{}\n\n**Question:** {}\n\n**References:** "
      "{}\n\n| method | score | answer |\n| --- | ---: | --- |\n",
      escape_markdown(c.dataset), escape_markdown(turn.dialogue), turn.turn + 1,
      escape_markdown(c.model), escape_markdown(c.position),
      example.length > 0 ? fmt::format(", {} tokens of prompt", example.length) : "",
      example_text(turn.question, kExampleQuestion),
      example_text(join(turn.references, " / "), kExampleReferences));
  const double scores[] = {example.first, example.second};
  for (std::size_t i = 0; i < turn.answers.size(); ++i) {
    out += markdown_row({escape_markdown(turn.answers[i].method),
                         number_text(scores[i], of.unit.digits),
                         example_text(turn.answers[i].answer, kExampleAnswer)});
  }
  return out + "\n";
}

OrderedJson part_json(const ComparisonPart& part) {
  OrderedJson out = {
      {"dimension", part.dimension.empty() ? OrderedJson(nullptr) : OrderedJson(part.dimension)},
      {"value", part.dimension.empty() ? OrderedJson(nullptr) : OrderedJson(part.value)}};
  put_estimate(out["a"], part.first);
  put_estimate(out["b"], part.second);
  out["difference"] = part.difference ? difference_json(*part.difference) : OrderedJson(nullptr);
  return out;
}

OrderedJson example_json(const ComparisonExample& example) {
  OrderedJson out = to_json(example.turn);
  out["prompt_tokens"] = example.length > 0 ? OrderedJson(example.length) : OrderedJson(nullptr);
  out["a"] = example.first;
  out["b"] = example.second;
  return out;
}

}  // namespace

std::string comparison_markdown(const MethodComparison& comparison) {
  const std::string first = escape_markdown(comparison.first),
                    second = escape_markdown(comparison.second);
  std::string out =
      fmt::format("# {} and {}: {}\n\n", first, second, escape_markdown(comparison.experiment));
  out += markdown_row({"part", first, second, "difference", "p", "p adjusted", "dialogues"}) +
         "| --- | ---: | ---: | ---: | ---: | ---: | ---: |\n";
  for (const ComparisonPart& part : comparison.parts) out += part_row(part, comparison.unit.digits);
  const std::string quantity = comparison.metric.empty() ? "" : " by " + comparison.metric;
  out +=
      "\n" +
      markdown_paragraph(fmt::format(
          "Means{} with 95% intervals over dialogues, on the turns for which both methods have a "
          "score{}; "
          "difference: {} minus {}, paired, with its interval and its p (sign flips), also "
          "adjusted for all differences of this table (step-down maxT). A part averages over "
          "the cells that have turns in it, with equal weight.",
          comparison.unit.is_share() ? " x100" : "", quantity, comparison.first,
          comparison.second)) +
      "\n\n" +
      fmt::format("Equal answers: {} of {} turns ({:.1f}%).\n", comparison.equal_answers,
                  comparison.answers,
                  comparison.answers == 0 ? 0.0
                                          : 100.0 * static_cast<double>(comparison.equal_answers) /
                                                static_cast<double>(comparison.answers));
  for (const std::string& note : comparison.notes) out += "\n" + markdown_paragraph(note) + "\n";
  for (const bool better : {true, false}) {
    const auto& examples = better ? comparison.better : comparison.worse;
    if (examples.empty()) continue;
    out +=
        fmt::format("\n## {} better than {}\n\n", better ? first : second, better ? second : first);
    for (const ComparisonExample& example : examples) out += example_markdown(example, comparison);
  }
  return out;
}

std::string comparison_json(const MethodComparison& comparison) {
  OrderedJson out = {
      {"experiment", comparison.experiment},
      {"a", comparison.first},
      {"b", comparison.second},
      {"metric", comparison.metric.empty() ? OrderedJson(nullptr) : OrderedJson(comparison.metric)},
      {"unit", std::string(comparison.unit.unit)},
      {"parts", OrderedJson::array()},
      {"answers", comparison.answers},
      {"equal_answers", comparison.equal_answers}};
  for (const ComparisonPart& part : comparison.parts) out["parts"].push_back(part_json(part));
  out["a_better"] = OrderedJson::array();
  out["b_better"] = OrderedJson::array();
  for (const ComparisonExample& example : comparison.better)
    out["a_better"].push_back(example_json(example));
  for (const ComparisonExample& example : comparison.worse)
    out["b_better"].push_back(example_json(example));
  out["notes"] = comparison.notes;
  return json_document(out);
}

}  // namespace turnbench
