#pragma once

// An HTTP server on loopback that sends the bytes that a test prescribes.

#include <atomic>
#include <chrono>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace turnbench::test {

class Server {
 public:
  struct Request {
    int number = 0;  ///< from 0, in order of arrival
    std::string head, body;
    std::string header(const std::string& name) const;  ///< "" if absent
  };
  struct Response {
    std::string bytes;  ///< sent unchanged; then the connection is closed
    std::chrono::milliseconds delay{0};
  };
  using Handler = std::function<Response(const Request&)>;

  explicit Server(Handler handler);
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  std::string url() const;  ///< http://127.0.0.1:PORT/v1
  std::vector<Request> requests() const;

 private:
  void accept_all();
  void serve(int connection);

  Handler handler_;
  int socket_ = -1, port_ = 0;
  std::atomic<bool> stop_{false};
  mutable std::mutex mutex_;
  std::vector<Request> requests_;
  std::vector<std::thread> connections_;
  std::thread thread_;
};

/// A complete response; each line of `headers` has a line end.
std::string http(int status, const std::string& body, const std::string& headers = "");

/// A chat completion with the content `text`.
std::string completion(const std::string& text);

}  // namespace turnbench::test
