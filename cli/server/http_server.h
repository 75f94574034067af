#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>

namespace turnbench {

/// The answer to a request.
struct HttpReply {
  int status = 200;
  std::string type = "text/plain; charset=utf-8";
  std::string body;
};
/// Answers a GET request.  Several threads may call it at the same time.
using HttpHandler = std::function<HttpReply(const std::string& path,
                                            const std::map<std::string, std::string>& query)>;

/// True if a Host header names the loopback interface: localhost, 127.0.0.1 or [::1], with any
/// port. Other names may be those of web sites that resolve to this machine (DNS rebinding).
bool is_loopback_host(std::string host);

/// Serves GET and HEAD requests on the loopback interface from its creation on.
class HttpServer {
 public:
  /// port: 0 for any free one.
  /// @throws Error (runtime) if the port cannot be opened
  HttpServer(int port, HttpHandler handler);
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;
  int port() const { return port_; }

 private:
  struct Implementation;
  std::unique_ptr<Implementation> implementation_;
  int port_ = 0;
};

}  // namespace turnbench
