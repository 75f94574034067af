#pragma once

#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>

#include "judges/http.h"

namespace turnbench {

struct ChatOptions {
  std::string url;  ///< base URL, such as http://127.0.0.1:8080/v1
  std::string key;  ///< API key; empty: none is sent
  std::string model;
  double timeout = 120;   ///< seconds per attempt
  int retries = 5;        ///< attempts after the first
  double first_wait = 1;  ///< seconds before the second attempt; doubles with each
};

struct ChatRequest {
  std::string prompt;
  std::optional<double> temperature;
  int max_tokens = 0;  ///< 0: the server's default
  /// For the random part of waits, so that requests do not retry simultaneously.
  std::uint64_t seed = 0;
};

struct ChatReply {
  enum class Status { kOk, kFailed, kStopped, kNoServer };
  Status status = Status::kOk;
  std::string raw;   ///< the last response body, unchanged
  std::string text;  ///< the model's message
  std::string error;
};

/// Connection state of an endpoint, shared by the clients of one run.  Thread-safe.
class Endpoint {
 public:
  explicit Endpoint(const std::string& base_url) : url_(chat_url(base_url)) {}
  const Url& url() const { return url_; }

  /// Records a reply of the server, regardless of its status.
  void replied();
  /// Records that a connection failed.  `last`: this was the request's last attempt.  Returns true
  /// if there is no server: after kMostFailures consecutive attempts without any earlier reply, or
  /// after kMostFailures consecutive requests of which all attempts failed.
  bool is_gone_after_failure(bool last);

  static constexpr int kMostFailures = 3;

 private:
  Url url_;
  std::mutex mutex_;
  bool ever_replied_ = false;
  int attempts_ = 0, requests_ = 0;  // failures since the last reply
};

/// Client of a chat-completions endpoint, such as OpenAI, vLLM or llama.cpp.  Not thread-safe.
class ChatClient {
 public:
  /// `endpoint` is that of `options.url` and must outlive the client.
  ChatClient(const ChatOptions& options, Endpoint& endpoint);

  /// Sends a request.  Retries on 408, 409, 429 and 5xx, broken connections, timeouts and replies
  /// that are not a completion, after a wait that doubles each time or that the server requests.
  /// Polls `should_stop` while it waits. kNoServer: the endpoint is unavailable (see Endpoint).
  /// @throws Error (runtime) if no request can succeed (401, 403, 404).
  ChatReply ask(const ChatRequest& request, const std::function<bool()>& should_stop);

 private:
  ChatOptions options_;
  Endpoint& endpoint_;
  HttpClient http_;
};

/// The model's message in the body of a reply: choices[0].message.content; null counts as empty.
/// @throws Error (input) if the body is not a completion.
std::string completion_text(const std::string& body);

}  // namespace turnbench
