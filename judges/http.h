#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

namespace turnbench {

/// The address of an endpoint.
struct Url {
  std::string full;  ///< for requests
  std::string
      display;  ///< for messages and the store: without the query, which may contain a secret
};

/// BASE/chat/completions for a base URL such as http://127.0.0.1:8080/v1.
/// @throws Error (input) for schemes other than http and https, and for credentials in the URL
/// (which the message does not repeat).
Url chat_url(const std::string& base);

struct HttpReply {
  long status = 0;  ///< 0: there is no complete reply, and `error` gives the reason
  std::string body, error;
  bool unreachable = false;  ///< no connection: refused, timed out, or a name without address
  double retry_after = 0;    ///< wait that the server requests, in seconds, or 0
};

/// Posts JSON over one connection, which it keeps open.  Not thread-safe.  The key is only sent in
/// the Authorization header; if a reply repeats it, it is replaced by [key].
class HttpClient {
 public:
  /// `timeout`: seconds for one request and its reply.  `key` may be empty.  Proxies and
  /// certificates are taken from the environment.
  HttpClient(Url url, std::string key, double timeout);
  ~HttpClient();
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;

  HttpReply post(const std::string& json);

 private:
  struct Handle;
  std::unique_ptr<Handle> handle_;
  std::string key_;
};

}  // namespace turnbench
