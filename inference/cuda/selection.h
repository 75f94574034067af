#pragma once

#include <span>

#include "inference/backend/selection_jobs.h"
#include "inference/cuda/context.h"

namespace turnbench::cuda {

// The selection operations of Backend, and their reads of keys; see selection_jobs.h.  Only data
// that is declared to be in host memory is transferred between host and device.

void read_rows(Context& context, std::span<const ReadRowsJob> jobs);
void update_page_bounds(Context& context, std::span<const PageBoundsJob> jobs);
void transpose_keys(Context& context, std::span<const TransposeKeysJob> jobs);
void add_values(Context& context, std::span<const AddValuesJob> jobs);
void rebuild_keys(Context& context, std::span<const RebuildKeysJob> jobs);

void score_vectors(Context& context, float scale, std::span<const VectorScoreJob> jobs);
void score_keys(Context& context, float scale, std::span<const KeyScoreJob> jobs);
void score_pages(Context& context, float scale, std::span<const PageScoreJob> jobs);
void score_codes(Context& context, float scale, std::span<const CodeScoreJob> jobs);
void score_dimensions(Context& context, float scale, std::span<const DimensionScoreJob> jobs);

void reduce_heads(Context& context, std::span<const ReduceHeadsJob> jobs);
void slot_mass(Context& context, std::span<const SlotMassJob> jobs);
void top_k(Context& context, std::span<const TopKJob> jobs);
void assign_nearest(Context& context, std::span<const NearestJob> jobs);
void blend(Context& context, std::span<const BlendJob> jobs);
void merge(Context& context, std::span<const MergeJob> jobs);

}  // namespace turnbench::cuda
