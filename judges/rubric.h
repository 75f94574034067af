#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace turnbench {

/// What a language model is told to judge an answer by, and how its reply reads.
struct Rubric {
  enum class Reply {
    kJson,  ///< an object with a number for each dimension
    kYesNo
  };
  std::string name, text, hash;  ///< the file's, and of it
  Reply reply = Reply::kJson;
  double low = 0, high = 1;  ///< of every dimension
  std::vector<std::string> dimensions;
  std::string overall;                ///< the dimension that is the score; empty: the mean of all
  bool last_turn = false;             ///< only a dialogue's last answer is judged
  std::optional<double> temperature;  ///< of the request; none: the server's own
  int max_tokens = 0;                 ///< of the reply; 0: the server's own
  std::string prompt;                 ///< with {answer} and other fields of `prompt_fields`
  /// What {guidance} stands for: the first whose conditions hold.
  struct Guidance {
    std::string task, id_ending;  ///< empty: of any dialogue
    std::string text;
  };
  std::vector<Guidance> guidance;

  /// `judge:NAME`, and of a dimension `judge:NAME:DIMENSION`.
  std::string metric(std::string_view dimension = "") const;
};

/// "Reading_Experience" and "reading experience" are one dimension: lower case (of ASCII), without
/// spaces, dashes and underscores.
std::string plain_name(std::string_view name);

/// Names that a prompt may hold in braces.
const std::vector<std::string_view>& prompt_fields();

/// Reads a rubric: lines of `key: value` (`#` begins a comment), then the sections [prompt] and
/// [guidance], [guidance task=NAME], [guidance id=*ENDING].  docs/judges.md lists the keys.
/// Refuses, with file and line, unknown keys and fields, and what is missing; `source` names the
/// text in messages.
Rubric parse_rubric(const std::string& text, const std::string& name, const std::string& source);

/// A file, or a name of `rubrics_directory`.
Rubric load_rubric(const std::string& name_or_file);

/// The directory of the rubric files, as `project_directory` finds it.
std::filesystem::path rubrics_directory();
std::vector<std::string> rubric_names();

}  // namespace turnbench
