#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

namespace turnbench {

/// Where requests go.
struct Url {
  std::string full;   ///< as it is requested
  std::string shown;  ///< without its query, which may hold a secret: for messages and the store
};

/// BASE/chat/completions of a base URL such as http://127.0.0.1:8080/v1.  Refuses other schemes
/// than http and https, and credentials in the URL, without repeating them.
Url chat_url(const std::string& base);

/// What came back.
struct HttpReply {
  long status = 0;  ///< 0: no whole reply came, and `error` says why
  std::string body, error;
  double retry_after = 0;  ///< seconds that the server asks to wait; 0: it does not
};

/// Posts JSON; one connection, kept open.  To be used by one thread at a time.  The key goes into
/// the Authorization header and nowhere else: where the server repeats it, it reads [key].
class HttpClient {
 public:
  /// `timeout`: seconds for a whole exchange.  `key` may be empty.  Proxies and certificates are as
  /// the environment says.
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
