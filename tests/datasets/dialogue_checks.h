#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "datasets/multi_turn.h"

namespace turnbench::test {

using Records = std::vector<LongBenchRecord>;

/// A parsed source name of the multi-turn builder: RECORD#FIRST-LAST.
struct Source {
  std::string record;
  std::size_t first = 0, last = 0;
};

Source parse_source(const std::string& name);

/// The place of a chunk in a dialogue: its turn and its paragraphs.
struct Placed {
  std::size_t turn = 0;
  std::vector<std::string> texts;
};

/// All chunks of a dialogue by source.  Expects that the paragraphs of a chunk are contiguous.
std::map<std::string, Placed> placed_chunks(const Dialogue& dialogue);

const LongBenchRecord& record_named(const Records& records, const std::string& id);

/// Expects the properties of every dialogue that is built from `records` with `options`.
void check_dialogue(const LongBenchTask& task, const Records& records, const Dialogue& dialogue,
                    const BuildOptions& options);

}  // namespace turnbench::test
