// Writes which sources a program is built from, as C++:
//   source_hashes PROJECT OUTPUT.cpp
// The file changes only when its content does.

#include <array>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <stdexcept>
#include <string>

#include "tools/source_hashes/parts.h"

namespace turnbench {
namespace {

namespace fs = std::filesystem;

/// What `git -C project ARGUMENTS` prints; empty if it fails.
std::string git(const fs::path& project, const std::string& arguments) {
  std::string quoted;
  for (const char c : project.string())
    quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  const std::string command = "git -C '" + quoted + "' " + arguments + " 2>/dev/null";
  FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return "";
  std::string out;
  std::array<char, 4096> block{};
  while (const std::size_t size = fread(block.data(), 1, block.size(), pipe))
    out.append(block.data(), size);
  return pclose(pipe) == 0 ? out : "";
}

/// The commit, if the project is a checkout and not a folder in another one.
struct Checkout {
  std::string commit;
  bool modified = false;
};
Checkout checkout_of(const fs::path& project) {
  const std::string answer = git(project, "rev-parse --show-toplevel HEAD");
  const std::size_t newline = answer.find('\n');
  if (newline == std::string::npos || fs::canonical(answer.substr(0, newline)) != project)
    return {};
  return {answer.substr(newline + 1, answer.find('\n', newline + 1) - newline - 1),
          !git(project, "status --porcelain").empty()};
}

std::string source_state(const fs::path& project) {
  const Checkout checkout = checkout_of(project);
  std::string out =
      "// Made by tools/source_hashes at every build.\n"
      "#include \"harness/store/provenance.h\"\n\n"
      "namespace turnbench {\n\n"
      "SourceState source_state() {\n"
      "  return {\"" +
      checkout.commit + "\", " + (checkout.modified ? "true" : "false") + ", {\n";
  for (const SourcePart& part : source_parts(project)) {
    out += "      {\"" + part.name + "\", \"" + part.hash + "\"},  //";
    for (const std::string& file : part.files) out += " " + file;
    out += "\n";
  }
  return out + "  }};\n}\n\n}  // namespace turnbench\n";
}

void write_if_changed(const fs::path& file, const std::string& text) {
  std::ifstream in(file, std::ios::binary);
  if (in && std::string{std::istreambuf_iterator<char>(in), {}} == text) return;
  std::ofstream out(file, std::ios::binary);
  out << text;
  out.close();
  if (!out) throw std::runtime_error("cannot write " + file.string());
}

}  // namespace
}  // namespace turnbench

int main(int argc, char** argv) {
  if (argc != 3) {
    std::cerr << "usage: source_hashes PROJECT OUTPUT.cpp\n";
    return 2;
  }
  try {
    turnbench::write_if_changed(argv[2],
                                turnbench::source_state(std::filesystem::canonical(argv[1])));
  } catch (const std::exception& error) {
    std::cerr << "source_hashes: " << error.what() << "\n";
    return 1;
  }
}
