#pragma once

// What ptxas makes of kernels: registers, local and shared memory, and instructions.

#include <istream>
#include <map>
#include <string>
#include <vector>

namespace turnbench::test {

/// The resources of one kernel on one architecture, as ptxas reports them.
struct KernelResources {
  std::string name;          ///< without namespaces and parameters: "few_rows<float, 1, true>"
  std::string architecture;  ///< "sm_90"
  int registers = 0;         ///< per thread
  int stack_bytes = 0, spill_store_bytes = 0, spill_load_bytes = 0;  ///< per thread
  int shared_bytes = 0;                                              ///< static, per block
  int max_threads = 0, min_blocks = 0;  ///< of __launch_bounds__; 0 if it does not say
};

struct KernelReport {
  std::string object;  ///< path of the object file
  std::vector<KernelResources> kernels;
};

/// Parses a report of cmake/kernel_report.sh.  place: for messages.
/// @throws Error (input) if it is incomplete.
KernelReport parse_report(const std::string& text, const std::string& place);

/// The instructions of one kernel on one architecture.
struct MachineCode {
  std::string name, architecture;
  std::map<std::string, int> opcodes;  ///< opcode with its modifiers -> number of instructions
};

/// Parses the output of `cuobjdump -sass`.
std::vector<MachineCode> parse_machine_code(std::istream& in);

/// Kernels that may use local memory: those whose name starts with `name`, up to `bytes` bytes of
/// stack frame, of spill stores and of spill loads each.
struct LocalMemoryAllowance {
  std::string name;
  int bytes;
};

/// Violations of the limits, one line each: local memory beyond the allowance, more registers than
/// the launch bounds leave, more than 48 KiB of static shared memory.
std::vector<std::string> resource_faults(const std::vector<KernelResources>& kernels,
                                         const std::vector<LocalMemoryAllowance>& allowed);

/// Violations in the attention kernels, one line each: those of many rows must use tensor cores and
/// copy 16 bytes at once to shared memory, those of single rows must load 16 bytes at once, and
/// none may access local memory without an allowance.
std::vector<std::string> machine_code_faults(const std::vector<MachineCode>& kernels,
                                             const std::vector<LocalMemoryAllowance>& allowed);

}  // namespace turnbench::test
