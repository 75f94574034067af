#include "common/process_memory.h"

#include <sys/resource.h>
#include <unistd.h>

#include <fstream>
#include <string>

namespace turnbench {

std::size_t resident_bytes() {
  std::ifstream statm("/proc/self/statm");
  std::size_t size = 0, resident = 0;  // in pages
  if (!(statm >> size >> resident)) return peak_resident_bytes();
  return resident * static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
}

std::size_t resident_file_bytes() {
  std::ifstream statm("/proc/self/statm");
  std::size_t size = 0, resident = 0, shared = 0;  // in pages
  if (!(statm >> size >> resident >> shared)) return 0;
  return shared * static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
}

std::size_t peak_resident_bytes() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    std::size_t kibibytes = 0;
    if (word == "VmHWM:" && status >> kibibytes) return kibibytes * 1024;
  }
  rusage usage{};  // other systems; on Linux, ru_maxrss includes the process image before exec
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<std::size_t>(usage.ru_maxrss) * 1024;
}

}  // namespace turnbench
