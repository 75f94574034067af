#include "datasets/needle_questions.h"

#include <fmt/format.h>

#include <algorithm>

#include "common/text.h"
#include "datasets/filler.h"
#include "datasets/vocabulary.h"

namespace turnbench {
namespace {

constexpr int kNeedles = 4;      // for the kinds with several
constexpr int kChains = 3;       // for needle-reasoning: one asked for, two as distractors
constexpr int kHops = 4;         // for variable-tracking
constexpr int kCodeDigits = 7;   // RULER's "numbers"
constexpr int kKeyDigits = 5;    // as in InfiniteBench
constexpr int kLongDigits = 10;  // as in InfiniteBench

std::string draw_number(Random& random, int digits) {
  std::string out(1, static_cast<char>('1' + random.below(9)));
  while (static_cast<int>(out.size()) < digits) {
    out += static_cast<char>('0' + random.below(10));
  }
  return out;
}

std::string draw_runs(Random& random, int digits) {
  std::string out = draw_number(random, 1);
  while (static_cast<int>(out.size()) < digits) {
    const bool again = random.below(2) == 0;
    out += again ? out.back() : static_cast<char>('0' + random.below(10));
  }
  return out;
}

std::string draw_letters(Random& random, int count) {
  std::string out;
  for (int i = 0; i < count; ++i) out += static_cast<char>('A' + random.below(26));
  return out;
}

std::vector<std::string> shuffled(std::span<const std::string_view> words, Random& random) {
  std::vector<std::string> out(words.begin(), words.end());
  random.shuffle(out);
  return out;
}

std::string take(std::vector<std::string>& words) {
  std::string out = std::move(words.back());
  words.pop_back();
  return out;
}

struct Code {
  std::string thing, number;
  std::string statement() const {
    return fmt::format("The access code of the {} is {}.", thing, number);
  }
};

Code make_code(UniqueValues& values) {
  const std::string thing = values.thing();
  return {thing, values.number(kCodeDigits)};
}

NeedleQuestion ask_code(const Code& code) {
  return {.needles = {code.statement()},
          .question = fmt::format("What is the access code of the {}?", code.thing),
          .references = {code.number},
          .gold = code.statement()};
}

NeedleQuestion needle(UniqueValues& values) {
  return ask_code(make_code(values));
}

NeedleQuestion multi_key_needle(UniqueValues& values) {
  NeedleQuestion out = needle(values);
  for (int i = 1; i < kNeedles; ++i) out.distractors.push_back(make_code(values).statement());
  return out;
}

NeedleQuestion multi_value_needle(UniqueValues& values) {
  const std::string thing = values.thing();
  NeedleQuestion out;
  for (int i = 0; i < kNeedles; ++i) {
    out.references.push_back(values.number(kCodeDigits));
    out.needles.push_back(
        fmt::format("One of the access codes of the {} is {}.", thing, out.references.back()));
  }
  out.question = fmt::format("What are the {} access codes of the {}?", kNeedles, thing);
  out.gold = fmt::format("The access codes of the {} are {}.", thing, join(out.references, ", "));
  return out;
}

NeedleQuestion multi_needle(UniqueValues& values) {
  std::vector<std::string> things;
  NeedleQuestion out;
  for (int i = 0; i < kNeedles; ++i) {
    const Code code = make_code(values);
    things.push_back("the " + code.thing);
    out.references.push_back(code.number);
    out.needles.push_back(code.statement());
  }
  out.question = fmt::format("What are the access codes of {}, in this order?", join(things, ", "));
  out.gold = fmt::format("The access codes are {}.", join(out.references, ", "));
  return out;
}

NeedleQuestion needle_reasoning(UniqueValues& values) {
  NeedleQuestion out;
  for (int chain = 0; chain < kChains; ++chain) {
    const std::string person = values.person(), thing = values.thing(), room = values.room();
    auto& needles = chain == 0 ? out.needles : out.distractors;
    needles.push_back(fmt::format("{} looks after the {}.", person, thing));
    needles.push_back(fmt::format("The {} is kept in the {}.", thing, room));
    if (chain > 0) continue;
    out.question = fmt::format(
        "In which room is the thing kept that {} looks after? Reply with the room only.", person);
    out.references = {room};
    out.gold = fmt::format("The {}.", room);
  }
  out.classes.assign(vocabulary::rooms().begin(), vocabulary::rooms().end());
  return out;
}

/// A number that is stated twice, as in InfiniteBench.
NeedleQuestion remembered(const std::string& what, const std::string& number) {
  NeedleQuestion out;
  out.needles = {fmt::format("The {} is {}. Remember it: {}.", what, number, number)};
  out.question = fmt::format("What is the {}?", what);
  out.references = {number};
  out.gold = fmt::format("The {} is {}.", what, number);
  return out;
}

NeedleQuestion passkey(UniqueValues& values) {
  const std::string what = fmt::format("pass key of the {}", values.thing());
  return remembered(what, values.number(kKeyDigits));
}

NeedleQuestion number_retrieval(UniqueValues& values) {
  const std::string what = fmt::format("sequence of digits on the {}", values.thing());
  return remembered(what, values.run_of_digits(kLongDigits));
}

NeedleQuestion kv_retrieval(UniqueValues& values) {
  const std::string key = values.uuid(), value = values.uuid();
  return {.needles = {fmt::format("\"{}\": \"{}\",", key, value)},
          .question = fmt::format("What is the value of the key \"{}\"?", key),
          .references = {value},
          .gold = value};
}

NeedleQuestion variable_tracking(UniqueValues& values) {
  const std::string value = values.number(kKeyDigits);
  NeedleQuestion out;
  for (int hop = 0; hop <= kHops; ++hop) {
    const std::string variable = values.variable();
    out.needles.push_back(
        fmt::format("VAR {} = {}.", variable, hop == 0 ? value : "VAR " + out.references.back()));
    out.references.push_back(variable);
  }
  out.question = fmt::format(
      "Find all variables that are assigned the value {}, directly or through another variable.",
      value);
  out.gold = join(out.references, ", ");
  return out;
}

constexpr std::string_view kCodes =
    "Access codes are hidden in the following text. Remember them: you will be asked about them. "
    "Reply with the codes only.";
constexpr std::string_view kStatements =
    "The following text says in passing who looks after what, and where it is kept. Remember it: "
    "you will be asked about it.";
constexpr std::string_view kNumber =
    "An important number is hidden in the following text. Remember it: you will be asked about "
    "it. Reply with the number only.";
constexpr std::string_view kPairs =
    "The following lines are from a JSON object. Remember the values of its keys: you will be "
    "asked about them. Reply with the value only.";
constexpr std::string_view kVariables =
    "Assignments of variables are hidden in the following text. Remember them: you will be asked "
    "about them. Reply with the names of the variables only.";

// name, description, task, metric, max_new_tokens, single_depth, in_uuid_pairs, instruction, make
constexpr NeedleTask kKinds[] = {
    {"needle", "a number hidden in other text", "retrieval", "ruler_match_all", 64, true, false,
     kCodes, needle},
    {"multi-key-needle", "one of four hidden numbers with different names", "retrieval",
     "ruler_match_all", 64, true, false, kCodes, multi_key_needle},
    {"multi-value-needle", "four hidden numbers with the same name", "retrieval", "ruler_match_all",
     128, false, false, kCodes, multi_value_needle},
    {"multi-needle", "four hidden numbers, asked for at once", "retrieval", "ruler_match_all", 128,
     false, false, kCodes, multi_needle},
    {"needle-reasoning", "two hidden statements that must be combined, among similar ones",
     "reasoning", "accuracy", 32, false, false, kStatements, needle_reasoning},
    {"passkey", "a hidden pass key of five digits", "retrieval", "infinitebench_passkey", 32, true,
     false, kNumber, passkey},
    {"number-retrieval", "a hidden sequence of ten digits, most of them repeated", "retrieval",
     "infinitebench_number_string", 48, true, false, kNumber, number_retrieval},
    {"kv-retrieval", "the value of a key among pairs of UUIDs", "retrieval",
     "infinitebench_kv_retrieval", 64, true, true, kPairs, kv_retrieval},
    {"variable-tracking", "hidden variables with the same value, through four assignments",
     "tracing", "ruler_match_all", 64, false, false, kVariables, variable_tracking},
};

}  // namespace

UniqueValues::UniqueValues(Random& random)
    : random_(random),
      people_(shuffled(vocabulary::people(), random)),
      rooms_(shuffled(vocabulary::rooms(), random)) {
  for (std::string_view material : vocabulary::materials()) {
    for (std::string_view object : vocabulary::objects()) {
      things_.push_back(fmt::format("{} {}", material, object));
    }
  }
  random.shuffle(things_);
}

std::string UniqueValues::unused(std::string (*draw)(Random&, int), int size) {
  for (;;) {
    std::string out = draw(random_, size);
    if (given_.insert(out).second) return out;
  }
}

std::string UniqueValues::thing() {
  return take(things_);
}
std::string UniqueValues::person() {
  return take(people_);
}
std::string UniqueValues::room() {
  return take(rooms_);
}
std::string UniqueValues::number(int digits) {
  return unused(draw_number, digits);
}
std::string UniqueValues::run_of_digits(int digits) {
  return unused(draw_runs, digits);
}
std::string UniqueValues::variable() {
  return unused(draw_letters, 5);
}
std::string UniqueValues::uuid() {
  return random_uuid(random_);
}

std::span<const NeedleTask> needle_tasks() {
  return kKinds;
}

}  // namespace turnbench
