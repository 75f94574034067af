#include <fmt/format.h>
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "cli/cli.h"
#include "cli/input_output.h"
#include "cli/interrupts.h"
#include "cli/shared_options.h"
#include "cli/text_stream.h"
#include "common/clock.h"
#include "common/error.h"
#include "common/process_memory.h"
#include "common/text.h"
#include "inference/engine/checkpoint_tokenizer.h"
#include "inference/engine/sampler.h"
#include "inference/policy/policy_checks.h"
#include "methods/method.h"
#include "methods/model_check.h"

namespace turnbench {
namespace {

std::vector<int> parse_ids(const std::string& text) {
  std::vector<int> out;
  if (trim(text).empty()) return out;
  for (const std::string& part : split(text, ",")) {
    const std::string number = trim(part);
    if (number.empty() || number.size() > 9 ||
        number.find_first_not_of("0123456789") != std::string::npos) {
      throw input_error("--ids: found \"{}\", expected token ids separated by commas",
                        printable(shorten(number, 40)));
    }
    out.push_back(std::stoi(number));
  }
  return out;
}

struct GenerateOptions {
  ModelOptions model;
  ConversationOptions conversation;
  std::string prompt, ids, method = "full";
  bool has_ids = false, chat = false, ignore_eos = false;
  int max_tokens = 128;
  double temperature = 0;
  std::uint64_t seed = 0;
};

struct GivenPrompt {
  std::vector<int> ids;
  std::vector<int> stops;
};

/// The text of the prompt.
std::string read_prompt(const GenerateOptions& o) {
  if (!o.prompt.empty() && o.prompt != "-" && !std::filesystem::exists(o.prompt)) {
    throw input_error("--prompt: found no file {}, expected one, or - for text on stdin",
                      printable(o.prompt));
  }
  std::string out = read_utf8_input(o.prompt);
  // A final line end in a file is not part of the message.
  if (o.chat && out.ends_with('\n')) out.pop_back();
  if (out.empty()) throw input_error("{}: found no text, expected a prompt", input_name(o.prompt));
  return out;
}

/// Token ids of the prompt, and the stop tokens.
GivenPrompt make_prompt(const GenerateOptions& o, const Checkpoint& checkpoint,
                        const std::optional<Tokenizer>& tokenizer) {
  GivenPrompt out;
  if (o.has_ids) {
    out.ids = parse_ids(o.ids);
  } else if (!tokenizer) {
    throw input_error("{}: found no tokenizer, expected one, or --ids", checkpoint.name);
  } else if (o.chat) {
    const ChatTemplate t = o.conversation.open(*tokenizer, checkpoint.name);
    Dialogue dialogue;
    Turn turn;
    turn.question = read_prompt(o);
    dialogue.turns = {turn};
    const PromptRenderer renderer(*tokenizer, t, o.conversation.system,
                                  checkpoint.config.eos_tokens);
    out.ids = renderer.render(dialogue, 0, 0).tokens;
    out.stops = renderer.stop_tokens();
  } else {
    out.ids = tokenizer->encode(read_prompt(o), {.parse_special = true, .add_special = true});
  }
  if (out.ids.empty()) {
    throw input_error("{}: found no tokens, expected at least one",
                      o.has_ids ? "--ids" : input_name(o.prompt));
  }
  out.stops.insert(out.stops.end(), checkpoint.config.eos_tokens.begin(),
                   checkpoint.config.eos_tokens.end());
  if (tokenizer && tokenizer->eos()) out.stops.push_back(*tokenizer->eos());
  if (o.ignore_eos) out.stops.clear();
  return out;
}

/// Warns if the prompt, or the prompt with its answer, exceeds the model's positions.
void warn_of_positions(const Checkpoint& checkpoint, std::size_t prompt, int most) {
  const double positions = checkpoint.config.longest_prompt(), first = static_cast<double>(prompt);
  if (positions <= 0 || first + most <= positions) return;
  if (first > positions) {
    fmt::print(
        stderr,
        "{}: the prompt has {} tokens, more than the model's {:.0f} positions: answers may be "
        "nonsense\n",
        checkpoint.name, prompt, positions);
  } else {
    fmt::print(stderr,
               "{}: the prompt and {:.0f} tokens of the answer fill the model's {:.0f} positions: "
               "later tokens may be nonsense\n",
               checkpoint.name, positions - first, positions);
  }
}

/// Prints an answer as it is generated: its text, or its ids if the model has no tokenizer.
class AnswerPrinter {
 public:
  explicit AnswerPrinter(const std::optional<Tokenizer>& tokenizer) {
    if (tokenizer) text_.emplace(*tokenizer);
  }
  void add(int token) {
    print(text_ ? text_->add(token) : fmt::format("{}{}", is_first_ ? "" : ",", token));
    is_first_ = false;
  }
  void finish() { print((text_ ? text_->finish() : "") + "\n"); }

 private:
  static void print(const std::string& text) {
    if (text.empty()) return;
    fmt::print("{}", text);
    if (std::fflush(stdout) != 0) throw runtime_error("stdout: cannot be written");
  }

  std::optional<TextStream> text_;
  bool is_first_ = true;
};

void generate(const GenerateOptions& o, const CommonOptions& common, int& exit_code) {
  const Method method = Method::parse(o.method, "--method");
  refuse_compression_within_prompts(method, "--method");
  LoadedModel loaded = load_model(o.model);
  with_error_prefix("--method", [&] { check_model(method, loaded.model->config()); });
  std::optional<Tokenizer> tokenizer;
  if (has_tokenizer(loaded.checkpoint)) tokenizer = open_tokenizer(loaded.checkpoint);
  const GivenPrompt prompt = make_prompt(o, loaded.checkpoint, tokenizer);
  warn_of_positions(loaded.checkpoint, prompt.ids.size(), o.max_tokens);
  Engine& engine = *loaded.engine;
  check_eviction(method.policies(), /*evicts_in_answers=*/true);
  Sequence sequence = engine.make_sequence(method.make());
  DialogueView dialogue;
  dialogue.tokens = prompt.ids;
  dialogue.seed = o.seed;
  dialogue.answer_limit = o.max_tokens;
  if (tokenizer) {
    dialogue.token_text = [&](int token) { return tokenizer->token_text(token); };
    dialogue.encode = [&](std::string_view text) { return tokenizer->encode(text, {}); };
  }
  Sampler sampler(o.temperature, o.seed);
  std::vector<int> ids;
  std::vector<double> times;  // for each token, since the start
  AnswerPrinter printer(tokenizer);
  const Interrupts interrupts("stopping with the answer so far");
  const auto start = Clock::now();
  const Pass first{
      .sequence = &sequence, .tokens = prompt.ids, .dialogue = &dialogue, .prompt_end = true};
  std::vector<float> logits = engine.prefill({&first, 1})[0];
  const double kv_tokens = sequence.mean_tokens();
  const std::size_t kv_bytes = sequence.kv_bytes();
  bool stopped = false;
  while (static_cast<int>(ids.size()) < o.max_tokens && !interrupts.any()) {
    const int token = sampler.sample(logits);
    times.push_back(seconds_since(start));
    stopped = std::find(prompt.stops.begin(), prompt.stops.end(), token) != prompt.stops.end();
    if (stopped) break;
    ids.push_back(token);
    if (!common.json) printer.add(token);
    if (static_cast<int>(ids.size()) == o.max_tokens) break;
    const Pass next{.sequence = &sequence,
                    .tokens = {&ids.back(), 1},
                    .kind = Pass::Kind::kDecode,
                    .dialogue = &dialogue};
    logits = engine.forward({&next, 1})[0];
  }
  if (!common.json) printer.finish();
  const int signal = interrupts.signal();
  if (signal != 0) exit_code = 128 + signal;
  if (signal == 0 && !stopped && !o.ignore_eos && !common.quiet) {
    fmt::print(stderr, "the answer reached its length limit of {} tokens (--max-tokens)\n",
               o.max_tokens);
  }
  if (!common.json) return;
  const auto null_or = [](bool there, double x) {
    return there ? OrderedJson(x) : OrderedJson(nullptr);
  };
  const std::size_t n = times.size();
  OrderedJson out;
  out["ids"] = ids;
  out["text"] = tokenizer ? tokenizer->decode(ids, true) : "";
  out["finish_reason"] = signal != 0 ? "interrupted" : stopped ? "stop" : "length";
  out["ttft_s"] = null_or(n > 0, n > 0 ? times[0] : 0);
  out["tt2t_s"] = null_or(n > 1, n > 1 ? times[1] : 0);
  out["tpot_s"] =
      null_or(n > 2, n > 2 ? (times[n - 1] - times[1]) / static_cast<double>(n - 2) : 0);
  out["kv_tokens"] = kv_tokens;
  out["kv_bytes"] = kv_bytes;
  out["transfer_bytes"] = sequence.counters.ledger.total().bytes();
  out["peak_memory_bytes"] = peak_resident_bytes();
  fmt::print("{}\n", dump(out));
}

}  // namespace

void add_generate_command(CLI::App& app, const CommonOptions& common, int& exit_code) {
  auto o = std::make_shared<GenerateOptions>();
  CLI::App* command = app.add_subcommand("generate", "Answer one prompt with a method");
  command->footer(
      "Example: echo 'what is the color of alice?' | turnbench generate --model tiny --chat\n"
      "The answer is printed while it is generated, except with --json. SIGINT ends it: exit code "
      "130.");
  o->model.add_to(*command);
  CLI::Option* prompt = command->add_option("--prompt", o->prompt, "prompt file; default: stdin");
  CLI::Option* chat = command->add_flag(
      "--chat", o->chat, "the prompt is one user message of the model's chat template");
  o->conversation.add_template_to(*command)->needs(chat);
  o->conversation.add_system_to(*command)->needs(chat);
  const CLI::Option* ids =
      command->add_option("--ids", o->ids, "token ids instead of a prompt: 1,2,3")
          ->excludes(prompt)
          ->excludes(chat);
  command->add_option("--method", o->method, "method, e.g. snapkv:budget=1024");
  command->add_option("--max-tokens", o->max_tokens, "length limit of the answer")
      ->transform(whole_number(0, 10'000'000));
  command->add_flag("--ignore-eos", o->ignore_eos, "generate exactly --max-tokens");
  command->add_option("--temperature", o->temperature, "temperature; 0: greedy")
      ->check(number(0, 100));
  command->add_option("--seed", o->seed, "seed of sampling and of methods with random numbers")
      ->transform(whole_number(0, INT64_MAX));
  command->callback([o, ids, &common, &exit_code] {
    o->has_ids = ids->count() > 0;
    generate(*o, common, exit_code);
  });
}

void add_logits_command(CLI::App& app) {
  struct Options {
    ModelOptions model;
    std::string ids, method = "full";
    bool last = false;
  };
  auto o = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand(
      "logits", "Print the logits of every position (or the last) of given token ids, as JSON");
  command->footer("Example: turnbench logits --model tiny --ids 1,2,3 --last");
  o->model.add_to(*command);
  command->add_option("--ids", o->ids, "token ids: 1,2,3")->required();
  command->add_option("--method", o->method, "method; only its prefill is used");
  command->add_flag("--last", o->last, "print the last position only");
  command->callback([o] {
    const Method method = Method::parse(o->method, "--method");
    const std::vector<int> ids = parse_ids(o->ids);
    if (ids.empty()) throw input_error("--ids: found no tokens, expected at least one");
    LoadedModel loaded = load_model(o->model);
    Sequence sequence = loaded.engine->make_sequence(method.make());
    const Pass pass{
        .sequence = &sequence, .tokens = ids, .prompt_end = true, .all_logits = !o->last};
    const std::vector<float> logits = loaded.engine->prefill({&pass, 1})[0];
    for (float x : logits) {
      if (!std::isfinite(x)) {
        throw runtime_error("{}: computed the logit {}, which JSON cannot represent",
                            loaded.checkpoint.name, x);
      }
    }
    const auto vocab = static_cast<std::size_t>(loaded.model->config().vocab);
    std::string out = "{\"logits\": [";
    for (std::size_t r = 0; r * vocab < logits.size(); ++r) {
      out += r == 0 ? "[" : ", [";
      for (std::size_t i = 0; i < vocab; ++i)
        out += fmt::format("{}{}", i == 0 ? "" : ", ", logits[r * vocab + i]);
      out += "]";
    }
    fmt::print("{}]}}\n", out);
  });
}

}  // namespace turnbench
