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

/// Synthetic records in the format of a task's real ones; the same on every machine.
std::vector<LongBenchRecord> make_records(const LongBenchTask& task, int count,
                                          std::uint64_t seed = 1);

/// The record as a line of a file in LongBench's format.
std::string to_native_line(std::string_view dataset, const LongBenchRecord& record);

/// Synthetic sentences, some with full stops inside.
std::vector<std::string> make_sentences(int count, std::uint64_t seed, bool chinese = false);

/// The directory of the real LongBench files.  They are not part of the project and may be absent.
std::filesystem::path shared_longbench();

}  // namespace turnbench::test
