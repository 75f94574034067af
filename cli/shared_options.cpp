#include "cli/shared_options.h"

#include <fmt/format.h>

#include <set>

#include "cli/command_line.h"
#include "common/error.h"
#include "common/file.h"
#include "common/json.h"
#include "common/text.h"
#include "harness/experiment/smoke.h"
#include "inference/engine/checkpoint_tokenizer.h"

namespace turnbench {
namespace {

constexpr std::int64_t kMaxMemoryLimit = std::int64_t{1} << 30;  // MiB
constexpr std::int64_t kMaxShards = 100'000;
constexpr const char* kDeviceHelp =
    "auto (the CPU), cpu, cuda[:N]; cuda:N,M,...: the layers divided among these GPUs";

DType parse_dtype(const std::string& name, const char* option) {
  for (DType t : {DType::kF32, DType::kF16, DType::kBF16}) {
    if (name_of(t) == name) return t;
  }
  throw input_error("{}: found \"{}\", expected f32, f16 or bf16", option, printable(name));
}

Math parse_math(const std::string& name) {
  for (Math m : kAllMath) {
    if (name_of(m) == name) return m;
  }
  throw input_error("--math: found \"{}\", expected f32, bf16-linear or bf16", printable(name));
}

/// The dtype of the weights, as --dtype and --math say.
DType weight_dtype(const ModelOptions& options, Math math, const Checkpoint& checkpoint) {
  if (options.dtype == "auto")
    return needs_bf16_weights(math) ? DType::kBF16 : checkpoint.stored_dtype();
  const DType dtype = parse_dtype(options.dtype, "--dtype");
  if (needs_bf16_weights(math) && dtype != DType::kBF16) {
    throw input_error(
        "--dtype: found {}, expected auto or bf16: products of bf16 have weights of bf16",
        name_of(dtype));
  }
  return dtype;
}

/// Rejects names in `given` that are not in `known`.
void check_known(const std::map<std::string, std::string>& given,
                 const std::set<std::string>& known, const char* option, const char* what) {
  for (const auto& [name, path] : given) {
    if (known.contains(name)) continue;
    throw input_error("{}: found {}, expected {}: {}", option, printable(name), what,
                      known.empty() ? "none of them reads files"
                                    : nearest_or_all(name, {known.begin(), known.end()}));
  }
}

}  // namespace

void CommonOptions::add_to(CLI::App& command) {
  command.add_flag("--json", json, "stdout is JSON");
  command.add_flag("--quiet", quiet, "no progress on stderr");
}

void ModelOptions::add_to(CLI::App& command) {
  command
      .add_option("--model", model,
                  "Hugging Face directory, its name in $TURNBENCH_MODELS or models/, tiny, or "
                  "random:CONFIG.json[:seed]")
      ->required();
  command.add_option("--dtype", dtype, "weights: auto (as stored), f32, f16, bf16");
  command.add_option("--kv-dtype", kv_dtype, "keys and values: f32, f16, bf16");
  command.add_option("--math", math,
                     "factors of products: f32; bf16-linear: bf16 in linear layers; bf16: also in "
                     "attention, if --kv-dtype is bf16");
  command.add_option("--threads", threads, "threads; 0: all processors")
      ->transform(whole_number(0, 1024));
  command.add_option("--device", device, kDeviceHelp);
  command.add_option("--memory-limit", memory_limit_mib, "memory limit in MiB; 0: none")
      ->transform(whole_number(0, kMaxMemoryLimit));
}

DType ModelOptions::kv_type() const {
  return parse_dtype(kv_dtype, "--kv-dtype");
}

LoadedModel load_model(const ModelOptions& options) {
  const std::vector<Device> devices = parse_devices(options.device, "--device");
  Engine::Options engine;
  engine.kv_dtype = options.kv_type();
  const Math math = parse_math(options.math);
  if (options.dtype != "auto") parse_dtype(options.dtype, "--dtype");
  LoadedModel out;
  out.checkpoint = Checkpoint::open(locate_model(options.model));
  out.backends = make_backends(devices, options.threads);
  const std::vector<Backend*> backends = pointers_to(out.backends);
  engine.memory_limit = options.memory_limit_mib << 20;
  const DType dtype = weight_dtype(options, math, out.checkpoint);
  out.model = std::make_unique<Model>(out.checkpoint, backends, dtype, math);
  out.engine = std::make_unique<Engine>(*out.model, backends, engine);
  return out;
}

CLI::Option* ConversationOptions::add_template_to(CLI::App& command) {
  return command.add_option("--template", chat_template,
                            "chat template: one of " + join(chat_template_names(), ", ") +
                                ", or a Jinja file; default: the model's own");
}

CLI::Option* ConversationOptions::add_system_to(CLI::App& command) {
  return command.add_option("--system", system, "system prompt");
}

ChatTemplate ConversationOptions::open(const Tokenizer& tokenizer, const std::string& model) const {
  return open_chat_template(chat_template, place, folder, tokenizer, model);
}

Tokenizer open_model_tokenizer(const std::string& model) {
  return model == "tiny" ? open_tokenizer(Checkpoint::open("tiny"))
                         : Tokenizer::open(locate_model(model));
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
  command.add_option("--model", models, "NAME=DIR: directory of a model of the manifest")
      ->allow_extra_args(false);
  command
      .add_option(
          "--data", data,
          "NAME=PATH: file or directory of a label, task, dataset or collection (longbench)")
      ->allow_extra_args(false);
  command
      .add_option("--workers", workers,
                  "worker processes; 0: threads of this process, by the model's size")
      ->transform(whole_number(0, 1024));
  command
      .add_option("--threads", threads,
                  "threads per worker; 0: the processors divided among the workers")
      ->transform(whole_number(0, 1024));
  command.add_option("--device", device, kDeviceHelp);
  command.add_option("--memory-limit", memory_limit_mib, "memory limit per worker in MiB; 0: none")
      ->transform(whole_number(0, kMaxMemoryLimit));
}

Locations SweepOptions::locations() const {
  return {parse_name_values(models, "--model"), parse_name_values(data, "--data")};
}

void SweepOptions::check_names(std::span<const Manifest> manifests) const {
  std::set<std::string> model_names, names_of_data;
  for (const Manifest& manifest : manifests) {
    for (const ModelEntry& model : manifest.models) model_names.insert(model.name);
    for (std::string& name : data_names(manifest)) names_of_data.insert(std::move(name));
  }
  const Locations given = locations();
  check_known(given.models, model_names, "--model", "a model of the manifest");
  check_known(given.data, names_of_data, "--data", "a dataset or collection of the manifest");
}

RunOptions SweepOptions::run_options() const {
  return {.workers = workers,
          .threads = threads,
          .devices = parse_devices(device, "--device"),
          .memory_limit = memory_limit_mib << 20,
          .processes = workers > 0};
}

Shard parse_shard(const std::string& text) {
  const std::size_t slash = text.find('/');
  if (slash != std::string::npos) {
    const auto index = parse_number<std::int64_t>(text.substr(0, slash)),
               count = parse_number<std::int64_t>(text.substr(slash + 1));
    if (index && count && 1 <= *index && *index <= *count && *count <= kMaxShards)
      return {static_cast<int>(*index), static_cast<int>(*count)};
  }
  throw input_error("--shard: found \"{}\", expected I/N with 1 <= I <= N <= {}",
                    printable(shorten(text, 40)), kMaxShards);
}

void ManifestOptions::add_to(CLI::App& command) {
  command.add_option("--limit", limit, "dialogues per dataset; 0: all")
      ->transform(whole_number(0, 1'000'000'000));
  command.add_option("--shard", shard_text,
                     "I/N: only the units of part I of N, which every machine divides equally");
  sweep.add_to(command);
  command
      .add_flag("--smoke", smoke,
                "run on stand-ins, in seconds: model tiny, short prompts, generated data unless "
                "--data is given; stored as NAME.smoke")
      ->excludes("--model");
}

std::vector<Manifest> ManifestOptions::load(const std::vector<std::string>& paths) const {
  std::vector<Manifest> out;
  for (const std::string& path : paths) out.push_back(load_manifest(locate_manifest(path)));
  std::map<std::string, std::string> places;  // by name
  for (const Manifest& m : out) {
    const auto [other, is_new] = places.emplace(m.name, m.path.string());
    if (is_new) continue;
    throw input_error(
        "{}: /name: found \"{}\" as in {}, expected another name: a store has one "
        "experiment of each name",
        m.path.string(), printable(m.name), other->second);
  }
  sweep.check_names(out);  // before smoke runs replace the datasets
  if (smoke) {
    for (Manifest& manifest : out) manifest = smoke_manifest(manifest, sweep.locations());
  }
  return out;
}

std::optional<Shard> ManifestOptions::shard() const {
  return shard_text ? std::optional(parse_shard(*shard_text)) : std::nullopt;
}

std::vector<std::string> select_experiments(const Store& store,
                                            const std::vector<std::string>& named) {
  for (const std::string& name : named) store.manifest(name);  // throws for an unknown name
  return named.empty() ? store.experiments() : named;
}

std::vector<int> number_list(const std::string& text, const char* option, int min) {
  std::vector<int> out;
  for (const std::string& part : split(text, ",")) {
    const std::string number = trim(part);
    if (number.empty() || number.size() > 7 ||
        number.find_first_not_of("0123456789") != std::string::npos || std::stoi(number) < min) {
      throw input_error("{}: found \"{}\", expected whole numbers from {} on, separated by commas",
                        option, printable(shorten(number.empty() ? text : number, 40)), min);
    }
    out.push_back(std::stoi(number));
  }
  return out;
}

}  // namespace turnbench
