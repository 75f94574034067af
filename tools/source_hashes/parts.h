#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace turnbench {

/// A part of the program: the sources that implement the part of this name, and a hash of their
/// tokens.
struct SourcePart {
  std::string name;
  std::string hash;                ///< 16 hexadecimal digits
  std::vector<std::string> files;  ///< relative to the project, sorted
};

/// The parts of the project in a directory: "engine", "cuda", "prompts", "datasets", "metrics", and
/// one for each method and probe.  A method's or probe's files are the one that describes it and,
/// transitively, what that includes of methods/ and probes/: headers and their sources.
/// @throws std::exception if a file cannot be read.
std::vector<SourcePart> source_parts(const std::filesystem::path& project);

}  // namespace turnbench
