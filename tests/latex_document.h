#pragma once

#include <cstdlib>
#include <regex>
#include <string>
#include <vector>

#include "common/file.h"
#include "tests/temporary_directory.h"

namespace turnbench::test {

inline bool has_pdflatex() {
  return std::system("pdflatex --version > /dev/null 2>&1") == 0;
}

/// Compiles tables in an article of 11 points with margins of one inch, and returns the errors, and
/// the lines that are more than 1 point too wide.  `columns`: onecolumn or twocolumn.
inline std::vector<std::string> latex_problems(const std::string& tables,
                                               const std::string& columns) {
  const TemporaryDirectory directory;
  directory.write("tables.tex", tables);
  directory.write("a.tex", "\\documentclass[11pt,letterpaper," + columns +
                               "]{article}\n\\usepackage[margin=1in]{geometry}\n"
                               "\\usepackage{booktabs}\n\\begin{document}\n\\input{tables.tex}\n"
                               "\\end{document}\n");
  const std::string command = "cd '" + directory.path().string() +
                              "' && max_print_line=1000 pdflatex -interaction=nonstopmode "
                              "-halt-on-error a.tex > out.txt 2>&1";
  std::vector<std::string> out;
  if (std::system(command.c_str()) != 0) out.push_back(read_file(directory.path("out.txt")));
  const std::string log = read_file(directory.path("a.log"));
  const std::regex overfull(R"(Overfull \\hbox \(([0-9.]+)pt too wide\)[^\n]*)");
  for (auto it = std::sregex_iterator(log.begin(), log.end(), overfull);
       it != std::sregex_iterator(); ++it) {
    if (std::stod((*it)[1]) > 1) out.push_back(it->str());
  }
  return out;
}

}  // namespace turnbench::test
