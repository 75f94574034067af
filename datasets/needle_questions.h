#pragma once

#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/random.h"

namespace turnbench {

/// A question, and the needles (statements to be hidden in filler) that answer it.
struct NeedleQuestion {
  std::vector<std::string> needles = {};      ///< their order is kept
  std::vector<std::string> distractors = {};  ///< of the same form, with other names and values
  std::string question = "";
  std::vector<std::string> references = {};
  std::vector<std::string> classes = {};  ///< all possible answers of a classification, or empty
  std::string gold = "";
};

/// Draws distinct names and values from `random`, which must outlive it.
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

/// A kind of needle question; each is a dataset of that name.
struct NeedleTask {
  std::string_view name, description;
  std::string_view task;  ///< retrieval or tracing, RULER's categories, or reasoning
  std::string_view metric;
  int max_new_tokens = 0;
  bool single_depth = false;   ///< all needles are in one place, so the depth can be chosen
  bool in_uuid_pairs = false;  ///< the filler is pairs of UUIDs, one per line, instead of sentences
  std::string_view instruction;
  NeedleQuestion (*make)(UniqueValues& values) = nullptr;
};

/// Maximum number of turns: there are not enough names for more.
constexpr int kMaxNeedleTurns = 16;

/// All kinds:
/// - needle, multi-key-needle, multi-value-needle, multi-needle: one number of one name; the number
///   of one of four names; four numbers of one name; the numbers of four names (RULER's
///   niah_single, niah_multikey, niah_multivalue, niah_multiquery; Hsieh et al. 2024, section 3,
///   after Kamradt).
/// - needle-reasoning: who cares for an object, and where it is kept; with two chains as
///   distractors.
/// - passkey, number-retrieval, kv-retrieval: as in InfiniteBench (Zhang et al. 2024, section 3).
/// - variable-tracking: one chain of four assignments (RULER's vt with one chain and four hops).
/// Wording, names and values are our own.
std::span<const NeedleTask> needle_tasks();

}  // namespace turnbench
