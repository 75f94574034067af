#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "datasets/dialogue.h"

namespace turnbench {

/// Which queries of a meeting are asked.
enum class MeetingQueries { kGeneral, kSpecific, kAll };

/// Reads QMSum (Zhong et al. 2021), one meeting per line: {"meeting_transcripts": [{"speaker",
/// "content"}], "general_query_list": [{"query", "answer"}], "specific_query_list": the same with
/// "relevant_text_span", "topic_list"}. A meeting becomes a dialogue: its queries are the turns,
/// the general ones first, and the first turn has the transcript.  Meetings without queries are
/// skipped.  An utterance is a line "SPEAKER: CONTENT".  Consecutive lines of about 500 bytes in
/// total form a paragraph with the source "utterances-FIRST-LAST", numbered from 0 as in the file.
/// The relevant paragraphs of a specific query are those that overlap its spans; for a general
/// query all are relevant.  The metric is Rouge-L of rouge-score, which is usual for QMSum (unlike
/// the official ROUGE-1.5.5, it does not stem words).
/// @throws Error (input), with file, line and field, for other fields, wrong types, empty queries
/// and answers, meetings without a transcript, and spans outside it.
std::vector<Dialogue> read_qmsum(const std::filesystem::path& file, MeetingQueries queries,
                                 const std::string& name, std::size_t limit);

}  // namespace turnbench
