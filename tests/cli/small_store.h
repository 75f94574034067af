#pragma once

#include <string>

#include "tests/cli/program.h"

namespace turnbench::test {

/// The text of a manifest that runs quickly: eight cells' dialogues on the embedded model.
std::string small_manifest();

/// The bytes of the resulting store; computed once.
const std::string& small_store();

/// Runs SQL on a database file, which is created if it does not exist.
void execute(const std::string& file, const std::string& sql);

}  // namespace turnbench::test
