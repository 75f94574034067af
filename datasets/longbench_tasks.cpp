#include "datasets/longbench_tasks.h"

#include <array>
#include <vector>

#include "common/error.h"
#include "common/json.h"
#include "common/text.h"

namespace turnbench {
namespace {

constexpr ContextLayout kProse = {.split = SplitRule::kProse};
constexpr ContextLayout kLines = {.split = SplitRule::kLines};
constexpr ContextLayout kCode = {.split = SplitRule::kCode};

constexpr ContextLayout numbered(SplitRule split, std::string_view marker,
                                 std::string_view suffix) {
  return {.split = split, .marker = marker, .numbered = true, .suffix = suffix};
}

constexpr ContextLayout examples(std::string_view marker, std::string_view answer) {
  return {.split = SplitRule::kNever, .marker = marker, .answer = answer};
}

constexpr Wording about(std::string_view instruction, std::string_view document_name,
                        std::string_view label) {
  return {instruction, "", "About {document}: {input}", document_name, label};
}

constexpr Wording kPassages = {
    "Answer the question from the given passages. Reply with the answer only.", "", "{input}", "",
    ""};
constexpr Wording kPassagesZh = {"请根据给定的文章回答问题。", "", "{input}", "", ""};
constexpr Wording kStory =
    about("Answer the question from the given story. Reply with the answer only, in a few words.",
          "the story", "Story {letter}");
constexpr Wording kArticle = about(
    "Answer the question from the given scientific article. Reply with the answer only, as briefly "
    "as "
    "you can: \"yes\" or \"no\" if that is asked, \"unanswerable\" if the article does not tell.",
    "the article", "Article {letter}");
constexpr Wording kText =
    about("Answer the question from the given text. Reply with the answer only.", "the text",
          "Text {letter}");
constexpr Wording kTextZh = {"请根据给定的文字回答问题，只回答答案。", "",
                             "关于{document}：{input}", "这篇文字", "文字{letter}"};
constexpr Wording kMeeting =
    about("Answer the query from the given meeting transcript, in one or more sentences.",
          "the meeting", "Meeting {letter}");
constexpr Wording kReport = {"The text is taken from reports of government agencies.",
                             "Write a summary of {document}, about one page long.", "",
                             "the report", "Report {letter}"};
constexpr Wording kNews = {"The text is taken from news articles.",
                           "Write a summary of {document}, about one page long.", "",
                           "all the news", "News collection {letter}"};
constexpr Wording kMeetingZh = {"以下文字选自会议记录。", "请为{document}写一段总结。", "",
                                "这次会议", "会议{letter}"};
constexpr Wording kQuestionTypes = {
    "Name the type of the question. The examples show which types there are.", "", "", "", ""};
constexpr Wording kNewsTypesZh = {"判断新闻的类别，例子说明了有哪些类别。", "", "", "", ""};
constexpr Wording kTrivia = {
    "Answer the question about the passage. Reply with the answer only, as the examples do.", "",
    "", "", ""};
constexpr Wording kChats = {"Summarize the dialogue in a few short sentences, as the examples do.",
                            "", "", "", ""};
constexpr Wording kCount = {
    "Some of the paragraphs are repetitions of others. Reply with a number only.",
    "How many different paragraphs does {document} hold if repetitions are not counted?", "",
    "the text", "Collection {letter}"};
constexpr Wording kRetrieval = {
    "Find the paragraph that the abstract was written from. Reply with its number, in the form "
    "\"Paragraph 1\".",
    "", "Which paragraph of {document} was this abstract written from?\n{input}", "the text",
    "Collection {letter}"};
constexpr Wording kRetrievalZh = {"找出摘要出自哪个段落，只回答段落编号，格式如“段落1”。", "",
                                  "下面的摘要出自{document}的哪个段落？\n{input}", "文字",
                                  "文集{letter}"};
constexpr Wording kNextLine = {
    "Complete the code. Write nothing but the next line.",
    "Write the line that comes next in {document}.",
    "{document} ends with the following lines. Write the line that comes next.\n{input}",
    "the code", "File {letter}"};

constexpr auto kRecords = Grouping::kRecords;
constexpr auto kExamples = Grouping::kExamples;

// name, description, kind, language, metric, max_new_tokens, in_longbench_e, grouping, turns,
// layout, wording
constexpr std::array<LongBenchTask, 21> kLongBenchTasks = {{
    {"narrativeqa", "questions on novels and film scripts", "qa", "en", "qa_f1", 128, false,
     kRecords, 3, kProse, kStory},
    {"qasper", "questions on NLP papers", "qa", "en", "qa_f1", 128, true, kRecords, 3, kProse,
     kArticle},
    {"multifieldqa_en", "questions on articles of several fields", "qa", "en", "qa_f1", 64, true,
     kRecords, 3, kProse, kText},
    {"multifieldqa_zh", "questions on articles of several fields, Chinese", "qa", "zh", "qa_f1_zh",
     64, false, kRecords, 3, kProse, kTextZh},
    {"hotpotqa", "two-hop questions on Wikipedia passages", "qa", "en", "qa_f1", 32, true, kRecords,
     3, numbered(SplitRule::kNever, "Passage ", ":"), kPassages},
    {"2wikimqa", "questions of up to five hops on Wikipedia passages", "qa", "en", "qa_f1", 32,
     true, kRecords, 3, numbered(SplitRule::kNever, "Passage ", ":"), kPassages},
    {"musique", "questions of up to four hops on Wikipedia passages", "qa", "en", "qa_f1", 32,
     false, kRecords, 3, numbered(SplitRule::kNever, "Passage ", ":"), kPassages},
    {"dureader", "search questions on web pages, Chinese", "qa", "zh", "rouge_zh", 128, false,
     kRecords, 3, numbered(SplitRule::kNever, "文章", "\n"), kPassagesZh},
    {"gov_report", "summaries of government reports", "summary", "en", "rouge", 512, true, kRecords,
     2, kProse, kReport},
    {"qmsum", "summaries of meetings that answer a query", "summary", "en", "rouge", 512, false,
     kRecords, 2, kLines, kMeeting},
    {"multi_news", "summaries of several news articles", "summary", "en", "rouge", 512, true,
     kRecords, 2, numbered(SplitRule::kProse, "Passage ", ":"), kNews},
    {"vcsum", "summaries of meetings, Chinese", "summary", "zh", "rouge_zh", 512, false, kRecords,
     2, kLines, kMeetingZh},
    {"trec", "types of questions, few-shot", "few-shot", "en", "classification", 64, true,
     kExamples, 2, examples("Question: ", "\nType:"), kQuestionTypes},
    {"triviaqa", "trivia questions on passages, few-shot", "few-shot", "en", "qa_f1", 32, true,
     kExamples, 2, examples("Passage:\n", "\nAnswer:"), kTrivia},
    {"samsum", "summaries of chats, few-shot", "few-shot", "en", "rouge", 128, true, kExamples, 2,
     examples("Dialogue: ", "\nSummary:"), kChats},
    {"lsht", "classes of news, few-shot, Chinese", "few-shot", "zh", "classification", 64, false,
     kExamples, 2, examples("新闻内容：\n", "\n类别："), kNewsTypesZh},
    {"passage_count", "number of different paragraphs", "synthetic", "en", "count", 32, true,
     kRecords, 2, numbered(SplitRule::kNever, "Paragraph ", ":"), kCount},
    {"passage_retrieval_en", "paragraph from which an abstract was written", "synthetic", "en",
     "retrieval", 32, true, kRecords, 3, numbered(SplitRule::kNever, "Paragraph ", ":"),
     kRetrieval},
    {"passage_retrieval_zh", "paragraph from which an abstract was written, Chinese", "synthetic",
     "zh", "retrieval_zh", 32, false, kRecords, 3, numbered(SplitRule::kNever, "段落", "："),
     kRetrievalZh},
    {"lcc", "next line of a source file", "code", "code", "code_sim", 64, true, kRecords, 2, kCode,
     kNextLine},
    {"repobench-p", "next line of a source file, given its repository", "code", "code", "code_sim",
     64, true, kRecords, 2, kCode, kNextLine},
}};

}  // namespace

std::span<const LongBenchTask> longbench_tasks() {
  return kLongBenchTasks;
}

const LongBenchTask& find_longbench_task(std::string_view name, const std::string& where) {
  std::string_view plain = name;
  const bool e = plain.ends_with("_e");
  if (e) plain.remove_suffix(2);
  std::vector<std::string_view> known;
  for (const LongBenchTask& task : kLongBenchTasks) {
    if (task.name == plain && (!e || task.in_longbench_e)) return task;
    known.push_back(task.name);
  }
  throw input_error("{}: found the LongBench task \"{}\", expected {}", where,
                    printable(shorten(name, 60)), nearest_or_all(plain, known));
}

std::string chunk_heading(const LongBenchTask& task, std::string_view label, std::size_t part,
                          std::size_t parts) {
  if (task.language == "zh") {
    if (parts == 1) return fmt::format("【{}】", label);
    return fmt::format("【{}，第{}部分，共{}部分】", label, part, parts);
  }
  if (parts == 1) return fmt::format("[{}]", label);
  return fmt::format("[{}, part {} of {}]", label, part, parts);
}

std::string_view refine_instruction(const LongBenchTask& task) {
  return task.language == "zh" ? "下面是更多例子，请结合前面的例子改进答案。"
                               : "Here are further examples. Improve your answer with their help.";
}

}  // namespace turnbench
