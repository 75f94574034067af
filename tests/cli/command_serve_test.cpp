// `serve`: its paths, and the requests that it refuses; `status --watch`.

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <thread>

#include "cli/server/http_server.h"
#include "common/clock.h"
#include "common/file.h"
#include "common/text.h"
#include "tests/cli/small_store.h"

namespace turnbench::test {
namespace {

/// The whole answer to a request, as the server sent it.
std::string exchange_bytes(int port, const std::string& request) {
  const int socket = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  std::string out;
  if (connect(socket, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0 &&
      send(socket, request.data(), request.size(), MSG_NOSIGNAL) ==
          static_cast<ssize_t>(request.size())) {
    char buffer[4096];
    for (ssize_t n; (n = recv(socket, buffer, sizeof(buffer), 0)) > 0;)
      out.append(buffer, static_cast<std::size_t>(n));
  }
  close(socket);
  return out;
}

struct HttpAnswer {
  std::string status, head, body;
};

HttpAnswer http_request(int port, const std::string& path, const std::string& method = "GET",
                        const std::string& host = "localhost") {
  const std::string all =
      exchange_bytes(port, method + " " + path + " HTTP/1.1\r\nHost: " + host + "\r\n\r\n");
  const std::size_t end = all.find("\r\n\r\n");
  if (end == std::string::npos) return {all, all, ""};
  return {all.substr(9, 3), all.substr(0, end), all.substr(end + 4)};
}

/// The text of a file once it contains `part`, waiting for at most 30 s.
std::string file_text_with(const std::string& file, const std::string& part) {
  const auto start = Clock::now();
  while (seconds_since(start) < 30) {
    if (std::filesystem::exists(file)) {
      std::string text = read_file(file);
      if (text.find(part) != std::string::npos) return text;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  ADD_FAILURE() << "no " << part << " in " << file;
  return "";
}

class ServeCommand : public testing::Test {
 protected:
  ServeCommand() : server_({"serve", db_, "--port", "0"}, "", out_) {
    const std::string line = file_text_with(out_, "/ until");
    const std::size_t colon = line.rfind(':');
    if (colon != std::string::npos) port_ = std::stoi(line.substr(colon + 1));
  }

  TemporaryDirectory directory_;
  const std::string db_ = directory_.write("s.db", small_store()), out_ = directory_.path("out");
  Program server_;
  int port_ = 0;
};

TEST_F(ServeCommand, ServesThePageAndReports) {
  const HttpAnswer page = http_request(port_, "/");
  EXPECT_EQ(page.status, "200") << page.head;
  EXPECT_TRUE(page.body.starts_with("<!doctype html>\n"));
  EXPECT_TRUE(page.body.ends_with("</body></html>\n"));
  EXPECT_NE(page.body.find("connect-src 'self'"), std::string::npos);
  EXPECT_NE(page.head.find("Content-Type: text/html; charset=utf-8"), std::string::npos);
  const Json status = parse_json(http_request(port_, "/status.json").body, "status");
  EXPECT_NE(page.body.find("<body data-version=\"" + status["version"].get<std::string>() + "\">"),
            std::string::npos);
  EXPECT_EQ(status["experiments"], run_program({"status", db_, "--json"}).json());
  const std::string report = run_program({"report", db_, "--format", "json"}).out;
  EXPECT_EQ(http_request(port_, "/report.json?experiment=small").body, report);
  EXPECT_EQ(http_request(port_, "/report.json").body, report);
  // Apart from what follows the store, the page is the report.
  const std::string file = directory_.path("page.html");
  ASSERT_EQ(run_program({"report", db_, "-o", file}).code, 0);
  const std::string text = read_file(file);
  const std::size_t main = text.find("<main"), end = text.find("</main>");
  EXPECT_NE(page.body.find(text.substr(main, end - main)), std::string::npos);
  EXPECT_EQ(text.find("data-version"), std::string::npos);
  EXPECT_EQ(text.find("fetch("), std::string::npos) << "a file makes no requests";
}

TEST_F(ServeCommand, RefusesOtherRequests) {
  EXPECT_EQ(http_request(port_, "/other").status, "404");
  EXPECT_EQ(http_request(port_, "/../etc/passwd").status, "404");
  const HttpAnswer unknown = http_request(port_, "/report.json?experiment=big");
  EXPECT_EQ(unknown.status, "404");
  EXPECT_NE(unknown.body.find("\"big\""), std::string::npos) << unknown.body;
  for (const char* method : {"POST", "PUT", "DELETE", "OPTIONS"})
    EXPECT_EQ(http_request(port_, "/", method).status, "405") << method;
  for (const char* host : {"example.com", "127.0.0.1.example.com", "localhost.example.com:80",
                           "192.168.0.1", "localhost:80@example.com", ""})
    EXPECT_EQ(http_request(port_, "/", "GET", host).status, "403") << host;
  EXPECT_EQ(exchange_bytes(port_, "GET / HTTP/1.1\r\n\r\n").substr(9, 3), "403")
      << "without a Host";
  for (const char* host : {"localhost", "127.0.0.1", "[::1]", "LocalHost:8000", "127.0.0.1:1"})
    EXPECT_EQ(http_request(port_, "/status.json", "GET", host).status, "200") << host;
}

TEST_F(ServeCommand, AnswersHeadWithoutABody) {
  const HttpAnswer head = http_request(port_, "/report.json", "HEAD");
  EXPECT_EQ(head.status, "200");
  EXPECT_EQ(head.body, "");
  const std::string size =
      "Content-Length: " + std::to_string(http_request(port_, "/report.json").body.size());
  EXPECT_NE(head.head.find(size), std::string::npos) << head.head;
}

TEST_F(ServeCommand, FollowsTheStore) {
  const auto version = [&] {
    return parse_json(http_request(port_, "/status.json").body, "status")["version"]
        .get<std::string>();
  };
  const std::string before = version();
  EXPECT_EQ(version(), before);
  const HttpAnswer page = http_request(port_, "/");
  execute(db_, "UPDATE score SET value = 1 - value");
  EXPECT_NE(version(), before);
  const auto start = Clock::now();
  std::string next = page.body;
  while (next == page.body && seconds_since(start) < 10) {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    next = http_request(port_, "/").body;
  }
  EXPECT_NE(next, page.body);
  EXPECT_EQ(http_request(port_, "/").body, next) << "made once for each change";
  const std::string report = run_program({"report", db_, "--format", "json"}).out;
  EXPECT_EQ(http_request(port_, "/report.json").body, report);
}

TEST_F(ServeCommand, EndsAtSignals) {
  const auto start = Clock::now();
  // A client that has connected and sends nothing does not delay the end.
  std::thread client([&] { exchange_bytes(port_, "GET / HTTP/1.1\r\n"); });
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  server_.signal(SIGTERM);
  const Finished ended = server_.wait();
  client.join();
  EXPECT_EQ(ended.code, 0);
  EXPECT_EQ(ended.err, "");
  EXPECT_LT(seconds_since(start), 3);
  EXPECT_EQ(read_file(db_), small_store()) << "nothing is written";
  Program again({"serve", db_, "--port", std::to_string(port_)}, "", directory_.path("again"));
  file_text_with(directory_.path("again"), "/ until");
  again.signal(SIGINT);
  EXPECT_EQ(again.wait().code, 0);
}

TEST_F(ServeCommand, RefusesAPortInUse) {
  const Finished second = run_program({"serve", db_, "--port", std::to_string(port_)});
  EXPECT_EQ(second.code, 1);
  EXPECT_EQ(second.out, "");
  EXPECT_TRUE(second.err.starts_with("turnbench: --port: found " + std::to_string(port_)))
      << second.err;
  EXPECT_EQ(std::count(second.err.begin(), second.err.end(), '\n'), 1);
}

TEST(LoopbackHost, IsNamedLiterally) {
  for (const char* host :
       {"localhost", "LOCALHOST:1", "127.0.0.1", "127.0.0.1:65535", "[::1]", "[::1]:80"})
    EXPECT_TRUE(is_loopback_host(host)) << host;
  for (const char* host : {"", ":80", "example.com", "localhost.", "127.0.0.2", "::1",
                           "localhost:a", "evil@localhost", "localhost:80:80"})
    EXPECT_FALSE(is_loopback_host(host)) << host;
}

TEST(MalformedServe, IsRefusedInOneLine) {
  const Malformed cases[] = {
      {"no store", [](const TemporaryDirectory&) { return Arguments{"serve"}; },
       "serve: found no db, expected one"},
      {"port is no number",
       [](const TemporaryDirectory& d) {
         return Arguments{"serve", d.write("s.db", small_store()), "--port", "70000"};
       },
       "--port: found \"70000\", expected a whole number from 0 to 65535"},
      {"not a store",
       [](const TemporaryDirectory& d) {
         return Arguments{"serve", d.write("s.db", "text of another program, of no use here")};
       },
       "s.db"},
  };
  expect_refusals(cases);
}

TEST(WatchStatus, PrintsALineForEachChange) {
  const TemporaryDirectory directory;
  directory.write("small.csv", "method,position,value\nfull,end,12.5\n");
  const std::string db = directory.path("s.db"), out = directory.path("out"),
                    manifest = directory.write("m.json", small_manifest());
  ASSERT_EQ(run_program({"run", manifest, "--db", db, "--limit", "1", "--quiet"}).code, 0);
  Program watch({"status", db, "--watch"}, "", out);
  const std::string first = "small: 4 dialogues done, 0 failed, 4 pending\n";
  EXPECT_EQ(file_text_with(out, "pending\n"), first);
  ASSERT_EQ(run_program({"run", manifest, "--db", db, "--quiet"}).code, 0);
  const std::string text = file_text_with(out, "0 pending\n");
  EXPECT_TRUE(text.starts_with(first) &&
              text.ends_with("small: 8 dialogues done, 0 failed, 0 pending\n"))
      << text;
  watch.signal(SIGINT);
  const Finished ended = watch.wait();
  EXPECT_EQ(ended.code, 0);
  EXPECT_EQ(ended.err, "");
}

TEST(WatchStatus, IsForStoresOnly) {
  const Malformed cases[] = {
      {"retry",
       [](const TemporaryDirectory& d) {
         return Arguments{"status", d.write("s.db", small_store()), "retry", "--watch"};
       },
       "--watch: found retry too, expected only one of them"},
      {"folder",
       [](const TemporaryDirectory& d) {
         return Arguments{"status", d.path(""), "--watch"};
       },
       "expected a store"},
  };
  expect_refusals(cases);
}

}  // namespace
}  // namespace turnbench::test
