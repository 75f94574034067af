#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "datasets/dialogue.h"

namespace turnbench {

/// Which of a meeting's queries are asked.
enum class MeetingQueries { kGeneral, kSpecific, kAll };

/// QMSum (Zhong et al. 2021), a meeting a line: {"meeting_transcripts": [{"speaker", "content"}],
/// "general_query_list": [{"query", "answer"}], "specific_query_list": the same with
/// "relevant_text_span", "topic_list"}.  Each meeting is a dialogue whose first turn has the
/// transcript and whose turns are its queries, the general ones first; meetings without any are
/// left out.  "SPEAKER: CONTENT" is a line; consecutive lines of together some 500 bytes are a
/// paragraph with the source "utterances-FIRST-LAST", numbers from 0 as in the file.  Relevant to a
/// specific query are the paragraphs that its spans touch, to a general one all.  Scored by Rouge-L
/// of rouge-score, as summaries of QMSum usually are (the official ROUGE-1.5.5 stems words, this
/// does not).  Refuses, with file, line and field, other fields, wrong types, empty queries and
/// answers, meetings without a transcript, and spans outside it.
std::vector<Dialogue> read_qmsum(const std::filesystem::path& file, MeetingQueries queries,
                                 const std::string& name, std::size_t limit);

}  // namespace turnbench
