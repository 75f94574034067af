#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "datasets/catalog.h"

namespace turnbench {

using ReadFile = std::function<std::vector<Dialogue>(
    const std::filesystem::path& file, const std::string& name, const BuildOptions& options)>;

/// A set of which every record has turns of its own: `dataset` with what all of them have in
/// common, and `read` for the file found.
Dataset native_dataset(Dataset dataset, const ReadFile& read);

/// LongBench-Write, QMSum, L-Eval, MT-Bench and SCBench.  Sets of several questions on one document
/// come in two forms: NAME, a dialogue for each question, and mt-NAME, one for each document.
void add_question_datasets(std::vector<Dataset>& out);

}  // namespace turnbench
