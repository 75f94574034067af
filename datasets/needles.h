#pragma once

#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/random.h"

namespace turnbench {

/// Statements to be hidden in other text, and a question that they answer.
struct NeedleQuestion {
  std::vector<std::string> needles = {};      ///< keep their order
  std::vector<std::string> distractors = {};  ///< of the same form, about other things
  std::string question = "";
  std::vector<std::string> references = {};
  std::vector<std::string> classes = {};  ///< empty unless one of them is the answer
  std::string gold = "";
};

/// Names and values, each given once.  Draws from `random`, which must outlive it.
class UniqueValues {
 public:
  explicit UniqueValues(Random& random);

  std::string thing();   ///< "marble statue"; 400 of them
  std::string person();  ///< 48 of them
  std::string room();    ///< 48 of them
  std::string number(int digits);
  std::string run_of_digits(int digits);  ///< 7733355200
  std::string variable();                 ///< five capital letters
  std::string uuid();

 private:
  std::string unused(std::string (*draw)(Random&, int), int size);

  Random& random_;
  std::vector<std::string> things_, people_, rooms_;
  std::set<std::string> given_;
};

/// A kind of riddle, which makes a dataset of its name.
struct NeedleTask {
  std::string_view name, description;
  std::string_view task;  ///< RULER's categories: retrieval, tracing; and reasoning
  std::string_view metric;
  int max_new_tokens = 0;
  bool single_depth = false;   ///< all that answers stands in one place, whose depth can be chosen
  bool in_uuid_pairs = false;  ///< hidden among pairs of UUIDs, a line each, instead of sentences
  std::string_view instruction;
  NeedleQuestion (*make)(UniqueValues& values) = nullptr;
};

/// The most turns that there are names for.
constexpr int kMaxNeedleTurns = 16;

/// All kinds:
/// - needle, multi-key-needle, multi-value-needle, multi-needle: one number for a name; one of four
///   names asked; four numbers of one name; four names asked at once (RULER's niah_single,
///   niah_multikey, niah_multivalue, niah_multiquery; Hsieh et al. 2024, section 3, after Kamradt).
/// - needle-reasoning: who keeps what, and where that is; among two like it.
/// - passkey, number-retrieval, kv-retrieval: as in InfiniteBench (Zhang et al. 2024, section 3).
/// - variable-tracking: one chain of four assignments (RULER's vt with one chain and four hops).
/// Wording, names and values are our own.
std::span<const NeedleTask> needle_tasks();

}  // namespace turnbench
