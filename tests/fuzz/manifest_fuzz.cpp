// Fuzzes `plan` and `run --smoke`.  The input determines a manifest (manifest_draw.h), which is
// refused with a one-line error, or planned, run and reported.  After a finding, the manifest
// remains as manifest.json in turnbench_fuzz_PID.
#include "harness/experiment/manifest.h"

#include "common/file.h"
#include "harness/experiment/plan_cost.h"
#include "harness/experiment/smoke.h"
#include "harness/store/store.h"
#include "reports/render.h"
#include "runners/runner.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/manifest_draw.h"

namespace turnbench::fuzz {
namespace {

constexpr std::size_t kMostCells = 12;  // of a manifest that is run, to limit its time

/// The error for an object whose only key is unknown; it lists the known keys.
std::string known_keys(const std::string& where) {
  OrderedJson unknown = {{"qqqqqqqqqqqqqqqq", 1}}, manifest = unknown;
  if (!where.empty()) {
    manifest = {
        {"name", "m"}, {"models", "tiny"}, {"datasets", "tiny-fact"}, {"methods", {"full"}}};
    manifest[where] = OrderedJson::array({unknown});
  }
  try {
    parse_manifest(manifest.dump(), "m");
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

/// Requires that `draw_manifest` can write every key that the reader knows.
void require_every_key() {
  for (const std::string where : {"", "models", "datasets", "tables"}) {
    const std::string message = known_keys(where), list = "expected one of: ";
    const std::size_t at = message.find(list);
    require(at != std::string::npos, message);
    for (const std::string& key : split(message.substr(at + list.size()), ", ")) {
      const std::vector<std::string>& drawn = drawn_keys(where);
      require(std::find(drawn.begin(), drawn.end(), key) != drawn.end(), "not drawn: " + key);
    }
  }
}

/// Files of one input: the manifest, published numbers next to it, a store.
struct Files : InputFile {
  Files() : InputFile("manifest.json") {
    write_file(beside("published.csv"),
               "dataset,method,value,note\nset 1,full,40,\"a, b\"\nset 1 | set 2,mean,7.5,\n");
    require_every_key();
  }
  std::filesystem::path new_store() const {
    for (const char* end : {"", "-wal", "-shm"})
      std::filesystem::remove(beside(std::string("store.db") + end));
    return beside("store.db");
  }
};

/// Plans a manifest as `plan` does.
void plan(const Manifest& manifest) {
  const Plan plan = make_plan(resolve_experiment(manifest, {}, 1));
  PlannedLengths lengths(plan);
  const PlanCost cost = estimate_cost(plan, std::vector{Device{}}, lengths);
  require(cost.units == plan.units.size() || !plan.probe_units.empty(),
          "units that are not planned");
  require(cost.memory.size() == plan.experiment.models.size(), "memory of other models");
}

/// Requires that no unit is left, and that every failure has a one-line reason.
void require_all_done(const Plan& plan, const RunSummary& summary, const Results& results) {
  require(!summary.stopped && summary.progress.units_done == plan.unit_count(), "units left over");
  for (const Store::Failure& failure : results.failures()) {
    const bool is_reason = failure.error.find("found") != std::string::npos &&
                           failure.error.find('\n') == std::string::npos;
    require(is_reason, failure.error);
  }
}

/// Runs a manifest as `run --smoke` does.
void run(const Manifest& manifest, const std::filesystem::path& db) {
  Plan plan = make_plan(resolve_experiment(manifest, {}, 1));
  if (plan.cells.size() > kMostCells) return;
  Store store = Store::create(db);
  store.add_experiment(stored_experiment(plan));
  drop_stored_work(plan, store);
  const RunSummary summary = run_plan(
      plan, store, {.workers = 1, .threads = 1}, [] { return false; }, [](const Progress&) {});
  Results results(store, manifest.name);
  require_all_done(plan, summary, results);
  for (const char* format : {"md", "json", "tex", "html"}) {
    const std::string text = render_report(results, {format, false});
    require(is_valid_utf8(text), text);
  }
  results.keep_table(0);
  for (const bool is_long : {false, true}) {
    const std::string csv = render_report(results, {"csv", is_long});
    require(is_valid_utf8(csv), csv);
  }
  drop_stored_work(plan, store);
  require(plan.unit_count() == 0 || !results.failures().empty(), "done twice");
}

}  // namespace
}  // namespace turnbench::fuzz

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace turnbench;
  static const fuzz::Files files;
  fuzz::Draw draw(fuzz::text_of(data, size));
  write_file(files.path(), fuzz::draw_manifest(draw, "published.csv").dump());
  Manifest manifest;
  bool is_valid = false;
  fuzz::expect_value_or_refusal([&] {
    manifest = load_manifest(files.path());
    is_valid = true;
  });
  if (!is_valid) return 0;
  fuzz::expect_value_or_refusal([&] { fuzz::plan(manifest); });
  fuzz::expect_value_or_refusal([&] {
    const Manifest smoke = smoke_manifest(manifest, {});
    fuzz::run(smoke, files.new_store());
  });
  return 0;
}
