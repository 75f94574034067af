#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "datasets/build_options.h"
#include "datasets/dialogue.h"

namespace turnbench {

// LongEval (Li et al. 2023, LongChat): native files of its two tasks, and dialogues made from its
// pool of conversations.

/// Reads N_topics.jsonl: conversations on N topics, and the question which topic was the first.  A
/// paragraph is a user message with its answer; its source is "topic-1", ...
/// @throws Error (input), with file, line and field, for prompts without the sentences that begin
/// and end the conversations, and for unequal numbers of conversations and topics.
std::vector<Dialogue> read_longeval_topics(const std::filesystem::path& file,
                                           const std::string& name, std::size_t limit);

/// Reads N_lines.jsonl: lines with a number each, and the question which number one of them has.  A
/// paragraph has eight lines; its source is "lines-1", ...
std::vector<Dialogue> read_longeval_lines(const std::filesystem::path& file,
                                          const std::string& name, std::size_t limit);

/// Makes dialogues from conversations.jsonl, as in LoopServe's section 3.2 (figures 4 and 5):
/// conversations on three topics, two of which are to be summarized.  The seed draws the topics
/// from the pool.  The paper names no references and no metric.  Here the references are the two
/// conversations themselves: Rouge-L recall measures how much of them the summary contains.
std::vector<Dialogue> make_longeval_summaries(const std::filesystem::path& file,
                                              const std::string& name, const BuildOptions& options);

}  // namespace turnbench
