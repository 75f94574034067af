#include "harness/store/provenance.h"

#include <fmt/format.h>
#include <sys/utsname.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "common/file.h"
#include "common/json.h"
#include "common/text.h"
#include "common/thread_pool.h"
#include "methods/method.h"

namespace turnbench {
namespace {

constexpr std::size_t kShownDigits = 12;  // of a commit or hash
#if defined(__clang__)
constexpr const char* kCompiler = "Clang " __clang_version__;
#else
constexpr const char* kCompiler = "GCC " __VERSION__;
#endif

/// The names of the methods in a canonical composition, and of those whose scores they use: a, b
/// and c for "a:x=1+b:scorer=c".
std::vector<std::string> names_in(std::string_view canonical) {
  std::vector<std::string> out;
  for (const std::string& part : split(canonical, "+")) {
    out.push_back(part.substr(0, part.find_first_of(":@ ")));
    if (auto scorer = setting_in(part, kScorerParameter)) out.push_back(*std::move(scorer));
  }
  return out;
}

}  // namespace

std::string build_description() {
  const SourceState state = source_state();
  std::string all;
  for (const auto& [part, hash] : state.hashes) all += part + " " + hash + "\n";
  const std::string commit = state.commit.empty()
                                 ? "no commit"
                                 : "commit " + state.commit.substr(0, kShownDigits) +
                                       (state.modified ? " with changes" : "");
  return fmt::format("turnbench {}, {}, sources {}, {}, {}", TURNBENCH_VERSION, commit,
                     hash_text(all).substr(0, kShownDigits), kCompiler, TURNBENCH_BUILD_TYPE);
}

std::string environment_card(const std::vector<Device>& devices, std::optional<int> threads) {
  utsname name{};
  uname(&name);
  OrderedJson card;
  card["build"] = build_description();
  card["backend"] = description_of(make_backends(devices, 1));
  card["system"] = std::string(name.sysname) + " " + name.release + " " + name.machine;
  card["processors"] = available_processors();
  if (threads) card["threads"] = *threads;
  SourceHashes sources = source_state().hashes;
  const bool cuda =
      std::any_of(devices.begin(), devices.end(), [](const Device& device) { return device.cuda; });
  if (!cuda) sources.erase("cuda");
  card["sources"] = sources;
  return card.dump(1);
}

SourceHashes sources_of(std::string_view environment_card) {
  const Json card = Json::parse(environment_card, nullptr, false);
  SourceHashes out;
  if (!card.is_object() || !card.contains("sources") || !card["sources"].is_object()) return out;
  for (const auto& [part, hash] : card["sources"].items()) {
    if (hash.is_string()) out[part] = hash.get<std::string>();
  }
  return out;
}

std::vector<std::string> deciding_parts(const std::string& method_canonical) {
  constexpr std::string_view kProbe = "probe ";
  if (method_canonical.starts_with("imported:")) return {};
  std::vector<std::string> out = {"engine", "prompts"};
  const bool probe = method_canonical.starts_with(kProbe);
  const std::string_view names =
      std::string_view(method_canonical).substr(probe ? kProbe.size() : 0);
  const std::string_view beside = probe ? method_in(names) : std::string_view();
  for (const std::string& name : names_in(names.substr(0, names.size() - beside.size())))
    out.push_back((probe ? "probes/" : "methods/") + name);
  if (beside.empty()) return out;
  for (const std::string& name : names_in(beside)) out.push_back("methods/" + name);
  return out;
}

std::vector<std::string> changed_parts(const std::string& method_canonical,
                                       const SourceHashes& then, const SourceHashes& now) {
  std::vector<std::string> parts = deciding_parts(method_canonical), out;
  if (parts.empty()) return out;
  if (then.empty()) return {"unknown sources"};
  if (then.contains("cuda")) parts.push_back("cuda");  // computed on a GPU
  const auto hash_in = [](const SourceHashes& hashes, const std::string& part) {
    const auto found = hashes.find(part);
    return found == hashes.end() ? std::string() : found->second;
  };
  for (const std::string& part : parts) {
    if (hash_in(then, part) != hash_in(now, part)) out.push_back(part);
  }
  return out;
}

}  // namespace turnbench
