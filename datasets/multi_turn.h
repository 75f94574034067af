#pragma once

#include <span>
#include <vector>

#include "datasets/build_options.h"
#include "datasets/dialogue.h"
#include "datasets/longbench.h"

namespace turnbench {

/// LoopServe's multi-turn long-context benchmark, built from LongBench records (paper, sections 4.1
/// and 4.2 and table 3).  The datasets are named mt-TASK.
///
/// What the paper says:
/// - Question answering: an instance has three turns, made from three randomly selected pairs of
///   question and answer; their contexts are split and recombined, irrelevant contexts added.
/// - Summaries: two randomly selected records; their contexts are segmented and recombined into
///   two turns, source paragraphs are recorded, noisy contexts added.
/// - Few-shot learning: one record an instance, without those of fewer than four examples; its
///   examples are segmented and shared out to two turns, the second of which refines the answer.
/// - Relevance: the answer of turn j comes from a subset of the contexts of turns 1..j, whose size
///   varies in {1, ..., j}.  A turn's context may be empty.
/// - Position: the question stands at the beginning, at the end, or between two segments.
/// - 500 instances a dataset, 199 for the sets of few-shot learning (see `published_datasets`).
///
/// What was decided where it is silent:
/// - Turn j asks record j of its group.  The size k of its relevance is drawn uniformly from 1..j
///   (at most the record's paragraphs), then k of the turns 1..j uniformly.  The record's
///   paragraphs are cut at random into k contiguous chunks (each at least half of its fair share),
///   which go to those turns in order.  Every chunk is a source, "RECORD#FIRST-LAST" (paragraphs
///   from 1), so that `relevance` has k entries and names turns and paragraphs exactly.
/// - Within a turn whole chunks are shuffled; the paragraphs of a chunk stay in order.
/// - Irrelevant context: each turn gets one stretch of consecutive paragraphs from a record outside
///   the group, a different record for every turn, within the bounds of the options, as long as
///   there are records with paragraphs that short.  Such stretches are sources as well.
/// - Groups: the records are shuffled and taken in order, again and again, so that all are used
///   about equally often.  No group has two records with the same question or the same context.
/// - Where a question can only be understood with its document (all but the sets of passages), each
///   record's context gets a letter, which a heading before each of its chunks and the question
///   name.
/// - Few-shot: each turn's share of the examples is random (at least half of the fair share), in
///   the record's order.  Every turn asks the record's question; its relevance is all shares so
///   far.
/// - Paragraphs are those of `split_context`: never cut within a sentence or an example.
///
/// The other tasks of LongBench, which LoopServe does not have, follow the same rules: tasks with a
/// question for each record have three turns, like question answering (multifieldqa_zh, dureader,
/// passage_retrieval_*); tasks about a whole document two, like summaries (vcsum, passage_count,
/// lcc, repobench-p); tasks with examples two, like few-shot learning (triviaqa, lsht).
///
/// The dialogues of mt-TASK, all questions at the end (`with_questions_at` moves them).  The same
/// records and options give the same bytes on every machine.  Refuses fewer records than turns,
/// records without enough examples, and a turn count out of [1, 100].
std::vector<Dialogue> build_multi_turn(const LongBenchTask& task,
                                       std::span<const LongBenchRecord> records,
                                       const BuildOptions& options);

}  // namespace turnbench
