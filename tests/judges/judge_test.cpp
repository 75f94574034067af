// The command `judge` on a real store, against a server on loopback.

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <string>
#include <vector>

#include "common/clock.h"
#include "common/text.h"
#include "tests/cli/small_store.h"
#include "tests/harness/store/old_store.h"
#include "tests/harness/store/store_dump.h"
#include "tests/judges/server.h"

namespace turnbench::test {
namespace {

constexpr const char* kKey = "sk-0123456789-not-to-be-seen";
// Two dialogues at two positions under two methods; their last turns are judged.
constexpr std::size_t kAnswers = 8;

std::string overall(int score) {
  return fmt::format(
      R"({{"factual accuracy": {0}, "user needs": 1, "clarity": 2, "completeness": 3, "overall": {0}}})",
      score);
}

struct Judged {
  explicit Judged(Server::Handler handler) : server(std::move(handler)) {
    ::setenv("OPENAI_API_KEY", kKey, 1);
  }
  ~Judged() { ::unsetenv("OPENAI_API_KEY"); }

  Arguments arguments(const Arguments& more = {}) const {
    Arguments out = {
        "judge",    db,
        "--rubric", std::string(TURNBENCH_SOURCE_DIR) + "/judges/rubrics/round-attention.txt",
        "--url",    server.url(),
        "--model",  "m"};
    out.insert(out.end(), more.begin(), more.end());
    return out;
  }
  Finished run(const Arguments& more = {}) const { return run_program(arguments(more)); }
  std::int64_t count_of(const std::string& from) const {
    return count(db, "SELECT count(*) FROM " + from);
  }

  Server server;
  TemporaryDirectory directory;
  std::string db = directory.write("s.db", small_store());
};

Server::Handler says(const std::string& text) {
  return [text](const Server::Request&) { return Server::Response{completion(text), {}}; };
}

TEST(Judge, StoresRepliesAndReportsTheirMean) {
  // One of the three judgements of each answer is unreadable.
  const Judged judged([](const Server::Request& r) {
    return Server::Response{
        completion(r.number % 3 == 0 ? "I cannot say" : overall(r.number % 3 == 1 ? 4 : 8)), {}};
  });
  const Finished run = judged.run({"--judgements", "3", "--concurrency", "1"});
  ASSERT_EQ(run.code, 0) << run.err;
  EXPECT_NE(run.err.find("24 judgements requested, 0 already stored, 8 unparsed, 0 failed"),
            std::string::npos)
      << run.err;
  EXPECT_NE(run.out.find("**All: judge:round-attention (m@"), std::string::npos) << run.out;
  EXPECT_NE(run.out.find("| full | 60.0 ["), std::string::npos) << run.out;
  EXPECT_EQ(run.out.find("paper"), std::string::npos) << "published numbers are of another metric";
  EXPECT_EQ(judged.count_of("judgement"), 24);
  EXPECT_EQ(judged.count_of("judgement WHERE status = 'unparsed' AND scores = '{}'"), 8);
  EXPECT_EQ(judged.count_of("judgement WHERE json_extract(reply, '$.choices[0].message.content') "
                            "= 'I cannot say' AND status = 'unparsed'"),
            8);
  EXPECT_EQ(judged.count_of("judgement WHERE url = '" + judged.server.url() + "/chat/completions'"),
            24);
  EXPECT_EQ(
      judged.count_of("judge WHERE rubric = 'round-attention' AND model = 'm' AND rubric_text "
                      "LIKE '%{history}%'"),
      1);
  EXPECT_EQ(judged.count_of("score WHERE metric = 'judge:round-attention' AND value = 0.6"), 8);
  EXPECT_EQ(judged.count_of("score WHERE metric = 'judge:round-attention:clarity' AND value = 0.2"),
            8);
  EXPECT_EQ(judged.count_of("score WHERE metric = 'judge:round-attention:user-needs'"), 8);
  // The report of the other metrics is unchanged.
  EXPECT_NE(run_program({"report", judged.db}).out.find("[paper 12.50"), std::string::npos);

  // Stored judgements are not requested again and give the same table.
  const Finished again = judged.run({"--judgements", "3"});
  EXPECT_EQ(again.code, 0) << again.err;
  EXPECT_EQ(again.out, run.out);
  EXPECT_EQ(judged.server.requests().size(), 24u);
  EXPECT_EQ(run_program({"report", judged.db, "--metric", "judge:round-attention"}).out, run.out);
  // A larger number only adds judgements.
  EXPECT_EQ(judged.run({"--judgements", "4"}).code, 0);
  EXPECT_EQ(judged.server.requests().size(), 24u + kAnswers);
}

TEST(Judge, PromptContainsTheConversation) {
  const Judged judged(says(overall(5)));
  ASSERT_EQ(judged.run().code, 0);
  const Server::Request request = judged.server.requests()[0];
  const std::string prompt = Json::parse(request.body)["messages"][0]["content"];
  const std::size_t user = prompt.find("=== Conversation so far ===\n[User]\n"),
                    message = prompt.find("=== Newest message ==="),
                    reply = prompt.find("=== Reply to be rated ===");
  EXPECT_LT(user, message);
  EXPECT_LT(message, reply);
  EXPECT_LT(reply, prompt.size());
}

TEST(Judge, PromptContainsTheGoldAnswersThatTheModelRead) {
  const Judged judged(says(overall(5)));
  execute(judged.db,
          "UPDATE cell SET answers = 'gold'; UPDATE dialogue SET json = json_set(json, "
          "'$.turns[0].gold', '', '$.turns[0].references', json_array('Ann Lee', 'A. Lee'))");
  ASSERT_EQ(judged.run().code, 0);
  for (const Server::Request& request : judged.server.requests()) {
    const std::string prompt = Json::parse(request.body)["messages"][0]["content"];
    EXPECT_NE(prompt.find("\n[Assistant]\nAnn Lee\n"), std::string::npos) << prompt;
  }
}

TEST(Judge, KeyIsInTheHeaderOnly) {
  // A server that returns the request, as a reply and as an error.
  const Judged judged([](const Server::Request& r) {
    const std::string sent = r.header("Authorization");
    return Server::Response{r.number % 2 == 0 ? completion(sent) : http(500, sent), {}};
  });
  const Finished run = judged.run({"--retries", "0"});
  EXPECT_EQ(run.code, 1);
  ASSERT_EQ(judged.server.requests().size(), kAnswers);
  for (const Server::Request& request : judged.server.requests())
    EXPECT_EQ(request.header("Authorization"), std::string("Bearer ") + kKey);
  const Finished report = run_program({"report", judged.db, "--format", "html"});
  for (const std::string& text : {run.out, run.err, report.out})
    EXPECT_EQ(text.find(kKey), std::string::npos) << text;
  for (const auto& [name, bytes] : judged.directory.content())
    EXPECT_EQ(bytes.find(kKey), std::string::npos) << name;
  EXPECT_EQ(judged.count_of("judgement WHERE reply LIKE '%Bearer [key]%'"), kAnswers);
}

TEST(Judge, RepeatsFailedRequests) {
  const Judged judged([](const Server::Request& r) {
    const bool broken = r.number < 12 && r.number % 4 != 0;
    return Server::Response{broken ? http(500, "busy") : completion(overall(7)), {}};
  });
  const Finished first = judged.run({"--judgements", "2", "--retries", "0"});
  EXPECT_EQ(first.code, 1);
  EXPECT_NE(first.err.find("failed: "), std::string::npos) << first.err;
  EXPECT_NE(first.err.find("found the status 500 (busy)"), std::string::npos) << first.err;
  EXPECT_EQ(judged.count_of("judgement WHERE status = 'failed' AND reply = 'busy'"), 9);
  // An answer with a missing judgement has no score.
  const std::int64_t scored = judged.count_of("score WHERE metric = 'judge:round-attention'");
  EXPECT_LT(scored, 8);
  const Finished second = judged.run({"--judgements", "2", "--retries", "0"});
  EXPECT_EQ(second.code, 0) << second.err;
  EXPECT_NE(second.err.find("9 judgements requested, 7 already stored"), std::string::npos)
      << second.err;
  EXPECT_EQ(judged.server.requests().size(), 25u);
  EXPECT_EQ(judged.count_of("judgement"), 16);
  EXPECT_EQ(judged.count_of("judgement WHERE status = 'ok'"), 16);
  EXPECT_EQ(judged.count_of("score WHERE metric = 'judge:round-attention' AND value = 0.7"), 8);
}

// Only the last turn of the dialogue is answered, so there is one request to the judge.  It
// contains the previous turns with their given answers.
TEST(Judge, PromptContainsTheHistoryOfADenseRun) {
  const TemporaryDirectory directory;
  const std::string db = directory.path("dense.db"), manifest = directory.write("dense.json", R"({
    "name": "dense", "models": ["tiny"], "methods": ["round:lw=2"], "history": "dense",
    "datasets": [{"name": "tiny-fact", "limit": 1, "turns": 3, "length": 90}], "answers": "gold"})");
  ASSERT_EQ(run_program({"run", manifest, "--db", db, "--threads", "1"}).code, 0);
  const Judged judged(says(overall(5)));
  const Finished run = run_program(
      {"judge", db, "--rubric", "round-attention", "--url", judged.server.url(), "--model", "m"});
  ASSERT_EQ(run.code, 0) << run.err;
  EXPECT_NE(run.err.find("1 judgements requested, 0 already stored, 0 unparsed, 0 failed"),
            std::string::npos)
      << run.err;
  const std::vector<Server::Request> requests = judged.server.requests();
  ASSERT_EQ(requests.size(), 1u);
  const std::string& body = requests[0].body;
  std::size_t answers = 0;
  for (std::size_t at = 0; (at = body.find("[Assistant]", at)) != std::string::npos; ++at)
    ++answers;
  EXPECT_EQ(answers, 2u) << body;
}

TEST(Judge, OnlyUnreadableRepliesAreAnError) {
  const Judged judged(says("no idea"));
  const Finished run = judged.run();
  EXPECT_EQ(run.code, 1);
  EXPECT_EQ(run.out, "");
  // The error shows one reply as an example and why it is unreadable.
  const std::size_t example = run.err.find("unparsed, for example: tiny-fact");
  ASSERT_NE(example, std::string::npos) << run.err;
  EXPECT_NE(run.err.find("found no JSON object", example), std::string::npos) << run.err;
  EXPECT_NE(run.err.find(": \"no idea\"\n", example), std::string::npos) << run.err;
  EXPECT_EQ(run.err.find("for example", example + 25), std::string::npos) << run.err;
  EXPECT_NE(run.err.find("none of the replies could be read"), std::string::npos) << run.err;
  EXPECT_EQ(judged.count_of("score WHERE metric LIKE 'judge:%'"), 0);
  // The error is the same if there is nothing to request.
  const Finished again = judged.run({"--quiet"});
  EXPECT_EQ(again.code, 1);
  EXPECT_NE(again.err.find("none of the replies could be read"), std::string::npos) << again.err;
  EXPECT_EQ(judged.server.requests().size(), kAnswers);
  const Finished report = run_program({"report", judged.db, "--metric", "judge:round-attention"});
  EXPECT_EQ(report.code, 2);
  EXPECT_NE(report.err.find("(8 of 8 judgements by m@"), std::string::npos) << report.err;
}

TEST(Judge, ReportsCountUnreadableJudgements) {
  const Judged judged([](const Server::Request& r) {
    return Server::Response{completion(r.number < 3 ? "I cannot say" : overall(6)), {}};
  });
  const Finished run = judged.run({"--judgements", "2", "--concurrency", "1"});
  ASSERT_EQ(run.code, 0) << run.err;
  EXPECT_NE(run.err.find("unparsed, for example: "), std::string::npos) << run.err;
  const Arguments report = {"report", judged.db, "--metric", "judge:round-attention:clarity"};
  for (const std::string& out : {run.out, run_program(report).out})
    EXPECT_NE(out.find("3 of 16 judgements by m@"), std::string::npos) << out;
  EXPECT_EQ(run_program({"report", judged.db}).out.find("judgements"), std::string::npos);
}

TEST(Judge, ConnectionRefusedEndsTheRunWithOneLine) {
  const TemporaryDirectory directory;
  const std::string db = directory.write("s.db", small_store());
  const auto start = Clock::now();
  for (const char* retries : {"5", "0"}) {
    const Finished run =
        run_program({"judge", db, "--rubric", "longmemeval", "--url", "http://127.0.0.1:9/v1",
                     "--model", "m", "--retries", retries});
    EXPECT_EQ(run.code, 1);
    EXPECT_EQ(std::count(run.err.begin(), run.err.end(), '\n'), 1) << run.err;
    EXPECT_NE(run.err.find("http://127.0.0.1:9/v1/chat/completions: found no server ("),
              std::string::npos)
        << run.err;
    EXPECT_NE(run.err.find("; 0 of 16 judgements done"), std::string::npos) << run.err;
  }
  EXPECT_LT(seconds_since(start), 10) << "not all retries of all answers";
}

TEST(Judge, Http401AbortsTheRun) {
  const Judged judged([](const Server::Request&) {
    return Server::Response{http(401, "who are you"), {}};
  });
  const Finished run = judged.run({"--concurrency", "1"});
  EXPECT_EQ(run.code, 1);
  EXPECT_EQ(run.out, "");
  EXPECT_EQ(std::count(run.err.begin(), run.err.end(), '\n'), 1) << run.err;
  EXPECT_NE(run.err.find("found the status 401 (who are you)"), std::string::npos) << run.err;
  EXPECT_EQ(judged.server.requests().size(), 1u);
  EXPECT_EQ(judged.count_of("judgement"), 0);
}

TEST(Judge, ResumesAnInterruptedRun) {
  const Judged judged([](const Server::Request&) {
    return Server::Response{completion(overall(5)), std::chrono::milliseconds(100)};
  });
  Program program(judged.arguments({"--concurrency", "2", "--judgements", "2"}));
  const auto start = Clock::now();
  while (judged.server.requests().size() < 3 && seconds_since(start) < 30)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  program.signal(SIGINT);
  const Finished stopped = program.wait();
  EXPECT_EQ(stopped.code, 1);
  EXPECT_NE(stopped.err.find("of 16 judgements done; run it again to continue"), std::string::npos)
      << stopped.err;
  const auto asked = judged.server.requests().size();
  EXPECT_LT(asked, 16u);
  EXPECT_EQ(judged.count_of("judgement"), asked) << "what was in flight is stored";
  EXPECT_EQ(judged.run({"--judgements", "2"}).code, 0);
  EXPECT_EQ(judged.server.requests().size(), 16u);
  EXPECT_EQ(judged.count_of("score WHERE metric = 'judge:round-attention' AND value = 0.5"), 8);
}

TEST(Judge, TwoJudgesAreKeptApart) {
  const Judged judged([](const Server::Request& r) {
    const bool other = r.body.find("\"other\"") != std::string::npos;
    return Server::Response{completion(overall(other ? 9 : 3)), {}};
  });
  ASSERT_EQ(judged.run().code, 0);
  ASSERT_EQ(judged.run({"--model", "other"}).code, 2) << "given twice";
  Arguments other = judged.arguments({"--json", "--quiet"});
  std::replace(other.begin(), other.end(), std::string("m"), std::string("other"));
  const Finished second = run_program(other);
  ASSERT_EQ(second.code, 0) << second.err;
  EXPECT_EQ(second.err, "");
  ASSERT_EQ(second.json().size(), 1u) << "a list of reports, one for each experiment";
  const Json cell = second.json()[0]["cells"][0];
  EXPECT_EQ(cell["metric"], "judge:round-attention");
  EXPECT_EQ(cell["mean"], 90.0);
  const std::string judge = cell["settings"]["postprocess"];
  EXPECT_TRUE(judge.starts_with("other@")) << judge;
  const Arguments report = {"report", judged.db, "--json", "--metric", "judge:round-attention"};
  const Finished open = run_program(report);
  EXPECT_EQ(open.code, 2);
  EXPECT_NE(
      open.err.find("--postprocess: found \"\" for judge:round-attention, expected one of: m@"),
      std::string::npos)
      << open.err;
  Arguments named = report;
  named.insert(named.end(), {"--postprocess", judge});
  EXPECT_EQ(run_program(named).json(), second.json()[0]);
}

TEST(Judge, SkipsADamagedDialogue) {
  const Judged judged(says(overall(5)));
  execute(judged.db, "UPDATE dialogue SET json = json_remove(json, '$.turns[1]')");
  const Finished run = judged.run();
  EXPECT_EQ(run.code, 2);
  EXPECT_EQ(std::count(run.err.begin(), run.err.end(), '\n'), 1) << run.err;
  EXPECT_NE(run.err.find(": found 1 turns, expected 2"), std::string::npos) << run.err;
  EXPECT_EQ(judged.server.requests().size(), 0u);
  EXPECT_EQ(judged.count_of("judgement"), 0);
}

TEST(Judge, MigratesOlderStores) {
  const Judged judged(says(overall(5)));
  make_older(judged.db, 1);
  EXPECT_EQ(run_program({"report", judged.db}).code, 0);
  EXPECT_EQ(count(judged.db, "PRAGMA user_version"), 1) << "reading changes nothing";
  EXPECT_EQ(judged.run().code, 0);
  EXPECT_EQ(count(judged.db, "PRAGMA user_version"), 6);
  EXPECT_EQ(judged.count_of("judgement"), 8);
}

TEST(Judge, RejectsBadUsage) {
  const auto judge = [](const TemporaryDirectory& d, const Arguments& more) {
    Arguments out = {"judge", d.write("s.db", small_store())};
    out.insert(out.end(), more.begin(), more.end());
    return out;
  };
  const std::string rubric = std::string(TURNBENCH_SOURCE_DIR) + "/judges/rubrics/longmemeval.txt";
  const Malformed cases[] = {
      {"no rubric of this name",
       [&](const TemporaryDirectory& d) {
         return judge(d, {"--rubric", "longmemevil", "--url", "http://h", "--model", "m"});
       },
       "--rubric: found \"longmemevil\", expected a file NAME.txt, or"},
      {"a rubric that is none",
       [&](const TemporaryDirectory& d) {
         return judge(d, {"--rubric", d.write("r.txt", "reply: yes\n"), "--url", "http://h",
                          "--model", "m"});
       },
       "r.txt: line 1: found \"yes\""},
      {"a URL with a password",
       [&](const TemporaryDirectory& d) {
         return judge(d, {"--rubric", rubric, "--url", "http://u:p@h/v1", "--model", "m"});
       },
       "--url: found credentials in it"},
      {"a key that is not there",
       [&](const TemporaryDirectory& d) {
         return judge(d, {"--rubric", rubric, "--url", "http://h/v1", "--model", "m", "--key-env",
                          "TURNBENCH_NO_SUCH_KEY"});
       },
       "--key-env: found nothing in $TURNBENCH_NO_SUCH_KEY"},
      {"no store",
       [&](const TemporaryDirectory& d) -> Arguments {
         return {"judge", d.path("x.db"), "--rubric", rubric, "--url", "http://h", "--model", "m"};
       },
       "x.db: found no such file"},
      {"no such experiment",
       [&](const TemporaryDirectory& d) {
         return judge(
             d, {"--rubric", rubric, "--url", "http://h", "--model", "m", "--experiment", "big"});
       },
       "found no experiment \"big\""},
      {"no judgements",
       [&](const TemporaryDirectory& d) {
         return judge(
             d, {"--rubric", rubric, "--url", "http://h", "--model", "m", "--judgements", "0"});
       },
       "--judgements: found \"0\""},
  };
  expect_refusals(cases);
}

}  // namespace
}  // namespace turnbench::test
