#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <optional>

#include "cli/cli.h"
#include "cli/input_output.h"
#include "cli/shared_options.h"
#include "common/error.h"
#include "common/text.h"

namespace turnbench {
namespace {

/// Parses ids as {"ids": [...]}, an array, or numbers separated by commas and spaces.
std::vector<int> ids_of(const std::string& text, const std::string& source) {
  std::vector<int> out;
  const std::string trimmed = trim(text);
  if (trimmed.starts_with('{') || trimmed.starts_with('[')) {
    const Json json = parse_json(trimmed, source);
    const JsonView view(json, source);
    for (const JsonView& id : (view.is_object() ? view.at("ids") : view).items()) {
      out.push_back(static_cast<int>(id.as_integer(0, INT32_MAX)));
    }
    return out;
  }
  std::string number;
  for (char c : trimmed + " ") {
    if (c >= '0' && c <= '9' && number.size() < 9) {
      number += c;
    } else if (c == ',' || c == ' ' || c == '\n' || c == '\t' || c == '\r') {
      if (!number.empty()) out.push_back(std::stoi(number));
      number.clear();
    } else {
      throw input_error("{}: found \"{}\", expected token ids", source,
                        printable(std::string(1, c)));
    }
  }
  return out;
}

struct TokenizeOptions {
  std::string model, file;
  bool decode = false, special = false, lines = false;
};

void tokenize(const TokenizeOptions& o, bool json) {
  const Tokenizer tokenizer = open_model_tokenizer(o.model);
  const std::string input = read_utf8_input(o.file), source = input_name(o.file);
  std::vector<std::string> documents;
  if (o.lines) {
    documents = split(input, "\n");
    if (!documents.empty() && documents.back().empty()) documents.pop_back();
  } else {
    documents = {input};
  }
  std::string out;  // printed only when complete
  for (std::size_t i = 0; i < documents.size(); ++i) {
    if (!o.decode) {
      const std::vector<int> ids =
          tokenizer.encode(documents[i], {.parse_special = o.special, .add_special = false});
      out += dump({{"ids", ids}}) + "\n";
      continue;
    }
    const std::string place = o.lines ? fmt::format("{}: line {}", source, i + 1) : source;
    const std::string text = tokenizer.decode(ids_of(documents[i], place), !o.special);
    out += json ? dump({{"text", text}}) + "\n" : o.lines ? text + "\n" : text;
  }
  fmt::print("{}", out);
}

}  // namespace

void add_tokenize_command(CLI::App& app, const CommonOptions& common) {
  auto o = std::make_shared<TokenizeOptions>();
  CLI::App* command = app.add_subcommand("tokenize", "Convert text to token ids as JSON, or back");
  command->footer("Example: echo 'hello world' | turnbench tokenize --model tiny");
  command->add_option("--model", o->model, kTokenizerModelHelp)->required();
  command->add_option("file", o->file, "text file; default: stdin");
  command->add_flag("--decode", o->decode, "convert ids to text");
  command->add_flag("--special", o->special,
                    "recognise special tokens in the text; when decoding, print them");
  command->add_flag("--lines", o->lines, "one document per line");
  command->callback([o, &common] { tokenize(*o, common.json); });
}

}  // namespace turnbench
