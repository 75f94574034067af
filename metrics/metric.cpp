#include "metrics/metric.h"

#include <algorithm>

#include "common/error.h"
#include "common/json.h"
#include "common/text.h"
#include "metrics/scorers.h"
#include "metrics/segmenter.h"

namespace turnbench {
namespace {

/// The maximum score over the references, at least 0, as in LongBench's `eval.py`.
template <typename ScoreOne>
double best(const ScoringInput& input, ScoreOne score_one) {
  double best = 0;
  for (const std::string& reference : input.references) {
    best = std::max(best, score_one(reference));
  }
  return best;
}

using OneReference = double (*)(std::string_view, std::string_view);
using AllReferences = double (*)(std::string_view, scorers::Texts);
using WithClasses = double (*)(std::string_view, std::string_view, scorers::Texts);

Metric metric(std::string_view name, std::string_view description, OneReference score) {
  return {name, description, [score](const ScoringInput& input) {
            return best(input, [&](const std::string& reference) {
              return score(input.prediction, reference);
            });
          }};
}

Metric metric(std::string_view name, std::string_view description, AllReferences score) {
  return {name, description,
          [score](const ScoringInput& input) { return score(input.prediction, input.references); }};
}

Metric metric(std::string_view name, std::string_view description, WithClasses score) {
  return {name, description, [score](const ScoringInput& input) {
            return best(input, [&](const std::string& reference) {
              return score(input.prediction, reference, input.classes);
            });
          }};
}

const Segmenter& need_segmenter(const ScoringInput& input) {
  if (input.segmenter == nullptr) {
    throw input_error(
        "found no dictionary of Chinese words, expected the folder of jieba 0.42.1 with dict.txt "
        "and finalseg/");
  }
  return *input.segmenter;
}

template <typename Rouge>
Metric rouge_metric(std::string_view name, std::string_view description, Rouge rouge_l) {
  return {name, description,
          [rouge_l](const ScoringInput& input) {
            return best(input,
                        [&](const std::string& reference) { return rouge_l(input, reference).f; });
          },
          [rouge_l](const ScoringInput& input) -> std::string_view {
            const bool any = std::any_of(input.references.begin(), input.references.end(),
                                         [&](const std::string& reference) {
                                           return rouge_l(input, reference).recursion_zero;
                                         });
            return any ? "recursion_zero" : "";
          }};
}

Metric qa_f1_zh_metric() {
  return {"qa_f1_zh", "F1 over jieba's tokens, normalised (LongBench qa_f1_zh_score)",
          [](const ScoringInput& input) {
            const Segmenter& segmenter = need_segmenter(input);
            return best(input, [&](const std::string& reference) {
              return scorers::qa_f1_zh(input.prediction, reference, segmenter);
            });
          }};
}

/// Prefixes the metric's name to its error messages.
void name_errors(Metric& metric) {
  metric.score = [name = metric.name, score = std::move(metric.score)](const ScoringInput& input) {
    try {
      return score(input);
    } catch (const Error& error) {
      throw Error(error.kind(), fmt::format("metric {}: {}", name, error.what()));
    }
  };
}

std::vector<Metric> longbench_metrics() {
  return {
      metric("classification",
             "1 / number of classes named, if the reference is among them "
             "(LongBench classification_score)",
             scorers::classification),
      metric("code_sim", "difflib similarity of the first line of code (LongBench code_sim_score)",
             scorers::code_sim),
      metric("code_sim_levenshtein",
             "InDel similarity of the first line of code (LongBench code_sim_score where "
             "python-Levenshtein is installed)",
             scorers::code_sim_levenshtein),
      metric("count",
             "share of the answer's numbers that equal the reference (LongBench count_score)",
             scorers::count),
      metric("qa_f1", "F1 over words after normalisation (LongBench qa_f1_score)", scorers::qa_f1),
      qa_f1_zh_metric(),
      metric("retrieval",
             "share of the answer's numbers that equal the paragraph's (LongBench retrieval_score)",
             scorers::retrieval),
      metric("retrieval_zh", "the same for Chinese paragraph names (LongBench retrieval_zh_score)",
             scorers::retrieval_zh),
      rouge_metric("rouge", "F of rouge-l of the package rouge 1.0.1 (LongBench rouge_score)",
                   [](const ScoringInput& input, const std::string& reference) {
                     return scorers::rouge(input.prediction, reference);
                   }),
      rouge_metric("rouge_zh", "rouge over jieba's tokens (LongBench rouge_zh_score)",
                   [](const ScoringInput& input, const std::string& reference) {
                     return scorers::rouge_zh(input.prediction, reference, need_segmenter(input));
                   }),
  };
}

std::vector<Metric> infinitebench_metrics() {
  return {
      metric("infinitebench_code_debug",
             "option letter or function name (InfiniteBench code_debug)",
             scorers::infinitebench_code_debug),
      metric("infinitebench_code_run", "the last word is the whole number (InfiniteBench code_run)",
             scorers::infinitebench_code_run),
      metric("infinitebench_kv_retrieval",
             "the value is a word of the answer (InfiniteBench kv_retrieval)",
             scorers::infinitebench_kv_retrieval),
      metric("infinitebench_longbook_choice_eng",
             "the option chosen (InfiniteBench longbook_choice_eng, SCBench choice_eng)",
             scorers::infinitebench_choice),
      metric("infinitebench_longbook_qa_chn",
             "F1 over characters after normalisation (InfiniteBench longbook_qa_chn)",
             scorers::character_f1),
      metric("infinitebench_longbook_qa_eng",
             "F1 over words after normalisation (InfiniteBench longbook_qa_eng)", scorers::qa_f1),
      metric("infinitebench_longbook_sum_eng",
             "rougeLsum of rouge-score (InfiniteBench longbook_sum_eng)",
             scorers::rouge_score_lsum),
      metric("infinitebench_longdialogue_qa_eng",
             "the first name is a word of the upper-cased answer (InfiniteBench "
             "longdialogue_qa_eng)",
             scorers::infinitebench_dialogue_qa),
      metric(
          "infinitebench_math_calc",
          "share of the numbers that are correct before the first error (InfiniteBench math_calc)",
          scorers::infinitebench_math_calc),
      metric("infinitebench_math_find", "the first number is the label (InfiniteBench math_find)",
             scorers::infinitebench_math_find),
      metric("infinitebench_number_string",
             "the first run of digits is the label (InfiniteBench number_string)",
             scorers::infinitebench_first_number),
      metric("infinitebench_passkey",
             "the first run of digits is the label (InfiniteBench passkey)",
             scorers::infinitebench_first_number),
  };
}

std::vector<Metric> scbench_metrics() {
  return {
      metric("scbench_choice_eng", "the option chosen (SCBench choice_eng)",
             scorers::infinitebench_choice),
      metric("scbench_kv", "the value occurs in the answer (SCBench kv, prefix_suffix, hashhop)",
             scorers::scbench_kv),
      metric("scbench_mf", "the first number, without its fraction, is the label (SCBench mf)",
             scorers::scbench_math_find),
      metric("scbench_passkey", "the first run of digits is the label (SCBench passkey)",
             scorers::infinitebench_first_number),
      metric("scbench_qa_chn", "F1 over characters after normalisation (SCBench qa_chn)",
             scorers::character_f1),
      metric("scbench_qa_eng",
             "any reference occurs, regardless of case (SCBench qa_eng, many_shot)",
             scorers::scbench_qa),
      metric("scbench_summary", "rougeLsum of rouge-score (SCBench summary)",
             scorers::rouge_score_lsum),
      metric("scbench_vt", "share of the references that occur, to two decimals (SCBench vt)",
             scorers::scbench_vt),
  };
}

std::vector<Metric> leval_metrics() {
  return {
      metric("leval_code", "the last words are the output of the code (L-Eval codeU)",
             scorers::leval_code),
      metric("leval_letter", "the first letter from A to D is the reference (L-Eval exam)",
             scorers::leval_letter),
      metric("leval_letters",
             "the marked letters are the reference; a quarter if they are a part of it (L-Eval "
             "coursera)",
             scorers::leval_letters),
      metric("leval_stated",
             "the first line holds the reference, regardless of case and spaces (L-Eval exam)",
             scorers::leval_stated),
  };
}

std::vector<Metric> other_metrics() {
  return {
      metric("accuracy",
             "the first label in the answer (of the classes, if there are any) is the reference, "
             "all LongBench-normalised (LoopServe's accuracy)",
             scorers::accuracy),
      metric("exact_match", "equality of the LongBench-normalised texts", scorers::exact_match),
      metric("gsm8k", "the answer's last number equals the reference's (PQCache evaluation_gsm8k)",
             scorers::gsm8k),
      metric("locomo_adversarial",
             "the answer states that the information is missing, or names this option (LoCoMo, "
             "category 5)",
             scorers::locomo_adversarial),
      metric("locomo_f1", "F1 over stems after normalisation (LoCoMo f1_score, categories 2 to 4)",
             scorers::locomo_f1),
      metric("locomo_multi_hop",
             "mean over the reference's parts of the best locomo_f1 of a part (LoCoMo f1, category "
             "1)",
             scorers::locomo_multi_hop),
      metric("longbench_v2",
             "the letter after \"The correct answer is\" is the reference (LongBench v2 "
             "extract_answer)",
             scorers::longbench_v2),
      metric("longbench_write_length",
             "closeness of the answer's length to the requested length (LongBench-Write S_l)",
             scorers::longbench_write_length),
      metric("rouge_l_recall", "LCS / length of the reference, in words (LoopServe, section 6.1.3)",
             scorers::rouge_l_recall),
      metric("rouge_score_l", "F of rougeL of google's rouge-score, no stemmer",
             scorers::rouge_score_l),
      metric("rouge_score_lsum",
             "F of rougeLsum of google's rouge-score, no stemmer, one sentence per line",
             scorers::rouge_score_lsum),
      metric("ruler_match_all", "share of the references that occur (RULER string_match_all)",
             scorers::ruler_match_all),
      metric("ruler_match_part", "any reference occurs (RULER string_match_part)",
             scorers::ruler_match_part),
  };
}

std::vector<Metric> make_metrics() {
  std::vector<Metric> metrics;
  for (const auto& some : {longbench_metrics(), infinitebench_metrics(), scbench_metrics(),
                           leval_metrics(), other_metrics()})
    metrics.insert(metrics.end(), some.begin(), some.end());
  std::sort(metrics.begin(), metrics.end(),
            [](const Metric& a, const Metric& b) { return a.name < b.name; });
  for (Metric& metric : metrics) {
    metric.needs_segmenter = metric.name == "qa_f1_zh" || metric.name == "rouge_zh";
    name_errors(metric);
  }
  return metrics;
}

}  // namespace

const std::vector<Metric>& all_metrics() {
  static const std::vector<Metric> metrics = make_metrics();
  return metrics;
}

const Metric* known_metric(std::string_view name) {
  const std::vector<Metric>& all = all_metrics();
  const auto found =
      std::find_if(all.begin(), all.end(), [&](const Metric& m) { return m.name == name; });
  return found == all.end() ? nullptr : &*found;
}

bool has_reference(const std::vector<std::string>& references) {
  return std::any_of(references.begin(), references.end(),
                     [](const std::string& reference) { return !trim(reference).empty(); });
}

std::optional<double> score_of(const Metric& metric, const ScoringInput& input) {
  if (!has_reference(input.references)) return std::nullopt;
  return metric.score(input);
}

const Metric& find_metric(std::string_view name, const std::string& where) {
  if (const Metric* metric = known_metric(name)) return *metric;
  std::vector<std::string_view> known;
  for (const Metric& metric : all_metrics()) known.push_back(metric.name);
  throw input_error("{}: found the metric \"{}\", expected {}", where, printable(shorten(name, 60)),
                    nearest_or_listed(name, known, "metrics"));
}

}  // namespace turnbench
