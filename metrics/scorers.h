#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace turnbench {

class Segmenter;

namespace scorers {

/// Scores of one answer against one reference, or against all references if the rule needs them
/// together.  Every function returns a score in [0, 1] and reproduces the official scorer that its
/// comment names.  Texts are UTF-8; ill-formed bytes are read as U+FFFD.  Time is linear in the
/// length of the texts unless a comment says otherwise.

using Texts = std::span<const std::string>;

// qa_f1.cpp: F1 over the multisets of tokens, 2pr / (p + r); LongBench `metrics.py`.

/// Tokens are the words of the normalized texts.
double qa_f1(std::string_view prediction, std::string_view reference);
/// Tokens are jieba's, each normalized.
double qa_f1_zh(std::string_view prediction, std::string_view reference,
                const Segmenter& segmenter);
/// Tokens are the characters of the normalized texts (InfiniteBench and SCBench, qa_chn).
double character_f1(std::string_view prediction, std::string_view reference);

// exact_match.cpp

/// 1 if the LongBench-normalized texts are equal.
double exact_match(std::string_view prediction, std::string_view reference);

// accuracy.cpp

/// 1 if the predicted label is the reference.  All texts are LongBench-normalized.  With `classes`,
/// the predicted label is the class that occurs first in the prediction, and the longest if several
/// start there; if no class occurs, the score is 0.  Without `classes` it is the whole prediction.
double accuracy(std::string_view prediction, std::string_view reference, Texts classes);

// rouge.cpp: rouge-l of the PyPI package `rouge` 1.0.1, exclusive mode.

struct RougeL {
  double f = 0;
  /// The official scorer runs into CPython 3.11's recursion limit here and gives 0.
  bool recursion_zero = false;
};

/// The official scorer reconstructs the LCS by recursion.  This is the number of steps that fit
/// into Python's recursion limit when LongBench calls it; one less for Chinese, whose call is one
/// function deeper.
inline constexpr std::size_t kMaxRougeSteps = 990;
inline constexpr std::size_t kMaxRougeZhSteps = kMaxRougeSteps - 1;

/// O(words x words / 64) time.
/// @throws Error (input) for more than 2^30 pairs of words.
RougeL rouge(std::string_view prediction, std::string_view reference,
             std::size_t max_steps = kMaxRougeSteps);
/// The same over jieba's tokens joined by spaces.
RougeL rouge_zh(std::string_view prediction, std::string_view reference,
                const Segmenter& segmenter);

// rouge_l_recall.cpp

/// LCS(C, R) / |R| over the words between white space, not normalized (LoopServe, section 6.1.3); 0
/// for an empty reference.  O(words x words / 64), at most 2^36 pairs of words.
double rouge_l_recall(std::string_view prediction, std::string_view reference);

// rouge_score.cpp: google's `rouge-score` 0.1.2 without stemmer; tokens are runs of [a-z0-9].

/// F of rougeL.  O(words x words / 64), at most 2^36 pairs of words.
double rouge_score_l(std::string_view prediction, std::string_view reference);
/// F of rougeLsum: sentences are lines.  O(words x words), at most 2^30 pairs of words.
double rouge_score_lsum(std::string_view prediction, std::string_view reference);

// classification.cpp

/// LongBench `classification_score`, including its quirk: it removes entries from the list of
/// matched classes while iterating over it.
double classification(std::string_view prediction, std::string_view reference, Texts classes);

// count.cpp

/// Fraction of the prediction's runs of digits that equal the reference as strings; 0 if there are
/// none.
double count(std::string_view prediction, std::string_view reference);

// retrieval.cpp

/// `count` against the number in the reference's first "Paragraph N" or "段落N".
/// @throws Error (input) if the reference has none.
double retrieval(std::string_view prediction, std::string_view reference);
double retrieval_zh(std::string_view prediction, std::string_view reference);

// code_sim.cpp: fuzzywuzzy 0.18.0 `ratio` of the first line that contains no '`', '#' or "//".

/// With difflib, as LongBench's requirements install it.  At most 2^26 pairs of characters.  The
/// worst case is cubic in the shorter text; ordinary code is far from it.
double code_sim(std::string_view prediction, std::string_view reference);
/// With python-Levenshtein (InDel).  O(characters x characters / 64), at most 2^36 pairs.
double code_sim_levenshtein(std::string_view prediction, std::string_view reference);

// infinitebench.cpp: InfiniteBench `src/compute_scores.py`.  Labels are the references in order.

double infinitebench_first_number(std::string_view prediction, Texts labels);
double infinitebench_kv_retrieval(std::string_view prediction, Texts labels);
double infinitebench_dialogue_qa(std::string_view prediction, Texts labels);
double infinitebench_choice(std::string_view prediction, Texts labels);
double infinitebench_math_find(std::string_view prediction, Texts labels);
double infinitebench_math_calc(std::string_view prediction, Texts labels);
double infinitebench_code_run(std::string_view prediction, Texts labels);
/// Labels: the name of the function and the letter of the option.
double infinitebench_code_debug(std::string_view prediction, Texts labels);

// scbench.cpp: SCBench `scbench/compute_scores.py`, where it differs from InfiniteBench.

double scbench_kv(std::string_view prediction, Texts labels);
double scbench_qa(std::string_view prediction, Texts labels);
double scbench_math_find(std::string_view prediction, Texts labels);
double scbench_vt(std::string_view prediction, Texts labels);

// ruler.cpp: RULER `scripts/eval`.

double ruler_match_all(std::string_view prediction, Texts references);
double ruler_match_part(std::string_view prediction, Texts references);

// leval.cpp: L-Eval `Evaluation/auto_eval.py`, exam.  The references of multiple choice are letters
// from A to D.  An answer without a letter counts as A.  An empty answer scores 0.25, and so does
// an answer with some but not all of several right letters.

/// Scores the first letter in the prediction.
double leval_letter(std::string_view prediction, std::string_view reference);
/// Scores the letters that the prediction begins with, if there are several; otherwise the letters
/// before white space, '.' or ')' in the part before "Question".
double leval_letters(std::string_view prediction, std::string_view reference);

/// 1 if the numbers are equal, or if the first line with several characters contains the reference,
/// ignoring case and spaces.  If the reference consists of letters from A to D, as `leval_letters`.
double leval_stated(std::string_view prediction, std::string_view reference);
/// The same for the output of code: compares the words after "the final output", or else the last
/// words, three more than the reference has.  Commas and quotes are removed from both.
double leval_code(std::string_view prediction, std::string_view reference);

// locomo.cpp: LoCoMo `task_eval/evaluation.py`; REALTALK `eval_memory/qa_tool.py` is the same.

/// F1 over the stems (see `porter_stem`) of the words of the normalized texts: temporal,
/// open-domain and single-hop questions.
double locomo_f1(std::string_view prediction, std::string_view reference);
/// Multi-hop questions: mean over the comma-separated parts of the reference of the maximum
/// `locomo_f1` over those of the prediction.  At most 2^22 pairs of parts.
double locomo_multi_hop(std::string_view prediction, std::string_view reference);
/// Adversarial questions: 1 if the prediction contains "no information available" or "not
/// mentioned", regardless of case.  References after the first are the right options, "(a)" or
/// "(b)"; with them, an answer of one or three characters counts as option a if it is "a" or "(a)",
/// and otherwise as option b (`get_cat_5_answer` of `task_eval/gpt_utils.py`).
double locomo_adversarial(std::string_view prediction, Texts references);

// longbench_v2.cpp

/// 1 if the letter after "The correct answer is" is the reference (LongBench v2 `pred.py`): the
/// first one in parentheses, or, if there is none, the first one without.  Asterisks are ignored.
double longbench_v2(std::string_view prediction, std::string_view reference);

// gsm8k.cpp

/// 1 if the last number before "\nQuestion: " in the prediction equals the last number of the
/// reference (PQCache `GSM8k/evaluation_gsm8k.py`).  Ignores thousands separators and signs.
double gsm8k(std::string_view prediction, std::string_view reference);

// longbench_write.cpp

/// Length score S_l of LongBench-Write; the reference is the requested length.
double longbench_write_length(std::string_view prediction, std::string_view reference);

/// The length of an answer as LongBench-Write counts it: Chinese characters plus English words.
std::size_t longbench_write_words(std::string_view text);

}  // namespace scorers
}  // namespace turnbench
