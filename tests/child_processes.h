#pragma once

#include <fstream>
#include <set>
#include <string>

namespace turnbench::test {

/// The processes that the first thread of a process has started.
inline std::set<int> children_of(int pid) {
  std::set<int> out;
  std::ifstream in("/proc/" + std::to_string(pid) + "/task/" + std::to_string(pid) + "/children");
  for (int child = 0; in >> child;) out.insert(child);
  return out;
}

/// The state of a process: 'R' runs, 'S' waits, 'T' was stopped, 'Z' has ended; 0: there is none.
inline char state_of(int pid) {
  std::ifstream in("/proc/" + std::to_string(pid) + "/stat");
  std::string line;
  std::getline(in, line);
  const std::size_t name_end = line.find(") ");
  return name_end == std::string::npos ? '\0' : line[name_end + 2];
}

}  // namespace turnbench::test
