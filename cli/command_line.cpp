#include "cli/command_line.h"

#include <cmath>
#include <optional>

#include "common/json.h"
#include "common/text.h"

namespace turnbench {
namespace {

constexpr std::size_t kQuoted = 60;  // characters of a found word that a message quotes

std::string in_quotes(std::string_view word) {
  return "\"" + printable(shorten(word, kQuoted)) + "\"";
}

/// The command on the command line, with all words of its name (method, pqcache, fit-costs); `app`
/// itself if there is none.
const CLI::App& command_of(const CLI::App& app) {
  const auto commands = app.get_subcommands();
  return commands.empty() ? app : command_of(*commands.front());
}

/// The name of a command: "method pqcache fit-costs"; "" for the program.
std::string name_of(const CLI::App& command) {
  const CLI::App* parent = command.get_parent();
  if (parent == nullptr) return "";
  const std::string prefix = name_of(*parent);
  return prefix.empty() ? command.get_name() : prefix + " " + command.get_name();
}

std::string place_of(const CLI::App& command) {
  return command.get_parent() == nullptr ? "command line" : name_of(command);
}

/// What the next word of a command names.  Only `method` has commands of its own.
std::string_view next_word_of(const CLI::App& command) {
  if (command.get_parent() == nullptr) return "command";
  return command.get_parent()->get_parent() == nullptr ? "method" : "action";
}

/// A word that matches no command or option.
Error unexpected_word(const CLI::App& app, const std::string& word) {
  const CLI::App& command = command_of(app);
  const std::string place = place_of(command);
  std::vector<std::string> known;
  if (word.size() > 1 && word[0] == '-') {
    for (const CLI::Option* option : command.get_options()) {
      for (const std::string& name : option->get_lnames()) known.push_back("--" + name);
    }
    const std::string option = word.substr(0, word.find('='));
    return input_error("{}: found the unknown option {}, expected {}", place, in_quotes(option),
                       nearest_or_all(option, {known.begin(), known.end()}));
  }
  if (command.get_subcommands({}).empty()) {
    return input_error("{}: found the argument {}, expected no more of them", place,
                       in_quotes(word));
  }
  for (const CLI::App* each : command.get_subcommands({})) known.push_back(each->get_name());
  return input_error("{}: found the unknown {} {}, expected {}", place, next_word_of(command),
                     in_quotes(word), nearest_or_all(word, {known.begin(), known.end()}));
}

}  // namespace

CLI::Validator whole_number(std::int64_t min, std::int64_t max) {
  // CLI11 parses 010 as octal and accepts values that overflow the type, so it receives plain
  // digits.
  const auto check = [min, max](std::string& text) {
    const std::optional<std::int64_t> value = parse_number<std::int64_t>(text);
    if (!value || *value < min || *value > max) {
      return fmt::format("found {}, expected a whole number from {} to {}", in_quotes(text), min,
                         max);
    }
    text = std::to_string(*value);
    return std::string();
  };
  return CLI::Validator(check, fmt::format("{} .. {}", min, max));
}

CLI::Validator number(double min, double max) {
  const auto check = [min, max](std::string& text) {
    const std::optional<double> value = parse_number<double>(text);
    if (!value || !(*value >= min && *value <= max)) {
      return fmt::format("found {}, expected a number from {} to {}", in_quotes(text), min, max);
    }
    return std::string();
  };
  return CLI::Validator(check, fmt::format("{} .. {}", min, max));
}

CLI::Validator score_points() {
  const auto check = [](std::string& text) {
    const std::optional<double> value = parse_number<double>(text);
    if (value && *value > 0 && *value < 100) return std::string();  // NaN is in no range
    return fmt::format("found {}, expected points between 0 and 100", in_quotes(text));
  };
  return CLI::Validator(check, "POINTS");
}

CLI::Validator not_empty() {
  const auto check = [](std::string& text) {
    return text.empty() ? std::string("found \"\", expected a value") : std::string();
  };
  return CLI::Validator(check, "");
}

CLI::Validator one_of(std::vector<std::string> words) {
  const std::string shown = join(words, "|");
  const auto check = [words = std::move(words)](std::string& text) {
    for (const std::string& word : words) {
      if (text == word) return std::string();
    }
    return fmt::format("found {}, expected {}", in_quotes(text),
                       nearest_or_all(text, {words.begin(), words.end()}));
  };
  return CLI::Validator(check, shown);
}

bool names_unknown_command(const CLI::App& app) {
  return !command_of(app).get_subcommands({}).empty() && !app.remaining(true).empty();
}

Error usage_error(const CLI::App& app, const CLI::ParseError& refusal) {
  // The message already contains the found and the expected value.
  if (dynamic_cast<const CLI::ValidationError*>(&refusal) != nullptr) {
    return input_error("{}", refusal.what());
  }
  const std::vector<std::string> unexpected = app.remaining(true);
  if (!unexpected.empty()) return unexpected_word(app, unexpected.front());
  const CLI::App& command = command_of(app);
  const std::string place = place_of(command);
  const bool is_program = command.get_parent() == nullptr;
  const std::string help = is_program ? "see --help" : fmt::format("see {} --help", place);
  const bool missing = dynamic_cast<const CLI::RequiredError*>(&refusal) != nullptr;
  if (is_program || (missing && !command.get_subcommands({}).empty())) {
    return input_error("{}: found no {}, expected one ({})", place, next_word_of(command), help);
  }
  for (const CLI::Option* option : command.get_options()) {
    const std::string name = option->get_name();
    if (missing && option->get_required() && option->count() == 0) {
      return input_error("{}: found no {}, expected one ({})", place, name, help);
    }
    const int most = option->get_items_expected_max();  // 0 for a flag
    if (most > 0 && static_cast<int>(option->count()) > most) {
      return input_error("{}: found it {} times, expected it once", name, option->count());
    }
    for (const CLI::Option* other : option->get_needs()) {
      if (option->count() > 0 && other->count() == 0) {
        return input_error("{}: found no {}, expected it too ({})", name, other->get_name(), help);
      }
    }
    for (const CLI::Option* other : option->get_excludes()) {
      if (option->count() > 0 && other->count() > 0) {
        return input_error("{}: found {} too, expected only one of them", name, other->get_name());
      }
    }
  }
  // The remaining case is an option without its value at the end: "--name: 1 required TEXT
  // missing".
  const std::string what = refusal.what();
  return input_error("{}: found no value, expected one ({})", what.substr(0, what.find(':')), help);
}

}  // namespace turnbench
