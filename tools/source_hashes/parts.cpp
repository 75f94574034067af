#include "tools/source_hashes/parts.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <map>
#include <set>
#include <stdexcept>
#include <string_view>

#include "tools/source_hashes/tokens.h"

namespace turnbench {
namespace {

namespace fs = std::filesystem;

/// The files of a part; `*` matches any characters of a file's name.
struct Rule {
  std::string_view part;
  std::vector<std::string_view> patterns;
};
const std::array kRules = {
    Rule{"engine",
         {"inference/attention/*", "inference/backend/*", "inference/cpu/*", "inference/devices/*",
          "inference/engine/*", "inference/kv/*", "inference/model/*", "inference/policy/*",
          "harness/run/active_unit.h", "harness/run/conversation.*", "harness/run/fidelity.*",
          "harness/run/history.h", "harness/run/memoized_prefill.h", "harness/run/prefill_groups.*",
          "harness/run/probe_unit.*", "harness/run/sharing.*", "harness/run/unit*", "common/mean.h",
          "common/random.h"}},
    Rule{"cuda", {"inference/cuda/*"}},
    Rule{"prompts",
         {"harness/run/prompt.*", "harness/run/labelled_text.*", "text/tokenizer/*.h",
          "text/tokenizer/*.cpp", "text/jinja/*.h", "text/jinja/*.cpp", "common/json*",
          "common/python_text.*", "common/special_casing.*", "common/text.*"}},
    Rule{"datasets",
         {"datasets/*.h", "datasets/*.cpp", "common/file.*", "common/json*", "common/python_text.*",
          "common/random.h", "common/special_casing.*", "common/text.*", "common/zip.*"}},
    Rule{"metrics",
         {"metrics/*.h", "metrics/*.cpp", "common/json*", "common/python_text.*",
          "common/special_casing.*", "common/text.*"}}};

std::string read(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  std::string out{std::istreambuf_iterator<char>(in), {}};
  if (!in) throw std::runtime_error("cannot read " + file.string());
  return out;
}

/// The project's sources as tokens; each file is read once.
class Sources {
 public:
  explicit Sources(fs::path project) : project_(std::move(project)) {}

  bool has(const std::string& file) const { return fs::is_regular_file(project_ / file); }

  const std::string& tokens(const std::string& file) {
    const auto [known, is_new] = tokens_.try_emplace(file);
    if (is_new) known->second = token_text(read(project_ / file));
    return known->second;
  }

  std::set<std::string> matching(std::string_view pattern) const {
    const std::size_t name = pattern.rfind('/') + 1, star = pattern.find('*');
    const std::string folder(pattern.substr(0, name));
    if (star == std::string_view::npos)
      return has(std::string(pattern)) ? std::set{std::string(pattern)} : std::set<std::string>();
    const std::string_view head = pattern.substr(name, star - name),
                           tail = pattern.substr(star + 1);
    std::set<std::string> out;
    if (!fs::is_directory(project_ / folder)) return out;
    for (const auto& entry : fs::directory_iterator(project_ / folder)) {
      const std::string file = entry.path().filename();
      if (entry.is_regular_file() && file.size() >= head.size() + tail.size() &&
          file.starts_with(head) && file.ends_with(tail))
        out.insert(folder + file);
    }
    return out;
  }

  SourcePart part(std::string name, const std::set<std::string>& files) {
    std::uint64_t hash = 0xcbf29ce484222325;  // FNV-1a
    const auto mix = [&](const std::string& text) {
      for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
      hash *= 0x100000001b3;  // of the 0 behind each text
    };
    for (const std::string& file : files) {
      mix(file);
      mix(tokens(file));
    }
    std::string digits(16, '0');
    for (auto digit = digits.rbegin(); digit != digits.rend(); ++digit, hash >>= 4)
      *digit = "0123456789abcdef"[hash & 15];
    return {std::move(name), std::move(digits), {files.begin(), files.end()}};
  }

  /// A file of methods/ or probes/, the headers of these folders that it includes, and the sources
  /// of these headers, transitively.
  std::set<std::string> closure(const std::string& file) {
    std::set<std::string> out = {file};
    std::vector<std::string> left = {file};
    while (!left.empty()) {
      const std::string text = "\n" + tokens(left.back());
      left.pop_back();
      constexpr std::string_view kInclude = "\n# include \"", kHeader = ".h\"";
      for (std::size_t at = 0; (at = text.find(kInclude, at)) != std::string::npos;) {
        at += kInclude.size();
        const std::string_view name = std::string_view(text).substr(at, text.find('\n', at) - at);
        if (!name.starts_with("methods/") && !name.starts_with("probes/")) continue;
        const std::string stem(name.substr(0, name.rfind(kHeader)));
        for (const char* extension : {".h", ".cpp"}) {
          const std::string other = stem + extension;
          if (has(other) && out.insert(other).second) left.push_back(other);
        }
      }
    }
    return out;
  }

 private:
  fs::path project_;
  std::map<std::string, std::string> tokens_;
};

/// The methods or probes that a source describes: "MethodInfo tri_shape() {" describes tri-shape.
std::vector<std::string> described_in(const std::string& tokens) {
  std::vector<std::string> out;
  for (const std::string_view type : {"MethodInfo ", "ProbeInfo "}) {
    for (std::size_t at = 0; (at = tokens.find(type, at)) != std::string::npos;) {
      const bool whole = at == 0 || tokens[at - 1] == ' ' || tokens[at - 1] == '\n';
      at += type.size();
      const std::size_t end = tokens.find(' ', at);
      if (!whole || end == std::string::npos || tokens.compare(end, 6, " ( ) {") != 0) continue;
      std::string name = tokens.substr(at, end - at);
      std::replace(name.begin(), name.end(), '_', '-');
      out.push_back(std::move(name));
    }
  }
  return out;
}

}  // namespace

std::vector<SourcePart> source_parts(const fs::path& project) {
  Sources sources(project);
  std::vector<SourcePart> out;
  for (const Rule& rule : kRules) {
    std::set<std::string> files;
    for (const std::string_view pattern : rule.patterns) files.merge(sources.matching(pattern));
    out.push_back(sources.part(std::string(rule.part), files));
  }
  for (const char* folder : {"methods/", "methods/cache/", "methods/eviction/", "methods/prefill/",
                             "methods/selection/", "probes/"}) {
    const std::string kind(folder, std::string_view(folder).find('/') + 1);
    for (const std::string& file : sources.matching(folder + std::string("*.cpp"))) {
      for (const std::string& name : described_in(sources.tokens(file)))
        out.push_back(sources.part(kind + name, sources.closure(file)));
    }
  }
  return out;
}

}  // namespace turnbench
