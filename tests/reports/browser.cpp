#include "browser.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <stdexcept>

#include "common/text.h"

namespace turnbench::test {
namespace {

constexpr int kTimeout = 120'000;  // ms, for one message

/// Runs Chromium with the pipe's ends as file descriptors 3 (which it reads) and 4.
[[noreturn]] void become_chromium(const std::string& program, const std::string& profile, int in,
                                  int out) {
  const int high_in = fcntl(in, F_DUPFD, 10), high_out = fcntl(out, F_DUPFD, 10);
  dup2(high_in, 3);
  dup2(high_out, 4);
  const int null = ::open("/dev/null", O_RDWR);
  for (const int fd : {0, 1, 2}) dup2(null, fd);
  std::vector<std::string> arguments = {program,
                                        "--headless",
                                        "--disable-gpu",
                                        "--disable-dev-shm-usage",
                                        "--no-first-run",
                                        "--disable-background-networking",
                                        "--disable-component-update",
                                        "--remote-debugging-pipe",
                                        "--user-data-dir=" + profile,
                                        "about:blank"};
  if (geteuid() == 0) arguments.insert(arguments.begin() + 1, "--no-sandbox");
  std::vector<char*> raw;
  for (std::string& argument : arguments) raw.push_back(argument.data());
  raw.push_back(nullptr);
  execv(program.c_str(), raw.data());
  _exit(127);
}

}  // namespace

std::string Browser::program() {
  const char* path = std::getenv("PATH");
  for (const std::string& directory : split(path == nullptr ? "" : path, ":")) {
    for (const char* name : {"chromium", "chromium-browser", "google-chrome"}) {
      const std::string file = directory + "/" + name;
      if (access(file.c_str(), X_OK) == 0) return file;
    }
  }
  return "";
}

Browser::Browser() {
  signal(SIGPIPE, SIG_IGN);
  int in[2], out[2];
  if (pipe(in) != 0 || pipe(out) != 0) throw std::runtime_error("pipe");
  process_ = fork();
  if (process_ == 0) {
    setpgid(0, 0);
    become_chromium(program(), profile_.path("profile"), in[0], out[1]);
  }
  ::close(in[0]);
  ::close(out[1]);
  to_ = in[1];
  from_ = out[0];
  const Json target = call("Target.createTarget", {{"url", "about:blank"}});
  session_ = call("Target.attachToTarget",
                  {{"targetId", target["targetId"]}, {"flatten", true}})["sessionId"];
  for (const char* domain : {"Page", "Runtime", "Network", "Log"})
    call(std::string(domain) + ".enable");
}

Browser::~Browser() {
  ::close(to_);
  ::close(from_);
  kill(-process_, SIGKILL);
  waitpid(process_, nullptr, 0);
}

Json Browser::receive() {
  std::size_t end;
  while ((end = received_.find('\0')) == std::string::npos) {
    pollfd waiting = {from_, POLLIN, 0};
    char buffer[65536];
    if (poll(&waiting, 1, kTimeout) <= 0) throw std::runtime_error("Chromium does not answer");
    const ssize_t n = read(from_, buffer, sizeof buffer);
    if (n <= 0) throw std::runtime_error("Chromium has ended");
    received_.append(buffer, static_cast<std::size_t>(n));
  }
  const Json message = Json::parse(received_.substr(0, end));
  received_.erase(0, end + 1);
  return message;
}

Json Browser::call(const std::string& method, Json parameters) {
  Json request = {{"id", ++last_id_}, {"method", method}, {"params", std::move(parameters)}};
  if (!session_.empty()) request["sessionId"] = session_;
  const std::string text = request.dump() + '\0';
  for (std::size_t sent = 0; sent < text.size();) {
    const ssize_t n = write(to_, text.data() + sent, text.size() - sent);
    if (n <= 0) throw std::runtime_error("Chromium has ended");
    sent += static_cast<std::size_t>(n);
  }
  for (;;) {
    const Json message = receive();
    if (message.value("id", 0) != last_id_) {
      note(message);
    } else if (message.contains("error")) {
      throw std::runtime_error(method + ": " + message["error"].dump());
    } else {
      return message["result"];
    }
  }
}

void Browser::note(const Json& event) {
  const std::string method = event.value("method", "");
  const Json& parameters = event["params"];
  if (method == "Page.loadEventFired") is_loaded_ = true;
  if (method == "Runtime.exceptionThrown") errors_.push_back(parameters.dump());
  if (method == "Log.entryAdded" && parameters["entry"]["level"] == "error")
    errors_.push_back(parameters.dump());
  if (method == "Network.requestWillBeSent") {
    const std::string url = parameters["request"]["url"];
    if (url != url_) requests_.push_back(url);
  }
}

void Browser::open(const std::string& file, int width, const std::string& scheme) {
  call("Emulation.setDeviceMetricsOverride",
       {{"width", width}, {"height", 900}, {"deviceScaleFactor", 1}, {"mobile", false}});
  call("Emulation.setEmulatedMedia",
       {{"features", {{{"name", "prefers-color-scheme"}, {"value", scheme}}}}});
  errors_.clear();
  requests_.clear();
  is_loaded_ = false;
  url_ = "file://" + file;
  call("Page.navigate", {{"url", url_}});
  while (!is_loaded_) note(receive());
}

Json Browser::evaluate(const std::string& expression) {
  const Json out =
      call("Runtime.evaluate",
           {{"expression", expression}, {"awaitPromise", true}, {"returnByValue", true}});
  if (out.contains("exceptionDetails")) errors_.push_back(out["exceptionDetails"].dump());
  return out["result"].value("value", Json());
}

void Browser::press(const std::string& key) {
  for (const char* type : {"keyDown", "keyUp"}) {
    Json event = {{"type", type}, {"key", key}, {"code", key}};
    const std::map<std::string, int> codes = {
        {"Enter", 13},   {"Escape", 27},     {"Tab", 9},       {"ArrowLeft", 37},
        {"ArrowUp", 38}, {"ArrowRight", 39}, {"ArrowDown", 40}};
    event["windowsVirtualKeyCode"] = codes.at(key);
    if (key == "Enter" && type == std::string("keyDown")) event["text"] = "\r";
    call("Input.dispatchKeyEvent", event);
  }
}

void Browser::show_as_printed(bool printed) {
  call("Emulation.setEmulatedMedia", {{"media", printed ? "print" : ""}});
  evaluate(printed ? "dispatchEvent(new Event('beforeprint'))"
                   : "dispatchEvent(new Event('afterprint'))");
}

}  // namespace turnbench::test
