#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "datasets/catalog.h"

namespace turnbench {

using ReadFile = std::function<std::vector<Dialogue>(
    const std::filesystem::path& file, const std::string& name, const BuildOptions& options)>;

/// A dataset that is read from one native file and whose records define their own turns.  Returns
/// `dataset` with its loader, which finds the file and calls `read`.
Dataset native_dataset(Dataset dataset, const ReadFile& read);

/// Appends LongBench-Write, LongBench v2, QMSum, L-Eval, LoCoMo, REALTALK, MT-Bench and SCBench.
/// Datasets with several questions per document have two forms: NAME, one dialogue per question,
/// and mt-NAME, one per document.
void add_question_datasets(std::vector<Dataset>& out);

}  // namespace turnbench
