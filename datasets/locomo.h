#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "datasets/build_options.h"
#include "datasets/conversation.h"

namespace turnbench {

/// The categories of LoCoMo (Maharana et al. 2024): multi-hop, temporal, open-domain, single-hop
/// and adversarial questions.
std::span<const MemoryCategory> locomo_categories();

/// Possible paths of the file in a directory.
std::vector<std::string> locomo_files();

/// Reads locomo10.json (the file `source`, or in that directory or zip archive): a JSON array of
/// conversations with sessions and questions.  Each message is a paragraph, and those in `evidence`
/// are relevant.  Sessions are in the order of their numbers. (The official code for GPT models
/// puts the newest session first.)  The wording is our own.
///
/// References are as in the official evaluation (`task_eval/evaluation.py`): answers to open-domain
/// questions end at the first ";".  An adversarial question has two options: a wrong answer and
/// "Not mentioned in the conversation".  Their order depends on the question's id (officially it is
/// random), and the references are the latter text and its option, "(a)" or "(b)".
///
/// The id of a question is SAMPLE_qaN, for example conv-26_qa0: question N of the conversation
/// SAMPLE, from 0.  `options.leave_out` names a file of ids of questions to leave out.  It may also
/// name question N of conversation I of the file (from 0) locomo_I_qaN, as the audit
/// https://github.com/dial481/locomo-audit does, which lists wrong answers of the official file.
/// @throws Error (input) for other fields, wrong types, repeated ids, and ids to leave out that do
/// not exist.
std::vector<Dialogue> read_locomo(const std::filesystem::path& source,
                                  const MemoryCategory& category, MemoryForm form,
                                  const std::string& name, const BuildOptions& options);

}  // namespace turnbench
