#include "judges/chat.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <nlohmann/json.hpp>
#include <thread>

#include "common/clock.h"
#include "common/error.h"
#include "common/json.h"
#include "common/random.h"
#include "common/text.h"

namespace turnbench {
namespace {

constexpr double kLongestWait = 60;            // of the client's own waits, in seconds
constexpr double kLongestAskedWait = 10 * 60;  // upper limit for waits that a server requests
constexpr double kSlice = 0.02;                // seconds between polls of `should_stop`
constexpr std::size_t kShown = 200;            // bytes of a body that a message quotes

std::string body_of(const ChatOptions& options, const ChatRequest& request) {
  OrderedJson out = {
      {"model", options.model},
      {"messages", OrderedJson::array({{{"role", "user"}, {"content", request.prompt}}})},
      {"stream", false}};
  if (request.temperature) out["temperature"] = *request.temperature;
  if (request.max_tokens > 0) out["max_tokens"] = request.max_tokens;
  return out.dump(-1, ' ', false, OrderedJson::error_handler_t::replace);
}

bool may_pass(long status) {
  return status == 408 || status == 409 || status == 429 || status >= 500;
}

/// Returns false if `should_stop` ended the wait.
bool wait(double seconds, const std::function<bool()>& should_stop) {
  const auto start = Clock::now();
  while (!should_stop()) {
    const double left = seconds - seconds_since(start);
    if (left <= 0) return true;
    std::this_thread::sleep_for(std::chrono::duration<double>(std::min(left, kSlice)));
  }
  return false;
}

}  // namespace

std::string completion_text(const std::string& body) {
  const Json json = parse_json(body, "reply");
  const JsonView choices = JsonView(json, "reply").at("choices");
  if (!choices.is_array() || choices.size() == 0) choices.fail("at least one choice");
  const JsonView message = choices[0].at("message");
  return message.has("content") ? message.at("content").as_string() : "";
}

void Endpoint::replied() {
  std::lock_guard lock(mutex_);
  ever_replied_ = true;
  attempts_ = requests_ = 0;
}

bool Endpoint::is_gone_after_failure(bool last) {
  std::lock_guard lock(mutex_);
  ++attempts_;
  if (last) ++requests_;
  return requests_ >= kMostFailures || (!ever_replied_ && attempts_ >= kMostFailures);
}

ChatClient::ChatClient(const ChatOptions& options, Endpoint& endpoint)
    : options_(options), endpoint_(endpoint), http_(endpoint.url(), options.key, options.timeout) {}

ChatReply ChatClient::ask(const ChatRequest& request, const std::function<bool()>& should_stop) {
  const std::string body = body_of(options_, request);
  Random random(request.seed);
  ChatReply out;
  for (int attempt = 0;; ++attempt) {
    HttpReply reply = http_.post(body);
    if (reply.status != 0) endpoint_.replied();
    if (reply.unreachable && endpoint_.is_gone_after_failure(attempt == options_.retries)) {
      out.error = reply.error;
      out.status = ChatReply::Status::kNoServer;
      return out;
    }
    out.raw = replace_invalid_utf8(reply.body);
    const std::string quoted = printable(shorten(trim(out.raw), kShown));
    if (reply.status == 200) {
      try {
        out.text = completion_text(out.raw);
        out.error.clear();
        return out;
      } catch (const Error& error) {
        out.error = error.what();
      }
    } else if (reply.status == 0) {
      out.error = reply.error;
    } else {
      out.error = fmt::format("found the status {} ({}), expected 200", reply.status, quoted);
    }
    if (reply.status == 401 || reply.status == 403 || reply.status == 404)
      throw runtime_error("{}: {}", endpoint_.url().display, out.error);
    const bool again = reply.status == 0 || reply.status == 200 || may_pass(reply.status);
    if (!again || attempt == options_.retries) break;
    if (reply.retry_after > kLongestAskedWait) {
      out.error += fmt::format("; it asks to wait {} s", reply.retry_after);
      break;
    }
    const double own = std::min(kLongestWait, options_.first_wait * std::exp2(attempt));
    if (!wait(std::max(reply.retry_after, own * (0.5 + random.uniform())), should_stop)) {
      out.status = ChatReply::Status::kStopped;
      return out;
    }
  }
  out.status = ChatReply::Status::kFailed;
  return out;
}

}  // namespace turnbench
