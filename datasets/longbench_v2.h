#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "datasets/dialogue.h"

namespace turnbench {

/// The records of LongBench v2 (Bai et al. 2024) for which one accuracy is published.
struct LongBenchV2Set {
  std::string_view suffix;  ///< of the dataset's name; "" for all records
  std::string_view field;   ///< difficulty or length; "" for all records
  std::string_view value;   ///< of the field in these records
  std::string_view description;
};

/// All records, then the sets of the columns of the official `result.py`.
std::span<const LongBenchV2Set> longbench_v2_sets();

/// The official prompt template, `prompts/0shot.txt`: in the directory of `source`, in its
/// prompts/, or in the neighbouring prompts/.
/// @throws Error (input) if there is no such file, or if it lacks a field or names one twice.
std::string load_longbench_v2_prompt(const std::filesystem::path& source);

/// Reads the native file, a JSON array of {"_id", "domain", "sub_domain", "difficulty", "length",
/// "question", "choice_A" to "choice_D", "answer", "context"}.  The task of a dialogue is its
/// record's domain; the source of every paragraph is "context".  With a `prompt` (not empty), the
/// turn is that template with the fields inserted as in the official `pred.py`; otherwise the
/// wording is our own.  The official evaluation leaves empty answers out of its mean; here they
/// score 0.
/// @throws Error (input) for other fields, wrong types and other values of difficulty, length and
/// answer.
std::vector<Dialogue> read_longbench_v2(const std::filesystem::path& file,
                                        const LongBenchV2Set& set, const std::string& name,
                                        std::size_t limit, const std::string& prompt = "");

}  // namespace turnbench
