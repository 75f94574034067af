#include "harness/cli/cli.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <iostream>
#include <iterator>
#include <new>
#include <nlohmann/json.hpp>

#include "common/error.h"
#include "common/file.h"
#include "common/text.h"
#include "harness/experiment/smoke.h"
#include "harness/store/provenance.h"

namespace turnbench {
namespace {

constexpr const char* kExamples = R"(Examples:
  turnbench run experiments/quickstart.json --db results.db
  turnbench report results.db --format html -o results.html
  turnbench generate --model tiny --chat --prompt question.txt --method snapkv:budget=256
  turnbench describe method loopserve
Exit codes: 0 done, 1 something failed at run time, 2 bad usage or bad input.)";

constexpr std::size_t kShownProblems = 20;
constexpr std::int64_t kMaxMemoryLimit = std::int64_t{1} << 30;  // MiB
constexpr const char* kDeviceHelp =
    "auto (the CPU), cpu, cuda[:N]; cuda:N,M,...: the layers shared out among these cards";

int fail(const std::string& message, int code) {
  fmt::print(stderr, "turnbench: {}\n", printable(replace_all(message, "\n", " ")));
  return code;
}

DType parse_dtype(const std::string& name, const char* option) {
  for (DType t : {DType::kF32, DType::kF16, DType::kBF16}) {
    if (name_of(t) == name) return t;
  }
  throw input_error("{}: found \"{}\", expected f32, f16 or bf16", option, printable(name));
}

}  // namespace

std::string read_input(const std::string& file) {
  if (!file.empty() && file != "-") return read_file(file);
  return std::string(std::istreambuf_iterator<char>(std::cin), {});
}

std::string dump(const OrderedJson& json) {
  return json.dump(-1, ' ', false, OrderedJson::error_handler_t::replace);
}

void print_documents(std::vector<std::string> documents) {
  for (std::string& document : documents) document = trim(document);
  const std::string all = join(documents, ",\n");
  fmt::print("{}\n", documents.size() == 1 ? all : "[" + all + "]");
}

void print_problems(std::string_view title, const std::vector<std::string>& lines,
                    std::string_view more) {
  const std::size_t shown = std::min(lines.size(), kShownProblems);
  for (std::size_t i = 0; i < shown; ++i) fmt::print(stderr, "{}: {}\n", title, lines[i]);
  if (lines.size() > shown) fmt::print(stderr, "{}: {} {}\n", title, lines.size() - shown, more);
}

std::vector<std::string> select_experiments(const Store& store,
                                            const std::vector<std::string>& named) {
  for (const std::string& name : named) store.manifest(name);  // refuses an unknown name
  return named.empty() ? store.experiments() : named;
}

std::string read_utf8_input(const std::string& file) {
  std::string text = read_input(file);
  require_utf8(text, input_name(file));
  return text;
}

std::string input_name(const std::string& file) {
  return file.empty() || file == "-" ? "stdin" : file;
}

void ModelOptions::add_to(CLI::App& command) {
  command
      .add_option("--model", model, "Hugging Face directory, tiny, or random:CONFIG.json[:seed]")
      ->required();
  command.add_option("--dtype", dtype, "weights: auto (as stored), f32, f16, bf16");
  command.add_option("--kv-dtype", kv_dtype, "keys and values: f32, f16, bf16");
  command.add_option("--threads", threads, "0: all processors")->transform(whole_number(0, 1024));
  command.add_option("--device", device, kDeviceHelp);
  command.add_option("--memory-limit", memory_limit_mib, "MiB; 0: none")
      ->transform(whole_number(0, kMaxMemoryLimit));
}

DType ModelOptions::kv_type() const {
  return parse_dtype(kv_dtype, "--kv-dtype");
}

LoadedModel load_model(const ModelOptions& options) {
  const std::vector<Device> devices = parse_devices(options.device, "--device");
  Engine::Options engine;
  engine.kv_dtype = options.kv_type();
  DType dtype{};
  if (options.dtype != "auto") dtype = parse_dtype(options.dtype, "--dtype");
  LoadedModel out;
  out.checkpoint = Checkpoint::open(options.model);
  out.backends = make_backends(devices, options.threads);
  const std::vector<Backend*> backends = pointers_to(out.backends);
  if (options.dtype == "auto") dtype = out.checkpoint.stored_dtype();
  engine.memory_limit = options.memory_limit_mib << 20;
  out.model = std::make_unique<Model>(out.checkpoint, backends, dtype);
  out.engine = std::make_unique<Engine>(*out.model, backends, engine);
  return out;
}

std::map<std::string, std::string> parse_name_values(const std::vector<std::string>& given,
                                                     const char* option) {
  std::map<std::string, std::string> out;
  for (const std::string& text : given) {
    const std::size_t equals = text.find('=');
    if (equals == std::string::npos || equals == 0 || equals + 1 == text.size()) {
      throw input_error("{}: found \"{}\", expected NAME=DIR", option, printable(text));
    }
    if (!out.emplace(text.substr(0, equals), text.substr(equals + 1)).second) {
      throw input_error("{}: found \"{}\" twice, expected it once", option,
                        printable(text.substr(0, equals)));
    }
  }
  return out;
}

void SweepOptions::add_to(CLI::App& command) {
  // One value each, so that a manifest may follow.
  command.add_option("--model", models, "NAME=DIR: where a model of the manifest lies")
      ->allow_extra_args(false);
  command.add_option("--data", data, "NAME=DIR: where a dataset or collection (longbench) lies")
      ->allow_extra_args(false);
  command.add_option("--workers", workers, "units at the same time; 0: by the model's size")
      ->transform(whole_number(0, 1024));
  command.add_option("--threads", threads, "of each worker; 0: the processors shared out")
      ->transform(whole_number(0, 1024));
  command.add_option("--device", device, kDeviceHelp);
  command.add_option("--memory-limit", memory_limit_mib, "MiB of each worker; 0: none")
      ->transform(whole_number(0, kMaxMemoryLimit));
}

Locations SweepOptions::locations() const {
  return {parse_name_values(models, "--model"), parse_name_values(data, "--data")};
}

RunOptions SweepOptions::run_options() const {
  return {workers, threads, parse_devices(device, "--device"), memory_limit_mib << 20};
}

void ManifestOptions::add_to(CLI::App& command) {
  command.add_option("--limit", limit, "dialogues of each dataset; 0: all")
      ->transform(whole_number(0, 1'000'000'000));
  sweep.add_to(command);
  command
      .add_flag("--smoke", smoke,
                "the same on stand-ins, in seconds: model tiny, short prompts, made-up data where "
                "--data gives none; stored as NAME.smoke")
      ->excludes("--model");
}

Manifest ManifestOptions::load(const std::string& path) const {
  const Manifest manifest = load_manifest(path);
  return smoke ? smoke_manifest(manifest, sweep.locations()) : manifest;
}

int run_cli(int argc, char** argv) {
  CLI::App app(
      "turnbench: KV-cache and sparse-attention methods on multi-turn long-context dialogues, "
      "through one core.");
  app.footer(kExamples);
  app.require_subcommand(1);
  app.set_version_flag("--version", build_description());
  CommonOptions common;
  int exit_code = 0;
  add_run_command(app, common, exit_code);
  add_plan_command(app, common);
  add_status_command(app, common, exit_code);
  add_report_command(app, common);
  add_answers_command(app, common);
  add_forget_command(app, common);
  add_list_command(app, common);
  add_describe_command(app, common);
  add_generate_command(app, common);
  add_logits_command(app);
  add_tokenize_command(app, common);
  add_score_command(app, common, exit_code);
  add_import_command(app, common);
  add_judge_command(app, common, exit_code);
  add_dialogues_command(app, common);
  add_bench_command(app, common);
  add_calibrate_command(app, common);
  add_doctor_command(app, common);
  for (CLI::App* command : app.get_subcommands({})) {
    command->add_flag("--json", common.json, "stdout is JSON");
    command->add_flag("--quiet", common.quiet, "no progress on stderr");
  }
  try {
    app.parse(argc, argv);
    if (std::fflush(stdout) != 0) return fail("stdout: cannot be written", 1);
    return exit_code;
  } catch (const CLI::ParseError& e) {
    if (e.get_exit_code() == static_cast<int>(CLI::ExitCodes::Success))
      return app.exit(e);  // --help, --version
    return fail(usage_error(app, e).what(), 2);
  } catch (const Error& e) {
    return fail(e.what(), e.kind() == ErrorKind::kInput ? 2 : 1);
  } catch (const std::bad_alloc&) {
    return fail("out of memory", 1);
  } catch (const std::exception& e) {
    return fail(e.what(), 1);
  }
}

}  // namespace turnbench
