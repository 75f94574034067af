#pragma once

#include <cstdint>
#include <functional>
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
  int max_tokens = 0;      ///< 0: the server's default
  std::uint64_t seed = 0;  ///< of the random part of waits, so that requests do not retry in step
};

struct ChatReply {
  enum class Status { kOk, kFailed, kStopped };
  Status status = Status::kOk;
  std::string raw;   ///< the last response body, unchanged
  std::string text;  ///< the model's message
  std::string error;
};

/// Client of a chat-completions endpoint, as of OpenAI, vLLM or llama.cpp.  Not thread-safe.
class ChatClient {
 public:
  explicit ChatClient(const ChatOptions& options);

  /// Sends a request.  Retries on 408, 409, 429 and 5xx, broken connections, timeouts and replies
  /// that are no completion, after a wait that doubles or that the server names.  Polls
  /// `should_stop` while it waits.
  /// @throws Error (runtime) if no request can succeed (401, 403, 404).
  ChatReply ask(const ChatRequest& request, const std::function<bool()>& should_stop);

 private:
  ChatOptions options_;
  Url url_;
  HttpClient http_;
};

}  // namespace turnbench
