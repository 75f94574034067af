#pragma once

#include <span>
#include <vector>

#include "datasets/build_options.h"
#include "datasets/dialogue.h"
#include "datasets/longbench.h"

namespace turnbench {

/// Builds LoopServe's multi-turn long-context benchmark from LongBench records (sections 4.1 and
/// 4.2 and table 3 of the paper).  The datasets are named mt-TASK.
///
/// Specified in the paper:
/// - Question answering: an instance has three turns, made from three randomly selected pairs of
///   question and answer.  Their contexts are split and recombined, and irrelevant contexts added.
/// - Summaries: two randomly selected records.  Their contexts are segmented and recombined into
///   two turns, the source paragraphs are recorded, and noisy contexts added.
/// - Few-shot learning: one record per instance; those with fewer than four examples are left out.
///   The examples are segmented and distributed over two turns; the second refines the answer.
/// - Relevance: the answer of turn j comes from a subset of the contexts of turns 1..j, whose size
///   varies in {1, ..., j}.  A turn's context may be empty.
/// - Position: the question is at the beginning, at the end, or between two segments.
/// - 500 instances per dataset, 199 for few-shot learning (see `published_datasets`).
///
/// Our choices where the paper gives no details:
/// - Turn j asks the question of record j of its group.  The size k of its relevance is drawn
///   uniformly from 1..j (at most the record's number of paragraphs), then k of the turns 1..j are
///   drawn uniformly.  The record's paragraphs are cut at random into k contiguous chunks (each at
///   least half of an even share), which go to those turns in order.  Every chunk is a source,
///   "RECORD#FIRST-LAST" (paragraphs from 1).  So `relevance` has k entries and names turns and
///   paragraphs exactly.
/// - Within a turn whole chunks are shuffled; the paragraphs of a chunk stay in order.
/// - Irrelevant context: each turn gets consecutive paragraphs of a record outside the group, a
///   different record for every turn.  The options bound their number and length; a turn gets none
///   if no record has paragraphs that short.  They are sources as well.
/// - Groups: the records are shuffled and taken in order, repeatedly, so that all are used about
///   equally often.  No group has two records with the same question or the same context.
/// - If a question can only be understood with its document (all tasks except those on passages),
///   each record's context gets a letter.  The question and a heading before each chunk name it.
/// - Few-shot: each turn gets a random number of examples (at least half of an even share), in the
///   record's order.  Every turn asks the record's question; all examples so far are relevant.
/// - Paragraphs come from `split_context`: no sentence and no example is cut.
///
/// The other tasks of LongBench, which LoopServe does not use, follow the same rules.  Tasks with a
/// question per record have three turns, as question answering (multifieldqa_zh, dureader,
/// passage_retrieval_*).  Tasks about a whole document have two, as summaries (vcsum,
/// passage_count, lcc, repobench-p).  Tasks with examples have two, as few-shot learning (triviaqa,
/// lsht).
///
/// Returns dialogues with all questions at the end (`with_questions_at` moves them).  The same
/// records and options give the same bytes on every machine.
/// @throws Error (input) for fewer records than turns, records without enough examples, and a
/// number of turns outside [1, 100].
std::vector<Dialogue> build_multi_turn(const LongBenchTask& task,
                                       std::span<const LongBenchRecord> records,
                                       const BuildOptions& options);

}  // namespace turnbench
