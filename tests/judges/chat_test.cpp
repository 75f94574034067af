// The client against a server with the usual kinds of misbehavior.

#include "judges/chat.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "common/clock.h"
#include "common/error.h"
#include "common/json.h"
#include "tests/judges/server.h"

namespace turnbench::test {
namespace {

constexpr const char* kChatKey = "sk-very/secret-1234";

ChatOptions options_for(const Server& server) {
  ChatOptions out;
  out.url = server.url();
  out.key = kChatKey;
  out.model = "judge-model";
  out.timeout = 5;
  out.retries = 3;
  out.first_wait = 0.005;
  return out;
}

bool never() {
  return false;
}

ChatReply ask(const ChatOptions& options, const std::string& prompt = "hello") {
  Endpoint endpoint(options.url);
  return ChatClient(options, endpoint).ask({prompt, 0.5, 64, 1}, never);
}

/// A server that sends `first` until the request `good`, and then a completion.
Server::Handler then_good(const std::string& first, int good = 2) {
  return [first, good](const Server::Request& request) {
    return Server::Response{request.number < good ? first : completion("fine"), {}};
  };
}

TEST(Chat, SendsWhatTheEndpointExpects) {
  const Server server(then_good("", 0));
  const ChatReply reply = ask(options_for(server), "a \"quoted\" \xff prompt");
  EXPECT_EQ(reply.status, ChatReply::Status::kOk) << reply.error;
  EXPECT_EQ(reply.text, "fine");
  EXPECT_EQ(reply.raw.find("choices"), 2u) << reply.raw;
  ASSERT_EQ(server.requests().size(), 1u);
  const Server::Request request = server.requests()[0];
  EXPECT_TRUE(request.head.starts_with("POST /v1/chat/completions HTTP/1.1\r\n")) << request.head;
  EXPECT_EQ(request.header("Authorization"), std::string("Bearer ") + kChatKey);
  EXPECT_EQ(request.header("Content-Type"), "application/json");
  const Json body = Json::parse(request.body);
  EXPECT_EQ(body["model"], "judge-model");
  EXPECT_EQ(body["temperature"], 0.5);
  EXPECT_EQ(body["max_tokens"], 64);
  ASSERT_EQ(body["messages"].size(), 1u);
  EXPECT_EQ(body["messages"][0]["role"], "user");
  EXPECT_EQ(body["messages"][0]["content"], "a \"quoted\" \xef\xbf\xbd prompt");
}

TEST(Chat, SendsNoAuthorizationWithoutAKey) {
  const Server server(then_good("", 0));
  ChatOptions options = options_for(server);
  options.key = "";
  EXPECT_EQ(ask(options).status, ChatReply::Status::kOk);
  EXPECT_EQ(server.requests()[0].header("Authorization"), "");
}

TEST(Chat, RetriesTemporaryFailures) {
  const std::string whole = completion("never seen");
  const std::pair<const char*, std::string> cases[] = {
      {"overloaded", http(429, "{}")},
      {"broken", http(500, "oops")},
      {"unavailable", http(503, "")},
      {"cut in the body", whole.substr(0, whole.size() - 10)},
      {"cut in the head", whole.substr(0, 20)},
      {"nothing", ""},
      {"no HTTP", "hello\r\n\r\n"},
      {"no JSON", http(200, "<html>busy</html>")},
      {"JSON of another kind", http(200, "[1, 2]")},
      {"no choices", http(200, R"({"choices": []})")},
      {"choices of another kind", http(200, R"({"choices": {"message": 1}})")},
      {"content of another kind", http(200, R"({"choices": [{"message": {"content": 5}}]})")},
  };
  for (const auto& [name, bytes] : cases) {
    SCOPED_TRACE(name);
    const Server server(then_good(bytes));
    const ChatReply reply = ask(options_for(server));
    EXPECT_EQ(reply.status, ChatReply::Status::kOk) << reply.error;
    EXPECT_EQ(reply.text, "fine");
    EXPECT_EQ(reply.error, "");
    EXPECT_EQ(server.requests().size(), 3u);
    // If the failure persists, the request fails after the maximum number of attempts.
    const Server worse(then_good(bytes, 99));
    const ChatReply failed = ask(options_for(worse));
    EXPECT_EQ(failed.status, ChatReply::Status::kFailed);
    EXPECT_NE(failed.error, "");
    EXPECT_EQ(failed.text, "");
    EXPECT_EQ(worse.requests().size(), 4u);
  }
}

TEST(Chat, DoesNotRetryPermanentFailures) {
  const Server bad(then_good(http(400, R"({"error": "too long"})"), 99));
  const ChatReply reply = ask(options_for(bad));
  EXPECT_EQ(reply.status, ChatReply::Status::kFailed);
  EXPECT_NE(reply.error.find("found the status 400"), std::string::npos) << reply.error;
  EXPECT_NE(reply.error.find("too long"), std::string::npos) << reply.error;
  EXPECT_EQ(bad.requests().size(), 1u);
  const Server moved(then_good(http(302, "", "Location: /elsewhere\r\n"), 99));
  EXPECT_EQ(ask(options_for(moved)).status, ChatReply::Status::kFailed);
  EXPECT_EQ(moved.requests().size(), 1u);
  for (int status : {401, 403, 404}) {
    const Server closed(then_good(http(status, "no"), 99));
    EXPECT_THROW(ask(options_for(closed)), Error);
    EXPECT_EQ(closed.requests().size(), 1u);
  }
}

// The model refused, or its reasoning used all tokens.
TEST(Chat, MissingContentIsAnEmptyText) {
  const Server empty(then_good(
      http(200, R"({"choices": [{"message": {"content": null, "refusal": "no"}}]})"), 99));
  const ChatReply reply = ask(options_for(empty));
  EXPECT_EQ(reply.status, ChatReply::Status::kOk);
  EXPECT_EQ(reply.text, "");
}

TEST(Chat, HonoursRetryAfter) {
  const Server server(then_good(http(429, "{}", "Retry-After: 1\r\n"), 1));
  const auto start = Clock::now();
  EXPECT_EQ(ask(options_for(server)).status, ChatReply::Status::kOk);
  EXPECT_GE(seconds_since(start), 1.0);
  const Server patient(then_good(http(429, "{}", "Retry-After: 86400\r\n"), 1));
  const ChatReply reply = ask(options_for(patient));
  EXPECT_EQ(reply.status, ChatReply::Status::kFailed);
  EXPECT_NE(reply.error.find("asks to wait 86400 s"), std::string::npos) << reply.error;
}

TEST(Chat, StopsWaitingWhenAsked) {
  const Server server(then_good(http(429, "{}", "Retry-After: 300\r\n"), 99));
  int polls = 0;
  const auto start = Clock::now();
  Endpoint endpoint(server.url());
  const ChatReply reply = ChatClient(options_for(server), endpoint).ask({"hello", {}, 0, 1}, [&] {
    return ++polls > 2;
  });
  EXPECT_EQ(reply.status, ChatReply::Status::kStopped);
  EXPECT_LT(seconds_since(start), 2.0);
}

TEST(Chat, AbortsSlowAndEndlessReplies) {
  const Server slow([](const Server::Request&) {
    return Server::Response{completion("late"), std::chrono::seconds(20)};
  });
  ChatOptions options = options_for(slow);
  options.timeout = 0.1;
  options.retries = 1;
  const ChatReply late = ask(options);
  EXPECT_EQ(late.status, ChatReply::Status::kFailed);
  EXPECT_NE(late.error.find("timed out"), std::string::npos) << late.error;
  EXPECT_EQ(slow.requests().size(), 2u);
  const Server huge(then_good(completion(std::string(5 << 20, 'x')), 99));
  options = options_for(huge);
  options.retries = 0;
  const ChatReply endless = ask(options);
  EXPECT_EQ(endless.status, ChatReply::Status::kFailed);
  EXPECT_NE(endless.error.find("found a reply of more than"), std::string::npos) << endless.error;
  EXPECT_LE(endless.raw.size(), 4u << 20);
}

ChatOptions options_without_server(int retries) {
  ChatOptions out;
  out.url = "http://127.0.0.1:9/v1";
  out.retries = retries;
  out.first_wait = 0.005;
  return out;
}

TEST(Chat, RefusedConnectionIsReported) {
  const ChatReply reply = ask(options_without_server(0));
  EXPECT_EQ(reply.status, ChatReply::Status::kFailed);
  EXPECT_NE(reply.error, "");
}

TEST(Chat, RefusedConnectionsEndTheRunBeforeTheFirstReply) {
  // Within the attempts of one request.
  EXPECT_EQ(ask(options_without_server(1)).status, ChatReply::Status::kFailed);
  EXPECT_EQ(ask(options_without_server(100)).status, ChatReply::Status::kNoServer);
  // Across requests of several clients.
  const ChatOptions options = options_without_server(0);
  Endpoint endpoint(options.url);
  ChatClient a(options, endpoint), b(options, endpoint);
  EXPECT_EQ(a.ask({"hello", {}, 0, 1}, never).status, ChatReply::Status::kFailed);
  EXPECT_EQ(b.ask({"hello", {}, 0, 1}, never).status, ChatReply::Status::kFailed);
  EXPECT_EQ(a.ask({"hello", {}, 0, 1}, never).status, ChatReply::Status::kNoServer);
}

TEST(Chat, RequestsAfterTheFirstReplyUseAllAttempts) {
  const ChatOptions options = options_without_server(4);
  Endpoint endpoint(options.url);
  endpoint.replied();
  ChatClient client(options, endpoint);
  const auto status = [&] { return client.ask({"hello", {}, 0, 1}, never).status; };
  EXPECT_EQ(status(), ChatReply::Status::kFailed);
  EXPECT_EQ(status(), ChatReply::Status::kFailed);
  endpoint.replied();  // the failures are no longer consecutive
  EXPECT_EQ(status(), ChatReply::Status::kFailed);
  EXPECT_EQ(status(), ChatReply::Status::kFailed);
  EXPECT_EQ(status(), ChatReply::Status::kNoServer);
}

TEST(Chat, ErrorsDoNotContainTheKey) {
  for (int status : {200, 400, 500}) {
    const Server echo([&](const Server::Request& request) {
      return Server::Response{http(status, request.header("Authorization")), {}};
    });
    const ChatReply reply = ask(options_for(echo));
    EXPECT_EQ(reply.status, ChatReply::Status::kFailed);
    EXPECT_EQ(reply.raw, "Bearer [key]");
    EXPECT_EQ(reply.error.find("secret"), std::string::npos) << reply.error;
  }
  const Server closed([&](const Server::Request& request) {
    return Server::Response{http(401, request.header("Authorization")), {}};
  });
  try {
    ask(options_for(closed));
    ADD_FAILURE() << "not refused";
  } catch (const Error& e) {
    EXPECT_EQ(std::string(e.what()).find("secret"), std::string::npos) << e.what();
  }
}

TEST(Chat, Urls) {
  const auto full = [](const std::string& base) { return chat_url(base).full; };
  EXPECT_EQ(full("http://h:8080/v1"), "http://h:8080/v1/chat/completions");
  EXPECT_EQ(full("https://h/v1/"), "https://h/v1/chat/completions");
  EXPECT_EQ(full("https://h/v1/chat/completions"), "https://h/v1/chat/completions");
  EXPECT_EQ(full("https://h/d?api-version=1"), "https://h/d/chat/completions?api-version=1");
  EXPECT_EQ(chat_url("https://h/d?key=sk-1#x").display, "https://h/d/chat/completions");
  for (const char* bad :
       {"", "h:8080", "localhost/v1", "file:///etc/passwd", "ftp://h/v1", "http://",
        "http://sk-secret@h/v1", "http://u:sk-secret@h/v1", "http://h/\nv1", "http://h:99999/v1"}) {
    SCOPED_TRACE(bad);
    try {
      chat_url(bad);
      ADD_FAILURE() << "not refused";
    } catch (const Error& e) {
      EXPECT_EQ(e.kind(), ErrorKind::kInput);
      EXPECT_EQ(std::string(e.what()).find("secret"), std::string::npos) << e.what();
    }
  }
}

}  // namespace
}  // namespace turnbench::test
