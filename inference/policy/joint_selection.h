#pragma once

#include <deque>
#include <vector>

#include "inference/backend/selection_jobs.h"
#include "inference/policy/layer_view.h"
#include "inference/policy/rows_on_device.h"
#include "inference/policy/selection.h"

namespace turnbench {

/// The operations that score candidates and choose the best ones.  They run in the order of the
/// fields.
struct SelectionJobs {
  std::vector<KeyScoreJob> keys;
  std::vector<PageScoreJob> pages;
  std::vector<VectorScoreJob> vectors;
  std::vector<CodeScoreJob> codes;
  std::vector<DimensionScoreJob> dimensions;
  std::vector<ReduceHeadsJob> reductions;
  std::vector<TopKJob> choices;
  std::deque<RowsOnDevice> rows;  ///< the rows to which the jobs refer

  /// Runs the jobs, each kind as one operation of the backend.
  void run(Backend& backend, float scale) const;
};

/// A policy that selects with operations of the backend.  These operations run jointly for all
/// sequences of a batch.
class JointSelection {
 public:
  virtual ~JointSelection() = default;
  /// The first half of `select`: adds the jobs of a step.
  virtual void begin_selection(const LayerView& view, SelectionJobs& jobs) = 0;
  /// The second half, after the jobs have run.  view: as in `begin_selection`.
  virtual Selection end_selection(const LayerView& view) = 0;
};

}  // namespace turnbench
