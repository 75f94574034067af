#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "datasets/build_options.h"
#include "datasets/conversation.h"

namespace turnbench {

/// The categories of REALTALK (Lee et al. 2025), with LoCoMo's numbers and names: multi-hop,
/// temporal and open-domain questions.
std::span<const MemoryCategory> realtalk_categories();

/// Possible paths of the first of the ten files in a directory.
std::vector<std::string> realtalk_files();

/// Reads the files Chat_1_Emi_Elise.json, ..., Chat_10_Fahim_Muhhamed.json of the directory or zip
/// archive `source`, or of its folder data/; or the file `source` alone.  A file is a conversation
/// of two people over 21 days with its questions.  Paragraphs, their order and relevance are those
/// of `read_locomo`.  (The official `eval_memory/qa_tool.py` puts the newest session first.)  The
/// wording is our own.
///
/// Answers to open-domain questions end at the first ";", as in the official evaluation.  The id of
/// a question is FILE_qaN, for example Chat_1_Emi_Elise_qa0; `options.leave_out` names a file of
/// ids of questions to leave out.
/// @throws Error (input) for missing files, other fields, wrong types, repeated ids, and ids to
/// leave out that do not exist.
std::vector<Dialogue> read_realtalk(const std::filesystem::path& source,
                                    const MemoryCategory& category, MemoryForm form,
                                    const std::string& name, const BuildOptions& options);

}  // namespace turnbench
