#pragma once

// The manifests in experiments/ and the names of their cells.

#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "harness/experiment/manifest.h"
#include "harness/experiment/published.h"

namespace turnbench::test {

/// Paths below experiments/ of the manifests of all papers, e.g. loopserve/table4.json; sorted.
std::vector<std::string> paper_manifests();

/// Paths below experiments/ of the manifests in smollm2/, the experiments on a real model; sorted.
std::vector<std::string> smollm2_manifests();

/// Loads the manifest with such a path.
Manifest load_experiment(const std::string& name);

/// The published numbers of a manifest; empty if it has none.
std::vector<PublishedNumber> published_of(const Manifest& manifest);

/// A cell of a table, with a metric that the tables show: dimension -> value.
using NamedCell = std::map<std::string, std::string>;
std::vector<NamedCell> named_cells(const Manifest& manifest);

/// True if no dimension of a published number contradicts the cell.
bool agrees(const PublishedNumber& row, const NamedCell& cell);

}  // namespace turnbench::test
