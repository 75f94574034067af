#pragma once

// The manifests below experiments/, with their cells as names.

#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "harness/experiment/manifest.h"
#include "harness/experiment/published.h"

namespace turnbench::test {

/// Paths below experiments/ of all papers' manifests, e.g. loopserve/table4.json, sorted.
std::vector<std::string> paper_manifests();

/// The same of the experiments on the real model, smollm2/.
std::vector<std::string> smollm2_manifests();

/// One of them all.
Manifest load_experiment(const std::string& name);

/// The published numbers that a manifest names; none if it names none.
std::vector<PublishedNumber> published_of(const Manifest& manifest);

/// A cell of a table, by each metric that the tables show: dimension -> value.
using NamedCell = std::map<std::string, std::string>;
std::vector<NamedCell> named_cells(const Manifest& manifest);

/// Whether a published number names nothing that the cell contradicts.
bool agrees(const PublishedNumber& row, const NamedCell& cell);

}  // namespace turnbench::test
