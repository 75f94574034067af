#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "datasets/multi_turn.h"

namespace turnbench::test {

using Records = std::vector<LongBenchRecord>;

/// A source as the multi-turn builder names it: RECORD#FIRST-LAST.
struct Source {
  std::string record;
  std::size_t first = 0, last = 0;
};

Source parse_source(const std::string& name);

/// One chunk as it stands in a dialogue: its turn and its paragraphs.
struct Placed {
  std::size_t turn = 0;
  std::vector<std::string> texts;
};

/// All chunks of a dialogue by their source; expects each of them in one piece.
std::map<std::string, Placed> placed_chunks(const Dialogue& dialogue);

const LongBenchRecord& record_named(const Records& records, const std::string& id);

/// Expects what must hold for every dialogue that was built from `records` with `options`.
void check_dialogue(const LongBenchTask& task, const Records& records, const Dialogue& dialogue,
                    const BuildOptions& options);

}  // namespace turnbench::test
