#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "cli/cli.h"
#include "cli/input_output.h"
#include "common/text.h"
#include "harness/store/merge.h"

namespace turnbench {
namespace {

OrderedJson to_json(const std::string& out, const MergeSummary& summary) {
  OrderedJson json = {{"out", out},
                      {"units", summary.units},
                      {"stores", OrderedJson::array()},
                      {"notes", summary.notes}};
  for (const MergeSummary::OfStore& s : summary.stores) {
    json["stores"].push_back({{"store", s.path},
                              {"units", s.units},
                              {"added", s.added},
                              {"equal", s.equal},
                              {"replaced_failed", s.replaced},
                              {"failed_lost", s.failed_lost},
                              {"scores_added", s.scores},
                              {"judgements_added", s.judgements}});
  }
  return json;
}

void print(const std::string& out, const MergeSummary& summary) {
  std::size_t failed = 0;
  for (const MergeSummary::OfStore& s : summary.stores) {
    std::vector<std::string> parts = {fmt::format("{} of {} dialogues added", s.added, s.units)};
    const auto add = [&](std::size_t count, const char* what) {
      if (count > 0) parts.push_back(fmt::format("{} {}", count, what));
    };
    add(s.equal, "there already");
    add(s.replaced, "instead of failed ones");
    add(s.failed_lost, "failed and not used");
    add(s.scores, "scores added");
    add(s.judgements, "judgements added");
    fmt::print("{}: {}\n", printable(s.path), join(parts, ", "));
    failed += s.replaced + s.failed_lost;
  }
  for (const std::string& note : summary.notes) fmt::print("{}\n", printable(note));
  if (failed > 0) fmt::print("{} failed dialogues gave way to results of other stores\n", failed);
  fmt::print("{}: {}\n", printable(out), counted(summary.units, "dialogue"));
}

}  // namespace

void add_merge_command(CLI::App& app, const CommonOptions& common) {
  struct Options {
    std::string out;
    std::vector<std::string> stores;
  };
  auto o = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("merge", "Merge the results of several stores into one");
  command->footer(
      "Examples:\n"
      "  turnbench merge results.db shard-1.db shard-2.db shard-3.db\n"
      "  turnbench merge results.db shard-*.db --json\n"
      "Equal results are kept once, and a failed unit gives way to one that succeeded.  If two "
      "stores\n"
      "have different results of one unit, or results of other sources of the program, nothing is\n"
      "written.  OUT keeps what it has, and may be missing.");
  command->add_option("out", o->out, "store to write, created if missing")->required();
  command->add_option("db", o->stores, "stores to read")->required();
  command->callback([o, &common] {
    const MergeSummary summary = merge_stores(o->out, {o->stores.begin(), o->stores.end()});
    if (common.json) {
      fmt::print("{}\n", dump(to_json(o->out, summary)));
    } else {
      print(o->out, summary);
    }
  });
}

}  // namespace turnbench
