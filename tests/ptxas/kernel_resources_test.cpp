#include "tests/ptxas/kernel_resources.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <sstream>

#include "common/error.h"
#include "common/file.h"
#include "common/text.h"
#include "tests/message_of.h"

namespace turnbench::test {
namespace {

using Lines = std::vector<std::string>;

/// Local memory that is accepted, as CUDA 13.0 leaves it: in the attention kernels a few values
/// that are live across the loop over the keys, because their launch bounds keep one more block
/// resident; in the others small arrays that are not kept in registers.
const std::vector<LocalMemoryAllowance> kAllowed = {
    {"attend_rows_16<__half, 128, ", 64}, {"attend_rows_16<__nv_bfloat16, 128, ", 64},
    {"attend_rows_32<1, true>", 80},      {"segment_kernel<", 20},
    {"row_norms<FloatScores<", 64},       {"choose_greatest", 48},
};

const char* const kSample = R"(object /build/sample.o
.entry _ZN9turnbench4cuda33_GLOBAL__N__518450e8_4_t_cu__Z1fv1kIfEEvPT_(
.maxntid 128, 2, 1
.minnctapersm 3
.visible .entry plain()
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function '_ZN9turnbench4cuda33_GLOBAL__N__518450e8_4_t_cu__Z1fv1kIfEEvPT_' for 'sm_80'
ptxas info    : Function properties for _ZN9turnbench4cuda33_GLOBAL__N__518450e8_4_t_cu__Z1fv1kIfEEvPT_
    24 bytes stack frame, 40 bytes spill stores, 48 bytes spill loads
ptxas info    : Used 80 registers, used 1 barriers, 256 bytes smem, 364 bytes cmem[0]
ptxas info    : Compile time = 31.785 ms
ptxas info    : Compiling entry function 'plain' for 'sm_90'
ptxas info    : Function properties for plain
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 8 registers
)";

TEST(KernelReport, ListsTheResourcesOfEachKernel) {
  const KernelReport report = parse_report(kSample, "sample");
  EXPECT_EQ(report.object, "/build/sample.o");
  ASSERT_EQ(report.kernels.size(), 2u);
  const KernelResources& k = report.kernels[0];
  EXPECT_EQ(k.name, "k<float>");
  EXPECT_EQ(k.architecture, "sm_80");
  EXPECT_EQ(k.registers, 80);
  EXPECT_EQ(k.stack_bytes, 24);
  EXPECT_EQ(k.spill_store_bytes, 40);
  EXPECT_EQ(k.spill_load_bytes, 48);
  EXPECT_EQ(k.shared_bytes, 256);
  EXPECT_EQ(k.max_threads, 256);
  EXPECT_EQ(k.min_blocks, 3);
  EXPECT_EQ(report.kernels[1].name, "plain");
  EXPECT_EQ(report.kernels[1].registers, 8);
  EXPECT_EQ(report.kernels[1].max_threads, 0);
}

TEST(KernelReport, RejectsIncompleteReports) {
  const std::string sample = kSample;
  EXPECT_EQ(message_of([&] { parse_report(sample.substr(sample.find('\n') + 1), "sample"); }),
            "sample: found no path of an object");
  EXPECT_EQ(
      message_of([&] { parse_report(sample.substr(0, sample.rfind("ptxas info")), "sample"); }),
      "sample: found \"the end\" out of order");
}

TEST(KernelReport, SpillsAreFaultsUnlessAllowed) {
  const KernelReport report = parse_report(kSample, "sample");
  const std::string spill =
      "sm_80, k<float>: found 24 bytes of stack frame, 40 of spill stores and 48 of spill loads, "
      "expected at most {} each";
  EXPECT_EQ(resource_faults(report.kernels, {}), (Lines{fmt::format(fmt::runtime(spill), 0)}));
  EXPECT_EQ(resource_faults(report.kernels, {{"k<", 47}}),
            (Lines{fmt::format(fmt::runtime(spill), 47)}));
  EXPECT_EQ(resource_faults(report.kernels, {{"k<", 48}}), (Lines{}));
}

TEST(KernelReport, RegistersBeyondTheLaunchBoundsAreFaults) {
  KernelResources k = {.name = "k", .architecture = "sm_90", .registers = 80};
  EXPECT_EQ(resource_faults({k}, {}),
            (Lines{"sm_90, k: found 80 registers for 1 blocks of 1024 threads, expected at "
                   "most 64"}));
  k.max_threads = 256;
  k.min_blocks = 3;
  EXPECT_EQ(resource_faults({k}, {}), (Lines{}));
  k.registers = 81;  // 88 are allocated
  EXPECT_EQ(resource_faults({k}, {}),
            (Lines{"sm_90, k: found 81 registers for 3 blocks of 256 threads, expected at "
                   "most 85"}));
}

TEST(KernelReport, MuchStaticSharedMemoryIsAFault) {
  KernelResources k = {.name = "k", .architecture = "sm_80", .shared_bytes = 48 << 10};
  EXPECT_EQ(resource_faults({k}, {}), (Lines{}));
  ++k.shared_bytes;
  EXPECT_EQ(resource_faults({k}, {}),
            (Lines{"sm_80, k: found 49153 bytes of static shared memory, expected at most "
                   "49152"}));
}

std::string dump_of(const std::string& rows, const std::string& decode) {
  return "arch = sm_80\n\t\tFunction : attend_rows_16<x>\n" + rows +
         "\t\tFunction : segment_kernel<x>\n" + decode;
}

std::vector<std::string> faults_of(const std::string& dump,
                                   const std::vector<LocalMemoryAllowance>& allowed = {}) {
  std::istringstream in(dump);
  return machine_code_faults(parse_machine_code(in), allowed);
}

const std::string kRows =
    "        /*0000*/                   HMMA.16816.F32 R4, R8, R12, R4 ;   /* 0x0 */\n"
    "        /*0010*/              @!P0 LDGSTS.E.BYPASS.128 [R2], [R4.64] ; /* 0x0 */\n"
    "                                                                      /* 0x1 */\n";
const std::string kDecode =
    "        /*0000*/               @P3 LDG.E.128.CONSTANT R4, [R8.64] ;    /* 0x0 */\n";

TEST(MachineCode, CountsInstructionsByOpcode) {
  std::istringstream in(dump_of(kRows + kRows, kDecode));
  const std::vector<MachineCode> code = parse_machine_code(in);
  ASSERT_EQ(code.size(), 2u);
  EXPECT_EQ(code[0].architecture, "sm_80");
  EXPECT_EQ(code[0].opcodes,
            (std::map<std::string, int>{{"HMMA.16816.F32", 2}, {"LDGSTS.E.BYPASS.128", 2}}));
  EXPECT_EQ(code[1].opcodes, (std::map<std::string, int>{{"LDG.E.128.CONSTANT", 1}}));
}

TEST(MachineCode, AttentionWithoutWideCopiesTensorCoresOrWithLocalMemoryIsAFault) {
  EXPECT_EQ(faults_of(dump_of(kRows, kDecode)), (Lines{}));
  EXPECT_EQ(faults_of(dump_of("", "")),
            (Lines{"sm_80, attend_rows_16<x>: found no HMMA, expected tensor cores",
                   "sm_80, attend_rows_16<x>: found no LDGSTS.128, expected asynchronous "
                   "copies of 16 bytes",
                   "sm_80, segment_kernel<x>: found no LDG.128, expected loads of 16 bytes"}));
  const std::string spilled = dump_of(kRows + "  /*0020*/  STL [R1], R2 ;\n", kDecode);
  EXPECT_EQ(faults_of(spilled), (Lines{"sm_80, attend_rows_16<x>: found LDL or STL, expected "
                                       "no local memory"}));
  EXPECT_EQ(faults_of(spilled, {{"attend_rows_16<x", 8}}), (Lines{}));
  EXPECT_EQ(faults_of(""),
            (Lines{"found no kernel attend_rows_16", "found no kernel segment_kernel"}));
}

/// The reports of this build's kernels; none if it has no CUDA backend.
std::vector<KernelReport> reports() {
  std::vector<KernelReport> out;
  for (const std::string& path : split(TURNBENCH_KERNEL_REPORTS, "|")) {
    if (!path.empty()) out.push_back(parse_report(read_file(path), path));
  }
  return out;
}

bool is_only_ptx(const std::vector<KernelReport>& reports) {
  return std::all_of(reports.begin(), reports.end(),
                     [](const KernelReport& r) { return r.kernels.empty(); });
}

TEST(KernelsOfThisBuild, KeepToTheirResources) {
  const std::vector<KernelReport> all = reports();
  if (all.empty()) GTEST_SKIP() << "this build has no CUDA backend";
  if (is_only_ptx(all)) GTEST_SKIP() << "this build has no machine code, only PTX";
  for (const KernelReport& report : all) {
    EXPECT_FALSE(report.kernels.empty()) << report.object;
    for (const std::string& fault : resource_faults(report.kernels, kAllowed))
      ADD_FAILURE() << fault;
  }
}

TEST(KernelsOfThisBuild, UseTensorCoresAndWideLoads) {
  const std::vector<KernelReport> all = reports();
  if (all.empty()) GTEST_SKIP() << "this build has no CUDA backend";
  if (is_only_ptx(all)) GTEST_SKIP() << "this build has no machine code, only PTX";
  const std::string cuobjdump = TURNBENCH_CUOBJDUMP;
  if (cuobjdump.empty()) GTEST_SKIP() << "cuobjdump and nvdisasm are not installed";
  std::vector<MachineCode> code;
  for (const KernelReport& report : all) {
    const std::string command = "'" + cuobjdump + "' -sass '" + report.object + "'";
    FILE* pipe = popen(command.c_str(), "r");
    ASSERT_NE(pipe, nullptr) << command;
    std::string output;
    char block[1 << 16];
    for (std::size_t n; (n = std::fread(block, 1, sizeof(block), pipe)) > 0;)
      output.append(block, n);
    ASSERT_EQ(pclose(pipe), 0) << command;
    std::istringstream in(std::move(output));
    for (MachineCode& kernel : parse_machine_code(in)) code.push_back(std::move(kernel));
  }
  for (const std::string& fault : machine_code_faults(code, kAllowed)) ADD_FAILURE() << fault;
}

}  // namespace
}  // namespace turnbench::test
