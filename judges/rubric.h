#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace turnbench {

/// The prompt with which a language model judges answers, and the form of its reply.
struct Rubric {
  enum class Reply {
    kJson,  ///< an object with a number for each dimension
    kYesNo
  };
  std::string name, text, hash;  ///< of the rubric file
  Reply reply = Reply::kJson;
  double low = 0, high = 1;  ///< the scale of every dimension
  std::vector<std::string> dimensions;
  std::string overall;     ///< the dimension that is the score; empty: the mean of all dimensions
  bool last_turn = false;  ///< judge only the last answer of a dialogue
  std::optional<double> temperature;  ///< for the request; none: the server's default
  int max_tokens = 0;                 ///< maximum length of the reply; 0: the server's default
  std::string prompt;                 ///< a template with {answer} and others of `prompt_fields`
  /// A text for {guidance}.  The first one whose conditions match the dialogue is used.
  struct Guidance {
    std::string task, id_ending;  ///< conditions; empty: any dialogue
    std::string text;
  };
  std::vector<Guidance> guidance;

  /// The metric `judge:NAME`, or `judge:NAME:DIMENSION` for a dimension.
  std::string metric(std::string_view dimension = "") const;
};

/// Lower case (ASCII), without spaces, dashes and underscores: "Reading_Experience" and "reading
/// experience" name the same dimension.
std::string normalized_name(std::string_view name);

/// The fields that a prompt may contain in braces.
const std::vector<std::string_view>& prompt_fields();

/// Reads a rubric: lines of `key: value` (`#` begins a comment), then the sections [prompt] and
/// [guidance], [guidance task=NAME], [guidance id=*ENDING].  docs/judges.md lists the keys.
/// `source` names the text in messages.
/// @throws Error (input), with file and line, for unknown keys and fields, and for missing ones.
Rubric parse_rubric(const std::string& text, const std::string& name, const std::string& source);

/// Loads a rubric file, or a rubric of `rubrics_directory` by its name.
Rubric load_rubric(const std::string& name_or_file);

/// The directory of the rubric files; see `project_directory`.
std::filesystem::path rubrics_directory();
std::vector<std::string> rubric_names();

}  // namespace turnbench
