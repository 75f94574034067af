#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "datasets/build_options.h"
#include "datasets/dialogue.h"

namespace turnbench {

// LongEval (Li et al. 2023, LongChat): native files of its two tasks, and its pool of
// conversations.

/// N_topics.jsonl: a record of conversations on N topics; what was the first?  An exchange (what
/// the user says and the answer) is a paragraph; its source is "topic-1", ... .  Refuses, with
/// file, line and field, prompts without the sentences that begin and end the record, and another
/// number of conversations than of topics.
std::vector<Dialogue> read_longeval_topics(const std::filesystem::path& file,
                                           const std::string& name, std::size_t limit);

/// N_lines.jsonl: lines with a number each; which number stands in one of them?  Eight lines are a
/// paragraph with a source of its own, "lines-1", ... .
std::vector<Dialogue> read_longeval_lines(const std::filesystem::path& file,
                                          const std::string& name, std::size_t limit);

/// conversations.jsonl, as in LoopServe's section 3.2 (figures 4 and 5): conversations on three
/// topics, two of which are to be summarized.  Topics are drawn from the pool by the seed.  The
/// paper names no references and no metric: the references are the two conversations themselves, so
/// that Rouge-L recall says how much of them the summary holds.
std::vector<Dialogue> make_longeval_summaries(const std::filesystem::path& file,
                                              const std::string& name, const BuildOptions& options);

}  // namespace turnbench
