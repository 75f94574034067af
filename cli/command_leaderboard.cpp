#include <fmt/format.h>

#include <filesystem>

#include "cli/cli.h"
#include "cli/report_output.h"
#include "common/error.h"
#include "common/text.h"
#include "reports/escape.h"
#include "reports/leaderboard/leaderboard.h"

namespace turnbench {
namespace {

constexpr const char* kBoardFormats[] = {"md", "csv", "json"};

struct LeaderboardOptions {
  std::vector<std::string> stores;
  std::string format = "md", output;
  LeaderboardRequest request;
  bool force = false;
};

/// @throws Error (input) for a store that is given twice, and for an output that is a store.
void check_files(const LeaderboardOptions& o) {
  const auto same = [](const std::string& a, const std::string& b) {
    std::error_code ignored;
    return a == b || std::filesystem::equivalent(a, b, ignored);
  };
  for (std::size_t i = 0; i < o.stores.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      if (same(o.stores[i], o.stores[j]))
        throw input_error("leaderboard: found the store {} twice, expected it once",
                          printable(o.stores[i]));
    }
    if (!o.output.empty() && same(o.stores[i], o.output))
      throw input_error("--output: found the store {}, expected another file", printable(o.output));
  }
}

std::vector<Leaderboard> read_leaderboards(const LeaderboardOptions& o) {
  std::vector<Store> stores;
  for (const std::string& path : o.stores) stores.push_back(Store::open(path));
  std::vector<const Store*> all;
  for (const Store& store : stores) all.push_back(&store);
  return leaderboards(all, o.request);
}

std::string leaderboard_text(const std::vector<Leaderboard>& boards, const std::string& format) {
  if (format == "json") return leaderboard_json(boards);
  return format == "csv" ? leaderboard_csv(boards) : leaderboard_markdown(boards);
}

/// Prints to stderr, because a CSV has no place for notes.
void print_notes(const std::vector<Leaderboard>& boards) {
  for (const Leaderboard& board : boards) {
    for (const std::string& note : board.notes)
      fmt::print(stderr, "{}: {}\n", one_line(board.model), one_line(note));
  }
}

}  // namespace

void add_leaderboard_command(CLI::App& app, const CommonOptions& common) {
  auto o = std::make_shared<LeaderboardOptions>();
  CLI::App* command = app.add_subcommand(
      "leaderboard",
      "Rank the methods of one or several stores on the dialogues, positions and turns that all of "
      "them have");
  command->footer(
      "Examples:\n  turnbench leaderboard results.db\n"
      "  turnbench leaderboard a.db b.db --model llama --format csv -o ranks.csv\n"
      "Each model has its own ranking. Scores are x100. A rank is a range where the differences do "
      "not\ndecide. Times (ms) and memory peaks (MiB) come from isolated runs.");
  command->add_option("db", o->stores, "stores")->required();
  command
      ->add_option("--experiment", o->request.experiments,
                   "experiment; may be repeated; default: all")
      ->allow_extra_args(false);
  command->add_option("--model", o->request.model, "only this model, by its label");
  add_score_choice(*command, o->request.choice);
  const CLI::Option* format =
      command
          ->add_option("--format", o->format,
                       "md, csv, json; default: by the extension of -o, or md")
          ->check(one_of({"md", "csv", "json"}));
  command->add_option("-o,--output", o->output,
                      "file; default: stdout. Replaces only files that turnbench wrote");
  command->add_flag("--force", o->force, "with -o: replace any file");
  command->callback([o, format, &common] {
    check_files(*o);
    o->format = chosen_format(common, *format, o->format, o->output, kBoardFormats);
    check_score_choice(o->request.choice);
    const std::vector<Leaderboard> boards = read_leaderboards(*o);
    if (o->format == "csv" && !common.quiet) print_notes(boards);
    print_or_write(leaderboard_text(boards, o->format), o->output, o->force);
  });
}

}  // namespace turnbench
