#include "tests/judges/server.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "common/text.h"

namespace turnbench::test {

std::string Server::Request::header(const std::string& name) const {
  for (const std::string& line : split(head, "\r\n")) {
    if (line.starts_with(name + ": ")) return line.substr(name.size() + 2);
  }
  return "";
}

Server::Server(Handler handler) : handler_(std::move(handler)) {
  ::setenv("no_proxy", "127.0.0.1", 1);  // regardless of the environment
  socket_ = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  auto* any = reinterpret_cast<sockaddr*>(&address);
  if (socket_ < 0 || ::bind(socket_, any, size) != 0 || ::listen(socket_, 64) != 0 ||
      ::getsockname(socket_, any, &size) != 0) {
    throw std::runtime_error("cannot listen on loopback");
  }
  port_ = ntohs(address.sin_port);
  thread_ = std::thread([this] { accept_all(); });
}

Server::~Server() {
  stop_ = true;
  ::shutdown(socket_, SHUT_RDWR);
  thread_.join();
  ::close(socket_);
  for (std::thread& t : connections_) t.join();
}

std::string Server::url() const {
  return "http://127.0.0.1:" + std::to_string(port_) + "/v1";
}

std::vector<Server::Request> Server::requests() const {
  std::lock_guard lock(mutex_);
  return requests_;
}

void Server::accept_all() {
  while (!stop_) {
    const int connection = ::accept(socket_, nullptr, nullptr);
    if (connection < 0) return;
    connections_.emplace_back([this, connection] { serve(connection); });
  }
}

void Server::serve(int connection) {
  std::string received;
  std::size_t end = std::string::npos, length = 0;
  char buffer[1 << 16];
  for (;;) {
    const ssize_t got = ::recv(connection, buffer, sizeof(buffer), 0);
    if (got <= 0) break;
    received.append(buffer, static_cast<std::size_t>(got));
    if (end == std::string::npos && (end = received.find("\r\n\r\n")) != std::string::npos) {
      const Request head{0, received.substr(0, end), ""};
      length = std::stoul("0" + head.header("Content-Length"));
    }
    if (end == std::string::npos || received.size() < end + 4 + length) continue;
    Request request{0, received.substr(0, end), received.substr(end + 4)};
    {
      std::lock_guard lock(mutex_);
      request.number = static_cast<int>(requests_.size());
      requests_.push_back(request);
    }
    const Response response = handler_(request);
    for (auto waited = std::chrono::milliseconds(0); waited < response.delay && !stop_;
         waited += std::chrono::milliseconds(10)) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    for (std::size_t sent = 0; sent < response.bytes.size();) {
      const ssize_t n = ::send(connection, response.bytes.data() + sent,
                               response.bytes.size() - sent, MSG_NOSIGNAL);
      if (n <= 0) break;
      sent += static_cast<std::size_t>(n);
    }
    break;
  }
  ::close(connection);
}

std::string http(int status, const std::string& body, const std::string& headers) {
  return "HTTP/1.1 " + std::to_string(status) + " X\r\nContent-Type: application/json\r\n" +
         headers + "Content-Length: " + std::to_string(body.size()) +
         "\r\nConnection: close\r\n\r\n" + body;
}

std::string completion(const std::string& text) {
  const nlohmann::json message = {{"role", "assistant"}, {"content", text}};
  const nlohmann::json body = {
      {"id", "x"}, {"choices", nlohmann::json::array({{{"index", 0}, {"message", message}}})}};
  return http(200, body.dump());
}

}  // namespace turnbench::test
