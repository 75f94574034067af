#pragma once

#include <functional>
#include <string>

#include "tests/cli/program.h"

namespace turnbench::test {

/// The text of a manifest that runs quickly: eight cells' dialogues on the embedded model.
std::string small_manifest();

/// The bytes of the resulting store; computed once.
const std::string& small_store();

/// A command on a copy of that store, for which the words say DB.
std::function<Arguments(const TemporaryDirectory&)> with_small_store(Arguments words);

/// Runs SQL on a database file, which is created if it does not exist.  In a store, the views can
/// be changed like tables, and dialogues are not compressed if the SQL names JSON.
void execute(const std::string& file, const std::string& sql);

/// Stores the dialogues of a store without compression, so that SQL can read them.
void expand_dialogues(const std::string& file);

}  // namespace turnbench::test
