// The readers of LoCoMo and REALTALK, on synthetic records.

#include "datasets/conversation.h"

#include <fmt/format.h>

#include <functional>
#include <nlohmann/json.hpp>

#include "datasets/locomo.h"
#include "datasets/realtalk.h"
#include "native_checks.h"

namespace turnbench {
namespace {

namespace fs = std::filesystem;
using test::load_checked;
using test::message_of;
using test::TemporaryDirectory;
using Texts = std::vector<std::string>;

Json message(const char* speaker, const char* id, const char* text) {
  return {{"speaker", speaker}, {"dia_id", id}, {"text", text}};
}

Json question(int category, const char* text, const Json& answer, const Texts& evidence) {
  return {{"question", text}, {"answer", answer}, {"evidence", evidence}, {"category", category}};
}

/// A conversation of two sessions, whose keys are not in their order.
Json conversation(const char* sample) {
  Json picture = message("Bob", "D2:2", "Look!");
  picture["blip_caption"] = "a photo of a lamp";
  picture["img_url"] = {"http://x"};
  Json missing = question(5, "Who broke the lamp?", "", {"D2:1"});
  missing.erase("answer");
  missing["adversarial_answer"] = "Ann";
  return {{"sample_id", sample},
          {"conversation",
           {{"speaker_a", "Ann"},
            {"speaker_b", "Bob"},
            {"session_10", {message("Ann", "D10:1", "Late.")}},
            {"session_10_date_time", "1 am on 9 May"},
            {"session_2", {message("Ann", "D2:1", "My lamp is red."), picture}},
            {"session_2_date_time", "noon on 1 May"},
            {"session_3_date_time", "a date without a session"}}},
          {"qa",
           {question(1, "Which things?", "lamps, books", {"D2:1; D10:01", "D2:1", "D9:9", ""}),
            question(2, "When?", 2022, {"D", "D:2:2"}),
            question(3, "Why?", "Yes; she is.", Json::array()),
            question(4, "Which colour?", "red", {"D2:2"}), missing,
            question(4, "What is it?", "lamp", Json::array())}},
          {"event_summary", Json::object()},
          {"observation", Json::object()},
          {"session_summary", Json::object()}};
}

TEST(Locomo, ReadsSessionsAsContextAndQuestionsOfACategory) {
  const TemporaryDirectory directory;
  directory.write("locomo10.json", Json{conversation("c-1"), conversation("c-2")}.dump());
  const auto load = [&](const char* name) { return load_checked(name, directory.path()); };
  const auto multi_hop = load("locomo-multi-hop");
  ASSERT_EQ(multi_hop.size(), 2u);
  EXPECT_EQ(multi_hop[1].id, "c-2_qa0");
  const Turn& turn = multi_hop[0].turns.at(0);
  ASSERT_EQ(turn.contexts.size(), 3u);
  EXPECT_EQ(turn.contexts[0].source, "D2:1");
  EXPECT_EQ(turn.contexts[0].text, "[Session of noon on 1 May]\nAnn: My lamp is red.");
  EXPECT_EQ(turn.contexts[1].text, "Bob: Look!\n[Bob shares an image: a photo of a lamp]");
  EXPECT_EQ(turn.contexts[2].text, "[Session of 1 am on 9 May]\nAnn: Late.");
  EXPECT_TRUE(turn.instruction.find("between Ann and Bob") != std::string::npos);
  EXPECT_EQ(turn.question, "Which things?");
  EXPECT_EQ(turn.references, Texts{"lamps, books"});
  EXPECT_EQ(turn.relevance, (Texts{"D2:1", "D10:1"}));
  EXPECT_EQ(turn.max_new_tokens, 32);

  const Turn temporal = load("locomo-temporal")[0].turns.at(0);
  EXPECT_TRUE(temporal.question.starts_with("When? Use the dates")) << temporal.question;
  EXPECT_EQ(temporal.references, Texts{"2022"});
  EXPECT_TRUE(temporal.relevance.empty());
  EXPECT_EQ(load("locomo-open-domain")[0].turns.at(0).references, Texts{"Yes"});

  const auto single_hop = load("locomo-single-hop");
  ASSERT_EQ(single_hop.size(), 4u);
  EXPECT_EQ(single_hop[1].id, "c-1_qa5");
  EXPECT_EQ(load_checked("locomo-single-hop", directory.path(), {.limit = 3}).size(), 3u);
  const auto several = load("mt-locomo-single-hop");
  ASSERT_EQ(several.size(), 2u);
  EXPECT_EQ(several[0].id, "c-1");
  ASSERT_EQ(several[0].turns.size(), 2u);
  EXPECT_EQ(several[0].turns[0].contexts.size(), 3u);
  EXPECT_TRUE(several[0].turns[1].contexts.empty());
  EXPECT_TRUE(several[0].turns[1].instruction.empty());
  EXPECT_EQ(several[0].turns[1].question, "What is it?");
  EXPECT_EQ(question_index(with_questions_at(several[0], Position::kBegin).turns[0]), 0u);
}

TEST(Locomo, DividesTheQuestionsOfAConversationIntoDialogues) {
  const TemporaryDirectory directory;
  Json one = conversation("c-1");
  for (int i = 0; i < 3; ++i) one["qa"].push_back(question(4, "Again?", "x", Json::array()));
  directory.write("locomo10.json", Json{one, conversation("c-2")}.dump());
  const auto load = [&](const BuildOptions& options) {
    return load_checked("mt-locomo-single-hop", directory.path(), options);
  };
  const auto dialogues = load({.turns = 2});
  std::string found;
  for (const Dialogue& d : dialogues) {
    found += fmt::format("{}:{} ", d.id, d.turns.size());
    EXPECT_EQ(d.turns[0].contexts.size(), 3u);
    EXPECT_FALSE(d.turns[0].instruction.empty());
  }
  EXPECT_EQ(found, "c-1-1:2 c-1-2:2 c-1-3:1 c-2-1:2 ");
  EXPECT_EQ(load({.turns = 2, .limit = 3}).size(), 3u);
  EXPECT_EQ(load({})[0].turns.size(), 5u);
  EXPECT_EQ(
      message_of([&] { load_dialogues("locomo-single-hop", directory.path(), {.turns = 2}); }),
      "locomo-single-hop: found 2 turns, expected none: its records have their own");
}

TEST(Locomo, AsksAdversarialQuestionsWithTwoOptions) {
  const TemporaryDirectory directory;
  Json all = Json::array();
  for (int i = 0; i < 40; ++i) all.push_back(conversation(fmt::format("c-{}", i).c_str()));
  all[0]["qa"][4]["answer"] = "It is NOT mentioned";  // preferred to adversarial_answer
  directory.write("locomo10.json", all.dump());
  const auto dialogues = load_checked("locomo-adversarial", directory.path());
  ASSERT_EQ(dialogues.size(), 40u);
  EXPECT_EQ(dialogues[0].turns.at(0).references.size(), 3u) << "both options are right";
  int first = 0;
  for (std::size_t i = 1; i < dialogues.size(); ++i) {
    const Turn& turn = dialogues[i].turns.at(0);
    ASSERT_EQ(turn.references.size(), 2u);
    EXPECT_EQ(gold_answer_text(turn), "Not mentioned in the conversation");
    const bool is_first = turn.references[1] == "(a)";
    EXPECT_EQ(turn.question, is_first ? "Who broke the lamp?\nOptions: (a) Not mentioned in the "
                                        "conversation (b) Ann"
                                      : "Who broke the lamp?\nOptions: (a) Ann (b) Not mentioned "
                                        "in the conversation");
    first += is_first;
  }
  EXPECT_GT(first, 10);
  EXPECT_LT(first, 30);
}

TEST(Locomo, LeavesOutQuestionsByTheirIds) {
  const TemporaryDirectory directory;
  const fs::path data =
      directory.write("locomo10.json", Json{conversation("c-1"), conversation("c-2")}.dump());
  // An id of another category is no error.
  const fs::path ids = directory.write("wrong.txt", "c-1_qa3\r\n\nlocomo_1_qa5\nc-2_qa0\n");
  const auto left = load_checked("locomo-single-hop", data, {.leave_out = ids});
  ASSERT_EQ(left.size(), 2u);
  EXPECT_EQ(left[0].id + " " + left[1].id, "c-1_qa5 c-2_qa3");
  EXPECT_EQ(load_checked("mt-locomo-multi-hop", data, {.leave_out = ids}).size(), 1u);
  const auto refusal = [&](const std::string& text) {
    const fs::path file = directory.write("wrong.txt", text);
    return message_of([&] { load_dialogues("locomo-temporal", data, {.leave_out = file}); })
        .substr(file.string().size());
  };
  EXPECT_EQ(refusal("c-1_qa0\nc-1_qa6"),
            ":2: found the question \"c-1_qa6\", expected one of " + data.string());
  EXPECT_EQ(refusal(" \n"), ": found no id, expected one id of a question per line");
  EXPECT_EQ(message_of([&] { load_dialogues("longbench-v2", data, {.leave_out = ids}); }),
            "longbench-v2: found questions to leave out, expected none: only LoCoMo's and "
            "REALTALK's datasets have ids of questions");
}

/// The message for a second conversation that `change` damages.
std::string locomo_refusal(const std::function<void(Json&)>& change) {
  Json bad = conversation("c-2");
  change(bad);
  return test::refusal(Json{conversation("c-1"), bad}.dump(), [](const fs::path& file) {
    for (const MemoryCategory& category : locomo_categories())
      read_locomo(file, category, MemoryForm::kSingleTurn, "locomo", {});
  });
}

TEST(Locomo, RefusesDamagedRecords) {
  EXPECT_EQ(locomo_refusal([](Json&) {}), "no error");
  EXPECT_EQ(locomo_refusal([](Json& c) { c["sample_id"] = "c-1"; }),
            "F: /1/sample_id: found \"c-1\", expected a unique id");
  EXPECT_EQ(locomo_refusal([](Json& c) { c["qa"][0]["category"] = 6; }),
            "F: /1/qa/0/category: found 6, expected an integer from 1 to 5");
  EXPECT_EQ(locomo_refusal([](Json& c) { c["qa"][3].erase("answer"); }),
            "F: /1/qa/3: found no key \"answer\", expected one");
  EXPECT_EQ(locomo_refusal([](Json& c) { c["qa"][2]["answer"] = " ; she is"; }),
            "F: /1/qa/2/answer: found \" ; she is\", expected an answer before \";\"");
  EXPECT_EQ(locomo_refusal([](Json& c) { c["qa"][3]["answer"] = ""; }),
            "F: /1/qa/3/answer: found \"\", expected an answer");
  EXPECT_EQ(locomo_refusal([](Json& c) { c["qa"][4].erase("adversarial_answer"); }),
            "F: /1/qa/4: found no key \"adversarial_answer\", expected one");
  EXPECT_EQ(locomo_refusal([](Json& c) { c["qa"][3]["question"] = " "; }),
            "F: /1/qa/3/question: found \" \", expected a question");
  EXPECT_EQ(locomo_refusal([](Json& c) { c["conversation"].erase("session_2_date_time"); }),
            "F: /1/conversation: found no key \"session_2_date_time\", expected one");
  EXPECT_EQ(locomo_refusal([](Json& c) { c["conversation"]["session_x"] = 1; }),
            "F: /1/conversation/session_x: found 1, expected no such key");
  EXPECT_EQ(locomo_refusal([](Json& c) { c["conversation"]["session_10"][0]["dia_id"] = "D2:1"; }),
            "F: /1/conversation/session_10/0/dia_id: found \"D2:1\", expected a unique id");
  EXPECT_EQ(locomo_refusal([](Json& c) {
              c["conversation"] = {{"speaker_a", "A"}, {"speaker_b", "B"}};
            }),
            "F: /1/conversation: found an object with 2 keys, expected an object with session_1");
}

/// A file of REALTALK.
Json chat() {
  Json out = {{"name", {{"speaker_1", "Ann"}, {"speaker_2", "Bob"}}},
              {"events_session_1", Json::object()},
              {"session_1_date_time", "29.12.2023, 00:51:12"},
              {"session_1",
               {{{"speaker", "Ann"},
                 {"dia_id", "D1:1"},
                 {"clean_text", "A lamp."},
                 {"date_time", "29.12.2023, 00:51:12"},
                 {"img_url", Json::array()},
                 {"img_file", Json::array()}}}},
              {"qa",
               {question(1, "Which things?", "a lamp, books", {"D1:1-D1:2"}),
                question(2, "When?", "29.12.2023", {"D1:1"}),
                question(3, "Why?", "Probably; who knows", {"D1:9"})}}};
  return out;
}

TEST(RealTalk, ReadsTheTenFilesOrOne) {
  const TemporaryDirectory directory;
  const fs::path first = directory.write("Chat_1_Emi_Elise.json", chat().dump());
  const auto one = load_checked("realtalk-multi-hop", first);
  ASSERT_EQ(one.size(), 1u);
  EXPECT_EQ(one[0].id, "Chat_1_Emi_Elise_qa0");
  const Turn& turn = one[0].turns.at(0);
  EXPECT_EQ(turn.contexts.at(0).text, "[Session of 29.12.2023, 00:51:12]\nAnn: A lamp.");
  EXPECT_EQ(turn.references, Texts{"a lamp, books"});
  EXPECT_EQ(turn.relevance, Texts{"D1:1"});
  EXPECT_EQ(load_checked("realtalk-open-domain", first)[0].turns.at(0).references,
            Texts{"Probably"});
  EXPECT_EQ(message_of([&] { load_dialogues("realtalk-temporal", directory.path(), {}); }),
            directory.path().string() +
                ": found none of Chat_2_Kevin_Elise.json, data/Chat_2_Kevin_Elise.json, expected "
                "one");
  for (const char* name :
       {"Chat_2_Kevin_Elise", "Chat_3_Kevin_Paola", "Chat_4_Emi_Paola", "Chat_5_Nicolas_Nebraas",
        "Chat_6_Vanessa_Nicolas", "Chat_7_Nebraas_Vanessa", "Chat_8_Akib_Muhhamed",
        "Chat_9_Fahim_Akib", "Chat_10_Fahim_Muhhamed"})
    directory.write(std::string(name) + ".json", chat().dump());
  const fs::path ids = directory.write("ids.txt", "Chat_2_Kevin_Elise_qa1");
  EXPECT_EQ(load_checked("realtalk-temporal", directory.path()).size(), 10u);
  const auto several = load_checked("mt-realtalk-temporal", directory.path(), {.leave_out = ids});
  ASSERT_EQ(several.size(), 9u);
  EXPECT_EQ(several[8].id, "Chat_10_Fahim_Muhhamed");
}

TEST(RealTalk, RefusesDamagedFiles) {
  const auto refusal = [](const std::function<void(Json&)>& change) {
    Json bad = chat();
    change(bad);
    return test::refusal(bad.dump(), [](const fs::path& file) {
      for (const MemoryCategory& category : realtalk_categories())
        read_realtalk(file, category, MemoryForm::kConversation, "realtalk", {});
    });
  };
  EXPECT_EQ(refusal([](Json&) {}), "no error");
  EXPECT_EQ(refusal([](Json& c) { c["qa"][0]["category"] = 4; }),
            "F: /qa/0/category: found 4, expected an integer from 1 to 3");
  EXPECT_EQ(refusal([](Json& c) { c["speaker_a"] = "Ann"; }),
            "F: /speaker_a: found \"Ann\", expected no such key");
  EXPECT_EQ(refusal([](Json& c) { c["name"].erase("speaker_2"); }),
            "F: /name: found no key \"speaker_2\", expected one");
  EXPECT_EQ(
      refusal([](Json& c) { c["session_1"][0]["text"] = ""; }),
      "F: /session_1/0: found the unknown key \"text\", expected one of: date_time, img_file, "
      "img_url, clean_text, speaker, dia_id, blip_caption");
}

}  // namespace
}  // namespace turnbench
