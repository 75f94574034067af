#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "datasets/longbench.h"
#include "tests/message_of.h"
#include "tests/temporary_directory.h"

namespace turnbench::test {

/// Made-up records with the form of a task's real ones; the same on every machine.
std::vector<LongBenchRecord> make_records(const LongBenchTask& task, int count,
                                          std::uint64_t seed = 1);

/// The record as a line of a native file.
std::string to_native_line(std::string_view dataset, const LongBenchRecord& record);

/// Made-up sentences, with full stops inside some of them.
std::vector<std::string> make_sentences(int count, std::uint64_t seed, bool chinese = false);

/// The folder of real LongBench files, which is not part of the project; may be absent.
std::filesystem::path shared_longbench();

}  // namespace turnbench::test
