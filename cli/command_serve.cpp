#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>

#include "cli/cli.h"
#include "cli/exit_signals.h"
#include "cli/server/http_server.h"
#include "common/error.h"
#include "common/text.h"
#include "reports/live_report.h"

namespace turnbench {
namespace {

constexpr int kDefaultPort = 8765;

HttpReply serve_path(LiveReport& report, const std::string& path,
                     const std::map<std::string, std::string>& query) {
  if (path == "/") return {200, "text/html; charset=utf-8", report.page()};
  if (path == "/status.json") return {200, "application/json", report.status()};
  if (path == "/report.json") {
    const auto experiment = query.find("experiment");
    try {
      return {200, "application/json",
              report.report(experiment == query.end() ? "" : experiment->second)};
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kInput) throw;
      return {404, "text/plain; charset=utf-8", printable(error.what()) + "\n"};
    }
  }
  return {404, "text/plain; charset=utf-8",
          "expected one of: /, /status.json, /report.json?experiment=NAME\n"};
}

}  // namespace

void add_serve_command(CLI::App& app, const CommonOptions& common) {
  struct Options {
    std::string db;
    int port = kDefaultPort;
  };
  auto o = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand(
      "serve", "Serve the page of a store to browsers on this machine, also while a run writes it");
  command->footer(
      "Examples:\n  turnbench serve results.db\n"
      "  turnbench serve results.db --port 0    # any free port\n"
      "  curl http://127.0.0.1:8765/report.json?experiment=quickstart\n"
      "Paths: / (the page), /status.json, /report.json?experiment=NAME. Nothing is written. Only\n"
      "programs on this machine can connect. Ctrl-C ends the server with exit code 0.");
  command->add_option("db", o->db, "store")->required();
  command->add_option("--port", o->port, "TCP port on 127.0.0.1; 0: any free one")
      ->transform(whole_number(0, 65'535))
      ->capture_default_str();
  command->callback([o, &common] {
    LiveReport report(o->db);
    const HttpServer server(o->port, [&report](const std::string& path, const auto& query) {
      return serve_path(report, path, query);
    });
    exit_at_signals();
    const std::string address = fmt::format("http://127.0.0.1:{}/", server.port());
    if (common.json) {
      fmt::print("{{\"address\":\"{}\"}}\n", address);
    } else {
      fmt::print("{} at {} until Ctrl-C\n", printable(o->db), address);
    }
    std::fflush(stdout);
    for (;;) pause();  // a signal ends the program
  });
}

}  // namespace turnbench
