#include "cli/server/http_server.h"

#include <httplib.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <exception>
#include <thread>

#include "common/error.h"

namespace turnbench {
namespace {

constexpr const char* kLoopback = "127.0.0.1";
constexpr int kThreads = 4;

void set_reply(httplib::Response& out, const HttpReply& reply) {
  out.status = reply.status;
  out.set_content(reply.body, reply.type);
}

}  // namespace

bool is_loopback_host(std::string host) {
  std::transform(host.begin(), host.end(), host.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
  const std::size_t bracket = host.rfind(']'), colon = host.rfind(':');
  if (colon != std::string::npos && (bracket == std::string::npos || colon > bracket)) {
    const std::string port = host.substr(colon + 1);
    if (port.find_first_not_of("0123456789") != std::string::npos) return false;
    host.resize(colon);
  }
  constexpr std::array<const char*, 3> kNames = {"localhost", kLoopback, "[::1]"};
  return std::find(kNames.begin(), kNames.end(), host) != kNames.end();
}

struct HttpServer::Implementation {
  httplib::Server server;
  HttpHandler handler;
  std::thread thread;

  void answer(const httplib::Request& request, httplib::Response& response) const;
};

void HttpServer::Implementation::answer(const httplib::Request& request,
                                        httplib::Response& response) const {
  response.set_header("Cache-Control", "no-store");
  response.set_header("X-Content-Type-Options", "nosniff");
  response.set_header("X-Frame-Options", "DENY");
  response.set_header("Cross-Origin-Resource-Policy", "same-origin");
  if (request.get_header_value_count("Host") != 1 ||
      !is_loopback_host(request.get_header_value("Host"))) {
    set_reply(response, {403, "text/plain; charset=utf-8",
                         "Host: found another name, expected localhost or 127.0.0.1\n"});
    return;
  }
  if (request.method != "GET" && request.method != "HEAD") {
    response.set_header("Allow", "GET, HEAD");
    set_reply(response, {405, "text/plain; charset=utf-8", "expected GET or HEAD\n"});
    return;
  }
  try {
    set_reply(response, handler(request.path, {request.params.begin(), request.params.end()}));
  } catch (const std::exception& error) {  // a store that is locked or gone, for example
    set_reply(response, {500, "text/plain; charset=utf-8", std::string(error.what()) + "\n"});
  }
}

HttpServer::HttpServer(int port, HttpHandler handler)
    : implementation_(std::make_unique<Implementation>()) {
  httplib::Server& server = implementation_->server;
  implementation_->handler = std::move(handler);
  server.new_task_queue = [] { return new httplib::ThreadPool(kThreads); };
  server.set_keep_alive_max_count(1);  // an idle connection would occupy a thread
  // Without SO_REUSEPORT, which would let two servers share a port.
  server.set_socket_options([](socket_t socket) {
    const int on = 1;
    setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  });
  server.set_pre_routing_handler([this](const auto& request, auto& response) {
    implementation_->answer(request, response);
    return httplib::Server::HandlerResponse::Handled;
  });
  const bool any = port == 0;
  port_ = any                                    ? server.bind_to_any_port(kLoopback)
          : server.bind_to_port(kLoopback, port) ? port
                                                 : -1;
  if (port_ < 0) {
    throw runtime_error(
        "--port: found {}, which is in use or needs other rights on {}, expected a free port or 0",
        port, kLoopback);
  }
  implementation_->thread = std::thread([&server] { server.listen_after_bind(); });
}

HttpServer::~HttpServer() {
  implementation_->server.stop();
  implementation_->thread.join();
}

}  // namespace turnbench
