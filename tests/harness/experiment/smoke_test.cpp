// The smoke run of a manifest: the replaced, the shortened and the unchanged parts.

#include "harness/experiment/smoke.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>

#include "common/error.h"
#include "datasets/catalog.h"
#include "harness/experiment/experiment.h"
#include "harness/experiment/plan.h"
#include "tests/temporary_directory.h"

namespace turnbench {
namespace {

constexpr const char* kSmokeManifest = R"({
  "name": "paper", "title": "A paper's table", "description": "Of the paper.",
  "models": [{"name": "large", "path": "/models/large", "dtype": "bf16"}, "larger"],
  "datasets": [
    {"name": "mt-hotpotqa", "label": "Hotpot", "limit": 500},
    {"name": "mt-gov_report", "label": "Reports"},
    {"name": "trec", "task": "few shots"},
    {"name": "passage_count", "label": "Count"},
    {"name": "multifieldqa_zh", "label": "Chinese"},
    {"name": "lcc", "source": "files/lcc.jsonl", "metric": "code_sim_levenshtein"},
    {"name": "tiny-hop", "label": "hop-8000", "length": 8000, "turns": 3, "seed": 4},
    {"name": "tiny-hop", "label": "hop-9000", "length": 9000},
    {"name": "tiny-hop", "label": "hop-100", "length": 100}
  ],
  "positions": ["begin", "end"],
  "methods": [
    "full",
    "snapkv:budget=96", "snapkv:budget=1024", "snapkv:budget=2048", "snapkv:budget=4096",
    "snapkv:budget=20%", {"name": "a-shape", "n_local": 896},
    "loopserve", "critiprefill", "minference+oracle:budget=512,placement=host,cache_tokens=256"
  ],
  "history": ["reprefill", "recompress"], "answers": "gold", "seed": 7, "max_new_tokens": 512,
  "system_prompt": "You are a helpful assistant.",
  "tables": [{"title": "T", "rows": ["model", "method"], "columns": ["dataset"], "difference_to": "snapkv:budget=1024"}],
  "published": "table.csv"})";

Manifest paper() {
  Manifest out = parse_manifest(kSmokeManifest, "paper.json");
  out.path = "/experiments/paper.json";
  return out;
}

const DatasetEntry& dataset(const Manifest& m, const std::string& label) {
  for (const DatasetEntry& d : m.datasets)
    if (d.label == label) return d;
  throw input_error("no dataset {}", label);
}

const Method& method(const Manifest& m, const std::string& label) {
  for (const Method& each : m.methods)
    if (each.label() == label) return each;
  throw input_error("no method {}", label);
}

/// The smoke run of a manifest with these methods.
Manifest smoke_of(const std::string& methods) {
  return smoke_manifest(
      parse_manifest(R"({"name": "n", "models": ["tiny"], "datasets": ["tiny-fact"], "methods": )" +
                         methods + "}",
                     "m.json"),
      {});
}

std::string setting(const Manifest& m, const std::string& label,
                    const std::string& name = "budget") {
  return *method(m, label).setting(name);
}

TEST(Smoke, LayersAreThoseOfTheEmbeddedModel) {
  const Manifest m = smoke_of(R"([
    {"label": "some", "method": "kascade-decode:anchors=0/1/2/9"},
    {"label": "none", "method": "omnikv:filters=8/18"},
    {"label": "auto", "method": "omnikv"}])");
  EXPECT_EQ(setting(m, "some", "anchors"), "0/1/2");
  EXPECT_EQ(setting(m, "none", "filters"), "2");
  EXPECT_EQ(setting(m, "auto", "filters"), "auto");
}

// Files for the layers or heads of a model do not fit another one.
TEST(Smoke, LeavesOutFilesOfAnotherModel) {
  const test::TemporaryDirectory directory;
  directory.write("map.json", R"({"anchors": [0, 5], "heads": [[0], [0], [0], [0], [0], [0]]})");
  const Manifest m = load_manifest(directory.write("m.json", R"({
    "name": "n", "models": ["m"], "datasets": ["tiny-fact"],
    "methods": ["kascade-decode:map=map.json"]})"));
  EXPECT_EQ(smoke_manifest(m, {}).methods[0].setting("map"), "none");
}

// Also for methods in probes, and in the smoke run.
TEST(Smoke, ResolvesMethodFilesRelativeToTheManifest) {
  const test::TemporaryDirectory directory;
  directory.write("costs.json", R"({"prefill_base": 0, "prefill_token": 1, "prefill_pair": 0,
                                    "cluster_base": 0, "cluster_token": 1})");
  const Manifest m = load_manifest(directory.write("m.json", R"({
    "name": "adaptive", "models": ["tiny"], "datasets": ["tiny-fact"],
    "methods": ["pqcache:max_iter=0,costs=costs.json"],
    "probes": ["recall:method=pqcache:max_iter=0,costs=costs.json"]})"));
  EXPECT_NO_THROW(m.methods[0].make());
  EXPECT_NO_THROW(m.probes[0].method()->make());
  const Manifest smoke = smoke_manifest(m, {});
  EXPECT_EQ(smoke.methods[0].setting("costs"), m.methods[0].setting("costs"));
}

// The heads of tiny have 32 dimensions.
TEST(Smoke, ReadsPartOfAQueryAndEncodesOldTokens) {
  const Manifest m = smoke_manifest(parse_manifest(R"({
    "name": "m", "models": ["tiny"], "datasets": ["tiny-fact"],
    "methods": ["rocketkv:r=128", "sparq:r=8", "rocketkv", "kivi:residual=4096"]})",
                                                   "m.json"),
                                    {});
  EXPECT_EQ(m.methods[0].setting("r"), "16");
  EXPECT_EQ(m.methods[1].setting("r"), "8");
  EXPECT_EQ(m.methods[2].setting("r"), "0") << "from the budget";
  EXPECT_EQ(m.methods[3].setting("residual"), "128") << "the prompts are longer";
}

TEST(Smoke, IsASeparateManifest) {
  const Manifest small = smoke_manifest(paper(), {});
  EXPECT_EQ(small.name, "paper.smoke");
  EXPECT_EQ(small.title, "Smoke run of: A paper's table");
  EXPECT_NE(small.smoke.find("Smoke run on stand-ins"), std::string::npos);
  EXPECT_TRUE(small.description.starts_with(small.smoke)) << small.description;
  EXPECT_NE(small.description.find("Hotpot by tiny-"), std::string::npos) << small.description;
  EXPECT_EQ(small.path, "/experiments/paper.json") << "its published numbers lie there";
  EXPECT_EQ(small.system_prompt, "") << "which tiny's template refuses";
  // The text in the store parses to the same manifest.
  const Manifest again = parse_manifest(small.text, "store");
  EXPECT_EQ(again.name, small.name);
  EXPECT_EQ(again.smoke, small.smoke);
  EXPECT_EQ(again.methods.size(), small.methods.size());
}

TEST(Smoke, KeepsParametersUsedInTables) {
  const Manifest large = paper(), small = smoke_manifest(large, {});
  EXPECT_EQ(small.positions, large.positions);
  EXPECT_EQ(small.histories, large.histories);
  EXPECT_EQ(small.answers, large.answers);
  EXPECT_EQ(small.seed, 7u);
  EXPECT_EQ(small.published, "table.csv");
  EXPECT_EQ(small.tables[0].difference_to, (std::vector<BaselineRule>{{"snapkv:budget=1024"}}));
  ASSERT_EQ(small.models.size(), 2u);
  EXPECT_EQ(small.models[0].name, "large");
  EXPECT_EQ(small.models[1].name, "larger");
  for (const ModelEntry& m : small.models) {
    EXPECT_EQ(m.path, "tiny");
    EXPECT_EQ(m.dtype, "auto");
  }
  for (const DatasetEntry& d : small.datasets) {
    const DatasetEntry& real = dataset(large, d.label);
    EXPECT_EQ(d.task, real.task.empty() ? find_dataset(real.name, "").task : real.task);
  }
}

// Stand-ins have answers of the same form, and a metric that can score them.
TEST(Smoke, ReplacesDatasetsWithoutFiles) {
  const Manifest small = smoke_manifest(paper(), {});
  const struct {
    const char *label, *name, *metric;
    int turns;
  } want[] = {{"Hotpot", "tiny-fact", "qa_f1", 2},
              {"Reports", "tiny-list", "rouge_l_recall", 2},
              {"trec", "tiny-label", "classification", 1},
              {"Count", "tiny-hop", "qa_f1", 1},
              {"Chinese", "tiny-fact", "qa_f1", 1}};
  for (const auto& w : want) {
    const DatasetEntry& d = dataset(small, w.label);
    EXPECT_EQ(d.name, w.name) << w.label;
    EXPECT_EQ(d.metric, w.metric) << w.label;
    EXPECT_EQ(d.turns, w.turns) << w.label;
    EXPECT_EQ(d.limit, 1u) << w.label;
    EXPECT_LE(d.length, 220) << w.label;
  }
}

// Labels with the same stand-in are equal, also those of models: their cells are shown, but
// computed once.
TEST(Smoke, ComputesEachStandInOnce) {
  const Manifest one = parse_manifest(R"({"name": "m", "models": ["large"],
    "datasets": ["hotpotqa", "trec", "qmsum"], "positions": ["begin", "end"],
    "methods": ["full", "snapkv"], "probes": ["coverage"]})",
                                      "m.json");
  const Manifest all = parse_manifest(R"({"name": "m", "models": [
      "large", {"name": "plain", "template": "none", "kv_dtype": "bf16"}],
    "datasets": ["hotpotqa", "trec", "qmsum", "lsht", "qasper", "gov_report"],
    "positions": ["begin", "end"], "methods": ["full", "snapkv"], "probes": ["coverage"]})",
                                      "m.json");
  const auto plan_of = [](const Manifest& m) {
    return make_plan(resolve_experiment(smoke_manifest(m, {}), {}, 0));
  };
  const Plan once = plan_of(one), shown = plan_of(all);
  EXPECT_EQ(once.units.size(), 3u * 2);
  EXPECT_EQ(once.cells.size(), 3u * 2 * 3);
  EXPECT_EQ(shown.cells.size(), 2u * 6 * 2 * 3);
  EXPECT_EQ(shown.unit_count(), once.unit_count());
  EXPECT_TRUE(shown.units_of(1).empty());
  std::set<std::string> keys, labels;
  for (const Cell& cell : shown.cells) {
    keys.insert(cell.key);
    labels.insert(cell.model + " " + cell.dataset);
  }
  EXPECT_EQ(keys.size(), once.cells.size());
  EXPECT_EQ(labels.size(), 2u * 6);
}

TEST(Smoke, KeepsDatasetsWithFiles) {
  Locations locations;
  locations.data["longbench"] = "/data/longbench";
  for (const bool given : {false, true}) {
    const Manifest small = smoke_manifest(paper(), given ? locations : Locations{});
    const DatasetEntry &report = dataset(small, "Reports"), &code = dataset(small, "lcc");
    EXPECT_EQ(report.name, given ? "mt-gov_report" : "tiny-list");
    EXPECT_EQ(report.limit, 1u);
    EXPECT_EQ(code.name, "lcc") << "the manifest names its file";
    EXPECT_EQ(code.source, "files/lcc.jsonl");
    EXPECT_EQ(code.metric, "code_sim_levenshtein");
    EXPECT_EQ(code.length, 0);
  }
}

// One folder for each length, say.
TEST(Locations, ATaskOfTheManifestNamesData) {
  const Manifest m = parse_manifest(R"({"name": "n", "models": ["tiny"], "methods": ["full"],
      "datasets": [{"name": "ruler-vt", "label": "4K vt", "task": "4K"},
                   {"name": "ruler-vt", "label": "8K vt", "task": "8K"}, "ruler-cwe"]})",
                                    "m.json");
  Locations locations;
  locations.data = {{"4K", "/data/4096"}, {"ruler", "/data/other"}, {"8K vt", "/data/8192"}};
  std::vector<std::string> found;
  for (const DatasetEntry& entry : m.datasets) found.push_back(locations.dataset_path(entry, m));
  EXPECT_EQ(found, (std::vector<std::string>{"/data/4096", "/data/8192", "/data/other"}));
}

TEST(Smoke, KeepsTheTurnsOfRecords) {
  Manifest m = parse_manifest(
      R"({"name": "n", "models": ["tiny"], "methods": ["full"], "datasets": ["gsm8k", "sharegpt"]})",
      "m.json");
  Locations locations;
  locations.data["gsm8k"] = "/data/gsm8k";
  const Manifest small = smoke_manifest(m, locations);
  EXPECT_EQ(dataset(small, "gsm8k").name, "gsm8k");
  EXPECT_EQ(dataset(small, "gsm8k").turns, 0);
  EXPECT_EQ(dataset(small, "sharegpt").turns, 1) << "replaced";
}

TEST(Smoke, ShortensGeneratedDatasets) {
  const Manifest small = smoke_manifest(paper(), {});
  const DatasetEntry& d = dataset(small, "hop-8000");
  EXPECT_EQ(d.name, "tiny-hop");
  EXPECT_EQ(d.length, 220);
  EXPECT_EQ(d.turns, 2);
  EXPECT_EQ(d.seed, 4u);
  EXPECT_EQ(dataset(small, "hop-100").length, 100);
}

// Instructions and questions of a record are never truncated: the prompt must have room for them.
TEST(Smoke, ShortensPromptsAndLeavesRoomForRecords) {
  EXPECT_EQ(smoke_manifest(paper(), {}).max_prompt_tokens, 2048) << "lcc is read from its file";
  std::string text = kSmokeManifest;
  text.replace(text.find("\"source\": \"files/lcc.jsonl\", "), 29, "");
  Manifest synthetic = parse_manifest(text, "paper.json");
  EXPECT_EQ(smoke_manifest(synthetic, {}).max_prompt_tokens, 300);
  EXPECT_EQ(smoke_manifest(synthetic, {{}, {{"longbench", "files"}}}).max_prompt_tokens, 2048);
}

// Some datasets have a minimum length, which they get.
TEST(Smoke, EveryGeneratedDatasetCanBeBuilt) {
  OrderedJson json = {{"name", "m"}, {"models", {"tiny"}}, {"methods", {"full"}}};
  for (const Dataset& d : all_datasets()) {
    if (!d.has_length) continue;
    json["datasets"].push_back({{"name", d.name}, {"label", "long " + d.name}});
    json["datasets"].push_back({{"name", d.name}, {"label", "short " + d.name}, {"length", 1}});
  }
  const Manifest small = smoke_manifest(parse_manifest(json.dump(), "m.json"), {});
  EXPECT_EQ(small.datasets.size(), json["datasets"].size());
  for (const DatasetEntry& d : small.datasets) {
    ResolvedDataset made;
    ASSERT_NO_THROW(made = resolve_dataset(d, small, {}, 0)) << d.label;
    EXPECT_EQ(made.dialogues.size(), 1u);
    EXPECT_EQ(static_cast<int>(made.dialogues[0].turns.size()), d.turns);
    const bool is_list = d.name.ends_with("-words");
    EXPECT_LE(d.length, is_list ? 1400 : 400) << d.label;
  }
}

// Of a sweep, the first and last values remain, and the values that a table compares with.
TEST(Smoke, CutsSweeps) {
  std::vector<std::string> labels;
  const Manifest small = smoke_manifest(paper(), {});
  for (const Method& m : small.methods) labels.push_back(m.label());
  EXPECT_EQ(labels, (std::vector<std::string>{
                        "full", "snapkv:budget=96", "snapkv:budget=1024", "snapkv:budget=4096",
                        "snapkv:budget=20%", "a-shape:n_local=896", "loopserve", "critiprefill",
                        "minference+oracle:budget=512,placement=host,cache_tokens=256"}));
  EXPECT_EQ(small.datasets.size(), 8u);
  EXPECT_THROW(dataset(small, "hop-9000"), Error);
}

// Tables can then be viewed with the numbers of the paper.
TEST(Smoke, KeepsSettingsWithPublishedNumbers) {
  const test::TemporaryDirectory directory;
  directory.write("table.csv",
                  "method,dataset,value\n\"snapkv:budget=2048 | snapkv:budget=512\",hop-9000,1\n");
  Manifest m = paper();
  m.path = directory.path("paper.json");
  const Manifest small = smoke_manifest(m, {});
  EXPECT_NO_THROW(method(small, "snapkv:budget=2048"));
  EXPECT_NO_THROW(dataset(small, "hop-9000"));
  EXPECT_EQ(small.methods.size(), 10u);
}

// Settings up to 64 tokens do not change; larger ones are scaled to have an effect on prompts of
// 300 tokens, in the same order.
TEST(Smoke, ShrinksBudgetsBelowThePrompt) {
  const Manifest small = smoke_manifest(paper(), {});
  const auto value = [&](const std::string& label, const std::string& name) {
    return method(small, label).parts()[0].parameters.values().find(name)->second;
  };
  EXPECT_EQ(value("snapkv:budget=96", "budget"), "73");
  EXPECT_EQ(value("snapkv:budget=96", "window"), "32");
  EXPECT_EQ(value("snapkv:budget=1024", "budget"), "128");
  EXPECT_EQ(value("snapkv:budget=4096", "budget"), "160");
  EXPECT_EQ(value("snapkv:budget=20%", "budget"), "138") << "of 8,192 tokens";
  EXPECT_EQ(value("a-shape:n_local=896", "n_local"), "124");
  EXPECT_EQ(value("a-shape:n_local=896", "n_init"), "80");
  EXPECT_EQ(value("loopserve", "budget"), "128");
  EXPECT_EQ(value("loopserve", "first"), "16");
  EXPECT_GT(small.max_new_tokens, 16) << "so that LoopServe selects";
  const Method& composed = small.methods.back();
  EXPECT_EQ(composed.name(), "minference+oracle");
  EXPECT_EQ(composed.parts()[0].parameters.values().find("slash")->second, "144");
  EXPECT_TRUE(composed.make().placement.host);
  EXPECT_EQ(composed.make().placement.cache_tokens, 256);
}

// MInference requires at least 100 diagonals.
TEST(Smoke, ShrinksWithinTheRangesOfParameters) {
  const Manifest small = smoke_of(R"([
      "minference:vertical=96,slash=100", "minference:vertical=128,slash=384"])");
  EXPECT_EQ(setting(small, "minference:vertical=96,slash=100", "vertical"), "73");
  EXPECT_EQ(setting(small, "minference:vertical=96,slash=100", "slash"), "100");
  EXPECT_EQ(setting(small, "minference:vertical=128,slash=384", "slash"), "105");
}

// rkv accepts an interval with mode=dynamic only.
TEST(Smoke, KeepsParametersWithoutEffect) {
  const Manifest small = smoke_of(R"([
      "rkv:budget=32", "rkv:budget=32,mode=prefill"])");
  EXPECT_EQ(setting(small, "rkv:budget=32", "interval"), "80");
  EXPECT_EQ(setting(small, "rkv:budget=32,mode=prefill", "interval"), "128");
}

// A budget must exceed the window.
TEST(Smoke, KeepsTheOrderOfSettings) {
  const Manifest small = smoke_of(R"([
      "snapkv:budget=66,window=65", "snapkv:budget=200,window=199"])");
  EXPECT_EQ(setting(small, "snapkv:budget=66,window=65", "window"), "65");
  EXPECT_EQ(setting(small, "snapkv:budget=66,window=65", "budget"), "66");
  EXPECT_EQ(setting(small, "snapkv:budget=200,window=199", "window"), "90");
  EXPECT_EQ(setting(small, "snapkv:budget=200,window=199", "budget"), "91");
}

// A ratio budget has an effect on a short prompt as on a long one, where it is larger than the
// window.
TEST(Smoke, ShrinksRatiosLikeTheirTokens) {
  const Manifest small = smoke_of(R"([
      "snapkv:budget=1/4", "snapkv:budget=0.2", "snapkv:budget=25%,window=64", "snapkv:budget=1/10",
      "chunkkv:budget=1.0", "snapkv:budget=2049", "h2o:budget=0.2,recent=1/4",
      "tova:budget=1/200", "tova:budget=0.00001"])");
  EXPECT_EQ(setting(small, "snapkv:budget=1/4"), "144");
  EXPECT_EQ(setting(small, "snapkv:budget=0.2"), "138");
  EXPECT_EQ(setting(small, "snapkv:budget=25%,window=64"), "144");
  EXPECT_EQ(setting(small, "snapkv:budget=1/10"), "122");
  EXPECT_EQ(setting(small, "chunkkv:budget=1.0"), "100%") << "all is all";
  EXPECT_EQ(setting(small, "snapkv:budget=2049"), "145") << "not what a quarter is";
  EXPECT_EQ(setting(small, "h2o:budget=0.2,recent=1/4", "recent"), "0.25")
      << "a share of the budget";
  EXPECT_EQ(setting(small, "tova:budget=1/200"), "40");
  EXPECT_EQ(setting(small, "tova:budget=0.00001"), "1");
}

// No setting in tokens tells them apart: their stand-ins are computed once, and shown twice.
TEST(Smoke, EqualStandInsKeepTheirLabels) {
  const Manifest small = smoke_manifest(
      parse_manifest(R"({"name": "n", "models": ["tiny"], "datasets": ["tiny-fact"], "methods": [
      "quest:budget=64,dense_layers=2", "quest:budget=64,dense_layers=3", "round:lw=2", "round:lw=3"],
      "probes": ["recall:method=quest:budget=64,dense_layers=2",
                 "recall:method=quest:budget=64,dense_layers=3"]})",
                     "m.json"),
      {});
  ASSERT_EQ(small.methods.size(), 4u);
  EXPECT_EQ(small.methods[0].canonical(), small.methods[1].canonical());
  EXPECT_NE(small.methods[0].label(), small.methods[1].label());
  ASSERT_EQ(small.probes.size(), 2u);
  const Plan plan = make_plan(resolve_experiment(small, {}, 0));
  EXPECT_EQ(plan.cells.size(), 6u);
  for (const Unit& unit : plan.units) EXPECT_EQ(unit.cells.size(), 2u);
  EXPECT_NO_THROW(parse_manifest(small.text, "store"));
}

TEST(Smoke, KeepsTheTimeOfEviction) {
  const Manifest small = smoke_of(R"([
      "snapkv:budget=256", "snapkv:budget=256,compress=before_question"])");
  const auto budget = [&](std::size_t i) { return small.methods[i].setting("budget"); };
  EXPECT_EQ(budget(0), budget(1));
  EXPECT_EQ(small.methods[0].setting("compress"), "prompt");
  EXPECT_EQ(small.methods[1].setting("compress"), "before_question");
}

TEST(Smoke, KeepsBlocksWithinAPrompt) {
  const Manifest small = smoke_of(R"([
      "snapkv:budget=256,compress_block=2048", "snapkv:budget=256,compress_block=512",
      "keydiff:budget=256,compress_block=48"])");
  const auto block = [&](std::size_t i) {
    return std::stoi(small.methods.at(i).setting("compress_block").value());
  };
  EXPECT_LT(block(0), 200);
  EXPECT_LT(block(1), block(0));
  EXPECT_LT(64, block(1));
  EXPECT_EQ(block(2), 48);
  EXPECT_EQ(small.methods[0].setting("budget"), small.methods[1].setting("budget"));
}

}  // namespace
}  // namespace turnbench
