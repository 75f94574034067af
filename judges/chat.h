#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "judges/http.h"

namespace turnbench {

struct ChatOptions {
  std::string url;  ///< base, such as http://127.0.0.1:8080/v1
  std::string key;  ///< empty: none is sent
  std::string model;
  double timeout = 120;   ///< seconds of one try
  int retries = 5;        ///< after the first try
  double first_wait = 1;  ///< seconds before the second try; doubles with each
};

struct ChatRequest {
  std::string prompt;
  std::optional<double> temperature;
  int max_tokens = 0;      ///< 0: the server's own
  std::uint64_t seed = 0;  ///< spreads the waits of requests that fail together
};

struct ChatReply {
  enum class Status { kOk, kFailed, kStopped };
  Status status = Status::kOk;
  std::string raw;   ///< the last body, as it came
  std::string text;  ///< what the model says
  std::string error;
};

/// A chat-completions endpoint as OpenAI's, vLLM's or llama.cpp's.  To be used by one thread at a
/// time.
class ChatClient {
 public:
  explicit ChatClient(const ChatOptions& options);

  /// Asks, and asks again where that may help: on 408, 409, 429 and 5xx, cut connections, timeouts
  /// and replies that are no completion; after a wait that doubles, or that the server names.
  /// Throws where no request can succeed (401, 403, 404).  `should_stop` is asked while it waits.
  ChatReply ask(const ChatRequest& request, const std::function<bool()>& should_stop);

 private:
  ChatOptions options_;
  Url url_;
  HttpClient http_;
};

}  // namespace turnbench
