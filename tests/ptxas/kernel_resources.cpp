#include "tests/ptxas/kernel_resources.h"

#include <cxxabi.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <regex>
#include <string_view>

#include "common/error.h"
#include "common/text.h"

namespace turnbench::test {
namespace {

constexpr int kRegisters = 64 << 10;  // of a multiprocessor
constexpr int kRegistersAtOnce = 8;   // a thread's registers are allocated in steps of these
constexpr int kLargestBlock = 1024;   // threads, for kernels without launch bounds
constexpr int kStaticSharedBytes = 48 << 10;

void remove_all(std::string& text, const std::string& part) {
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at))
    text.erase(at, part.size());
}

/// The name of a mangled function without namespaces of the project, result and parameters.
std::string short_name(const std::string& mangled) {
  const std::unique_ptr<char, decltype(&std::free)> demangled(
      abi::__cxa_demangle(mangled.c_str(), nullptr, nullptr, nullptr), &std::free);
  std::string name = demangled ? demangled.get() : mangled;
  for (const char* part : {"void ", "(anonymous namespace)::", "turnbench::cuda::"})
    remove_all(name, part);
  return name.substr(0, name.find('('));
}

/// The integer that stands before `unit` in a line; 0 if there is none.
int number_before(const std::string& line, const std::string& unit) {
  std::smatch found;
  const std::regex pattern("([0-9]+) " + unit);
  return std::regex_search(line, found, pattern) ? std::stoi(found[1]) : 0;
}

struct Bounds {
  int max_threads = 0, min_blocks = 0;
};

/// The allowance of a kernel in bytes.
int allowance_of(const std::string& name, const std::vector<LocalMemoryAllowance>& allowed) {
  int bytes = 0;
  for (const LocalMemoryAllowance& a : allowed) {
    if (name.starts_with(a.name)) bytes = std::max(bytes, a.bytes);
  }
  return bytes;
}

/// The opcode in a line of machine code: "  /*0010*/  @!P0 LDG.E R0, [R2] ;"; empty if it has none.
/// There are millions of lines.
std::string_view opcode_of(std::string_view line) {
  const auto skip = [&](std::size_t count) {  // and the spaces behind
    line.remove_prefix(std::min(count, line.size()));
    line.remove_prefix(std::min(line.find_first_not_of(" \t"), line.size()));
  };
  skip(0);
  if (!line.starts_with("/*") || line.starts_with("/* ")) return {};
  skip(line.find("*/") + 2);
  if (line.starts_with('@')) skip(line.find(' '));
  return line.substr(0, line.find_first_of(" ;"));
}

/// The number of instructions whose opcode starts with `begin` and contains `part`.
int count_of(const MachineCode& code, const std::string& begin, const std::string& part = "") {
  int out = 0;
  for (const auto& [opcode, count] : code.opcodes) {
    if (opcode.starts_with(begin) && opcode.find(part) != std::string::npos) out += count;
  }
  return out;
}

}  // namespace

KernelReport parse_report(const std::string& text, const std::string& place) {
  KernelReport out;
  std::map<std::string, Bounds> bounds;
  std::string entry;  // of the PTX
  enum class Expected { kKernel, kStack, kRegisters } expected = Expected::kKernel;
  const auto require = [&](Expected wanted, const std::string& line) {
    if (expected != wanted)
      throw input_error("{}: found \"{}\" out of order", place, printable(line));
  };
  const std::regex compiling("Compiling entry function '([^']+)' for '([^']+)'");
  std::vector<std::string> mangled;
  for (const std::string& line : split(text, "\n")) {
    std::smatch found;
    if (line.starts_with("object ")) {
      out.object = line.substr(7);
    } else if (const std::size_t at = line.find(".entry "); at != std::string::npos) {
      entry = line.substr(at + 7, line.find('(') - at - 7);
    } else if (line.starts_with(".maxntid ")) {  // threads in x, y and z
      int threads = 1;
      for (const std::string& side : split(line.substr(9), ", ")) threads *= std::stoi(side);
      bounds[entry].max_threads = threads;
    } else if (line.starts_with(".minnctapersm ")) {
      bounds[entry].min_blocks = std::stoi(line.substr(14));
    } else if (std::regex_search(line, found, compiling)) {
      require(Expected::kKernel, line);
      expected = Expected::kStack;
      mangled.push_back(found[1]);
      KernelResources& kernel = out.kernels.emplace_back();
      kernel.name = short_name(found[1]);
      kernel.architecture = found[2];
    } else if (line.find("bytes stack frame") != std::string::npos) {
      if (expected == Expected::kKernel) continue;  // of a function that kernels call
      require(Expected::kStack, line);
      expected = Expected::kRegisters;
      KernelResources& kernel = out.kernels.back();
      kernel.stack_bytes = number_before(line, "bytes stack frame");
      kernel.spill_store_bytes = number_before(line, "bytes spill stores");
      kernel.spill_load_bytes = number_before(line, "bytes spill loads");
    } else if (line.find(": Used ") != std::string::npos) {
      require(Expected::kRegisters, line);
      expected = Expected::kKernel;
      KernelResources& kernel = out.kernels.back();
      kernel.registers = number_before(line, "registers");
      kernel.shared_bytes = number_before(line, "bytes smem");
    }
  }
  if (out.object.empty()) throw input_error("{}: found no path of an object", place);
  require(Expected::kKernel, "the end");
  for (std::size_t i = 0; i < mangled.size(); ++i) {
    out.kernels[i].max_threads = bounds[mangled[i]].max_threads;
    out.kernels[i].min_blocks = bounds[mangled[i]].min_blocks;
  }
  return out;
}

std::vector<MachineCode> parse_machine_code(std::istream& in) {
  std::vector<MachineCode> out;
  std::string architecture;
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("arch = ")) {
      architecture = line.substr(7);
    } else if (const std::size_t at = line.find("Function : "); at != std::string::npos) {
      out.push_back({short_name(line.substr(at + 11)), architecture, {}});
    } else if (const auto opcode = opcode_of(line); !opcode.empty() && !out.empty()) {
      ++out.back().opcodes[std::string(opcode)];
    }
  }
  return out;
}

std::vector<std::string> resource_faults(const std::vector<KernelResources>& kernels,
                                         const std::vector<LocalMemoryAllowance>& allowed) {
  std::vector<std::string> out;
  for (const KernelResources& k : kernels) {
    const std::string place = k.architecture + ", " + k.name;
    const int bytes = allowance_of(k.name, allowed);
    if (std::max({k.stack_bytes, k.spill_store_bytes, k.spill_load_bytes}) > bytes) {
      out.push_back(fmt::format(
          "{}: found {} bytes of stack frame, {} of spill stores and {} of spill loads, expected "
          "at most {} each",
          place, k.stack_bytes, k.spill_store_bytes, k.spill_load_bytes, bytes));
    }
    const int threads = k.max_threads > 0 ? k.max_threads : kLargestBlock;
    const int blocks = std::max(k.min_blocks, 1);
    const int allocated =
        (k.registers + kRegistersAtOnce - 1) / kRegistersAtOnce * kRegistersAtOnce;
    if (allocated * threads * blocks > kRegisters) {
      out.push_back(
          fmt::format("{}: found {} registers for {} blocks of {} threads, expected at most {}",
                      place, k.registers, blocks, threads, kRegisters / (threads * blocks)));
    }
    if (k.shared_bytes > kStaticSharedBytes) {
      out.push_back(fmt::format("{}: found {} bytes of static shared memory, expected at most {}",
                                place, k.shared_bytes, kStaticSharedBytes));
    }
  }
  return out;
}

std::vector<std::string> machine_code_faults(const std::vector<MachineCode>& kernels,
                                             const std::vector<LocalMemoryAllowance>& allowed) {
  std::vector<std::string> out;
  bool any_rows = false, any_decode = false;
  for (const MachineCode& code : kernels) {
    const bool rows = code.name.starts_with("attend_rows_16<"),
               decode = code.name.starts_with("segment_kernel<");
    if (!rows && !decode) continue;
    any_rows = any_rows || rows;
    any_decode = any_decode || decode;
    const auto fault = [&](const char* what) {
      out.push_back(fmt::format("{}, {}: {}", code.architecture, code.name, what));
    };
    if (rows && count_of(code, "HMMA.") == 0) fault("found no HMMA, expected tensor cores");
    if (rows && count_of(code, "LDGSTS.E", ".128") == 0)
      fault("found no LDGSTS.128, expected asynchronous copies of 16 bytes");
    if (decode && count_of(code, "LDG.E", ".128") == 0)
      fault("found no LDG.128, expected loads of 16 bytes");
    if (allowance_of(code.name, allowed) == 0 && count_of(code, "LDL") + count_of(code, "STL") > 0)
      fault("found LDL or STL, expected no local memory");
  }
  if (!any_rows) out.push_back("found no kernel attend_rows_16");
  if (!any_decode) out.push_back("found no kernel segment_kernel");
  return out;
}

}  // namespace turnbench::test
