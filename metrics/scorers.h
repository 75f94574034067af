#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace turnbench {

class Segmenter;

namespace scorers {

/// One answer against one reference (or against all, where the rule needs them together).  Every
/// function returns a score in [0, 1] and restates the behaviour of the official scorer that it
/// names.  Texts are UTF-8; ill-formed bytes are scored as U+FFFD.  Time is linear in the texts
/// unless a comment says otherwise.

using Texts = std::span<const std::string>;

// qa_f1.cpp: multiset overlap of tokens, 2pr / (p + r); LongBench `metrics.py`.

/// Tokens are the words of the normalised texts.
double qa_f1(std::string_view prediction, std::string_view reference);
/// Tokens are jieba's, each normalised.
double qa_f1_zh(std::string_view prediction, std::string_view reference,
                const Segmenter& segmenter);
/// Tokens are the characters of the normalised texts (InfiniteBench and SCBench, qa_chn).
double character_f1(std::string_view prediction, std::string_view reference);

// exact_match.cpp

/// Whether the LongBench-normalised texts are equal.
double exact_match(std::string_view prediction, std::string_view reference);

// accuracy.cpp

/// Whether the label that the prediction states is the reference; all texts are
/// LongBench-normalised. With `classes` the stated label is the class that occurs first in the
/// prediction, the longest of those that start there, and none if no class occurs.  Without, it is
/// the whole prediction.
double accuracy(std::string_view prediction, std::string_view reference, Texts classes);

// rouge_pltrdy.cpp: rouge-l of the PyPI package `rouge` 1.0.1, exclusive mode.

struct RougeL {
  double f = 0;
  /// The official scorer runs into CPython 3.11's recursion limit here and gives 0.
  bool recursion_zero = false;
};

/// Rebuilding the LCS may take this many steps when called as LongBench calls it; one less in
/// Chinese, where the call stands one function deeper.
inline constexpr std::size_t kMaxRougeSteps = 990;
inline constexpr std::size_t kMaxRougeZhSteps = kMaxRougeSteps - 1;

/// O(words x words / 64) time, at most 2^30 pairs of words: more are refused.
RougeL rouge(std::string_view prediction, std::string_view reference,
             std::size_t max_steps = kMaxRougeSteps);
/// The same over jieba's tokens joined by spaces.
RougeL rouge_zh(std::string_view prediction, std::string_view reference,
                const Segmenter& segmenter);

// rouge_l_recall.cpp

/// LCS(C, R) / |R| over the words between white space as they stand (LoopServe, section 6.1.3); 0
/// for an empty reference.  O(words x words / 64), at most 2^36 pairs of words.
double rouge_l_recall(std::string_view prediction, std::string_view reference);

// rouge_score.cpp: google's `rouge-score` 0.1.2 without stemmer; tokens are runs of [a-z0-9].

/// F of rougeL.  O(words x words / 64), at most 2^36 pairs of words.
double rouge_score_l(std::string_view prediction, std::string_view reference);
/// F of rougeLsum: sentences are lines.  O(words x words), at most 2^30 pairs of words.
double rouge_score_lsum(std::string_view prediction, std::string_view reference);

// classification.cpp

/// LongBench `classification_score`, with the list that loses entries while it is walked.
double classification(std::string_view prediction, std::string_view reference, Texts classes);

// count.cpp

/// Share of the prediction's digit runs that equal the reference as strings; 0 without digits.
double count(std::string_view prediction, std::string_view reference);

// retrieval.cpp

/// `count` with the number of the reference's first "Paragraph N" or "段落N"; refuses a reference
/// that has none.
double retrieval(std::string_view prediction, std::string_view reference);
double retrieval_zh(std::string_view prediction, std::string_view reference);

// code_sim.cpp: fuzzywuzzy 0.18.0 `ratio` of the first line that holds no '`', '#' or "//".

/// On difflib, as LongBench's requirements install it.  At most 2^26 pairs of characters; the worst
/// case is cubic in the shorter text, ordinary code far from it.
double code_sim(std::string_view prediction, std::string_view reference);
/// On python-Levenshtein (InDel).  O(characters x characters / 64), at most 2^36 pairs.
double code_sim_levenshtein(std::string_view prediction, std::string_view reference);

// infinitebench.cpp: InfiniteBench `src/compute_scores.py`.  Labels are the references in order.

double infinitebench_first_number(std::string_view prediction, Texts labels);
double infinitebench_kv_retrieval(std::string_view prediction, Texts labels);
double infinitebench_dialogue_qa(std::string_view prediction, Texts labels);
double infinitebench_choice(std::string_view prediction, Texts labels);
double infinitebench_math_find(std::string_view prediction, Texts labels);
double infinitebench_math_calc(std::string_view prediction, Texts labels);
double infinitebench_code_run(std::string_view prediction, Texts labels);
/// Labels: the function's name and the option's letter.
double infinitebench_code_debug(std::string_view prediction, Texts labels);

// scbench.cpp: SCBench `scbench/compute_scores.py`, where it differs from InfiniteBench.

double scbench_kv(std::string_view prediction, Texts labels);
double scbench_qa(std::string_view prediction, Texts labels);
double scbench_math_find(std::string_view prediction, Texts labels);
double scbench_vt(std::string_view prediction, Texts labels);

// ruler.cpp: RULER `scripts/eval`.

double ruler_match_all(std::string_view prediction, Texts references);
double ruler_match_part(std::string_view prediction, Texts references);

// leval.cpp: L-Eval `Evaluation/auto_eval.py`, exam.  References of multiple choice are letters
// from A to D.  An answer that names none counts as A, an empty one scores a quarter; so do some of
// several right letters.

/// The first of the letters in the prediction.
double leval_letter(std::string_view prediction, std::string_view reference);
/// The letters that the prediction begins with, if they are several; otherwise those of its part
/// before "Question" that stand before white space, '.' or ')'.
double leval_letters(std::string_view prediction, std::string_view reference);

/// Whether the numbers are equal, or the first line of several characters holds the reference,
/// without regard to case and spaces; of a reference of such letters alone as above.
double leval_stated(std::string_view prediction, std::string_view reference);
/// The same of what code gives: the words behind "the final output", or the last ones, three more
/// than the reference has, and both without commas and quotes.
double leval_code(std::string_view prediction, std::string_view reference);

// gsm8k.cpp

/// Whether the last numbers of the prediction's part before "\nQuestion: " and of the reference are
/// equal (PQCache `GSM8k/evaluation_gsm8k.py`; thousands separators dropped, signs not read).
double gsm8k(std::string_view prediction, std::string_view reference);

// longbench_write.cpp

/// Length score S_l of LongBench-Write; the reference is the length asked for.
double longbench_write_length(std::string_view prediction, std::string_view reference);

/// What LongBench-Write counts as an answer's length: Chinese characters and English words.
std::size_t longbench_write_words(std::string_view text);

}  // namespace scorers
}  // namespace turnbench
