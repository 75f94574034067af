#include "harness/store/merge_plans.h"

#include <algorithm>
#include <array>
#include <set>

#include "common/error.h"
#include "common/text.h"
#include "harness/store/cell.h"
#include "harness/store/dialogue_writer.h"
#include "harness/store/packed_text.h"
#include "harness/store/schema.h"

namespace turnbench {
namespace {

/// Copies the rows of a table that `out` does not have.
void copy_new_rows(const Database& from, Database& out, const std::string& table,
                   const std::vector<std::string>& columns) {
  const std::string names = join(columns, ", ");
  Statement read = from.prepare(fmt::format("SELECT {} FROM {}", names, table));
  Statement write =
      out.prepare(fmt::format("INSERT OR IGNORE INTO {} ({}) VALUES ({})", table, names,
                              join(std::vector<std::string>(columns.size(), "?"), ", ")));
  while (read.next()) {
    for (std::size_t c = 0; c < columns.size(); ++c) write << read.view(static_cast<int>(c));
    write.run();
  }
}

constexpr std::array kCellFields = {"model",   "dataset", "position",    "method",   "history",
                                    "answers", "metric",  "postprocess", "protocol", "task"};

/// A field in which two cells differ, and both values: `dataset (3f0a..., 77c1...)`.
std::string differing_field(const Database& db, const std::string& cell, const Database& other_db,
                            const std::string& other) {
  const std::string sql = fmt::format("SELECT {} FROM cell WHERE key = ?", join(kCellFields, ", "));
  Statement a = db.prepare(sql), b = other_db.prepare(sql);
  a << cell;
  b << other;
  if (!a.next() || !b.next()) return "cell";
  for (std::size_t f = 0; f < kCellFields.size(); ++f) {
    const std::string x = a.text(static_cast<int>(f)), y = b.text(static_cast<int>(f));
    if (x != y) return fmt::format("{} ({}, {})", kCellFields[f], printable(y), printable(x));
  }
  return "cell";
}

}  // namespace

std::string cell_label(const Database& store, const std::string& cell) {
  Statement s = store.prepare(
      "SELECT ifnull(e.model, c.model), ifnull(e.dataset, c.dataset), c.position, "
      "ifnull(e.method, c.method) FROM cell c LEFT JOIN experiment_cell e ON e.cell = c.key "
      "WHERE c.key = ? LIMIT 1");
  s << cell;
  if (!s.next()) return cell;
  return printable(fmt::format("{}, {}, {}, {}", s.text(0), s.text(1), s.text(2), s.text(3)));
}

MergedPlans::MergedPlans(Database& out) : out_(out), order_(experiments_of(out)) {
  add_shown(out, order_);
}

void MergedPlans::add_shown(const Database& store, const std::vector<Experiment>& experiments) {
  std::map<std::string, std::string> last;  // tables show the last manifest of a name
  for (const auto& [name, hash] : experiments) last[name] = hash;
  for (const auto& [name, hash] : last) shown_[name].emplace(hash, store.path());
}

std::vector<MergedPlans::Experiment> MergedPlans::experiments_of(const Database& store) {
  std::vector<Experiment> out;
  Statement s = store.prepare("SELECT name, manifest_hash FROM experiment ORDER BY ordinal, name");
  while (s.next()) out.emplace_back(s.text(0), s.text(1));
  return out;
}

void MergedPlans::add(const Database& store) {
  copy_new_rows(store, out_, "environment", {"id", "json"});
  copy_new_rows(store, out_, "protocol", {"id", "json"});
  copy_new_rows(store, out_, "model", {"hash", "description"});
  copy_new_rows(store, out_, "method", {"canonical"});
  add_datasets(store);
  add_dialogues(store);
  copy_new_rows(store, out_, "cell",
                {"key", "model", "dataset", "task", "position", "method", "history", "answers",
                 "metric", "postprocess", "protocol"});
  if (has_judgements(store)) {
    copy_new_rows(store, out_, "judge", {"id", "rubric", "rubric_hash", "rubric_text", "model"});
  }
  add_experiments(store);
}

void MergedPlans::add_datasets(const Database& store) {
  Statement read = store.prepare(
      fmt::format("SELECT d.hash, d.description, {}, EXISTS (SELECT 1 FROM cell c JOIN record r ON "
                  "r.cell = c.key WHERE c.dataset = d.hash) FROM dataset d",
                  has_sources(store) ? "d.sources" : "''"));
  Statement write =
      out_.prepare("INSERT OR IGNORE INTO dataset (hash, description, sources) VALUES (?,?,?)");
  // A store without results may have been planned by any program.
  Statement renew = out_.prepare("UPDATE dataset SET sources = ?2 WHERE hash = ?1");
  while (read.next()) {
    (write << read.view(0) << read.view(1) << read.view(2)).run();
    if (read.integer(3) != 0) (renew << read.view(0) << read.view(2)).run();
  }
}

void MergedPlans::add_dialogues(const Database& store) {
  Statement read =
      store.prepare(fmt::format("SELECT dataset, id, turns, json, {} FROM dialogue",
                                has_dialogue_hashes(store) ? "content, texts" : "'', ''"));
  DialogueWriter writer(out_);
  Statement known = out_.prepare("SELECT turns, json FROM dialogue WHERE dataset = ? AND id = ?");
  while (read.next()) {
    const std::string dataset = read.text(0), id = read.text(1);
    const std::string json = unpacked_text(read, 3);
    if (writer.add(dataset, id, read.integer(2), json, {read.text(4), read.text(5)})) continue;
    known << dataset << id;
    const bool is_same = !known.next() || (known.integer(0) == read.integer(2) &&
                                           is_same_dialogue(unpacked_text(known, 1), json));
    if (!is_same) {
      throw runtime_error(
          "{}: found another text of dialogue {} than in the stores before it, "
          "expected the same: their datasets are both {}",
          store.path(), printable(id), printable(dataset));
    }
    known.reset();
  }
}

void MergedPlans::add_experiments(const Database& store) {
  const std::vector<Experiment> own = experiments_of(store);
  add_shown(store, own);
  Statement read = store.prepare(
      "SELECT title, manifest, directory, published FROM experiment WHERE name = ? AND "
      "manifest_hash = ?");
  Statement known =
      out_.prepare("SELECT published FROM experiment WHERE name = ? AND manifest_hash = ?");
  Statement write = out_.prepare(
      "INSERT INTO experiment (name, manifest_hash, title, manifest, directory, published, "
      "ordinal) VALUES (?,?,?,?,?,?,?)");
  const auto place_of = [&](const Experiment& e) {
    return std::find(order_.begin(), order_.end(), e);
  };
  for (auto experiment = own.begin(); experiment != own.end(); ++experiment) {
    read << experiment->first << experiment->second;
    if (!read.next()) continue;
    if (place_of(*experiment) == order_.end()) {
      (write << experiment->first << experiment->second << read.view(0) << read.view(1)
             << read.view(2) << read.view(3) << static_cast<std::int64_t>(order_.size()))
          .run();
      // Before the first experiment that follows it in its own store, if one is there.
      auto before = order_.end();
      for (auto next = experiment + 1; next != own.end() && before == order_.end(); ++next)
        before = place_of(*next);
      order_.insert(before, *experiment);
    } else {
      known << experiment->first << experiment->second;
      if (known.next() && known.view(0) != read.view(3)) {
        notes_.push_back(
            fmt::format("{}: other published numbers of {} than in the stores before "
                        "it, which are kept",
                        store.path(), printable(experiment->first)));
      }
      known.reset();
    }
    read.reset();
    add_planned_cells(store, *experiment);
    add_imported_cells(store, *experiment);
  }
}

void MergedPlans::add_planned_cells(const Database& store, const Experiment& experiment) {
  Statement read = store.prepare(
      "SELECT ordinal, cell, model, dataset, method FROM experiment_cell WHERE experiment = ? AND "
      "manifest_hash = ? AND ordinal < ?");
  Statement known = out_.prepare(
      "SELECT cell FROM experiment_cell WHERE experiment = ? AND manifest_hash = ? AND ordinal = "
      "?");
  Statement write = out_.prepare(
      "INSERT OR IGNORE INTO experiment_cell (experiment, manifest_hash, ordinal, cell, model, "
      "dataset, method) VALUES (?,?,?,?,?,?,?)");
  read << experiment.first << experiment.second << kFirstImportedOrdinal;
  while (read.next()) {
    const std::int64_t ordinal = read.integer(0);
    const std::string cell = read.text(1);
    (write << experiment.first << experiment.second << ordinal << cell << read.view(2)
           << read.view(3) << read.view(4))
        .run();
    if (out_.changes() > 0) continue;
    known << experiment.first << experiment.second << ordinal;
    if (known.next() && known.view(0) != cell) {
      throw runtime_error(
          "{}: found another cell of the experiment {} at the place of {} than in the stores "
          "before it, expected the same: they differ in {}",
          store.path(), printable(experiment.first), cell_label(store, cell),
          differing_field(store, cell, out_, known.text(0)));
    }
    known.reset();
  }
}

void MergedPlans::add_imported_cells(const Database& store, const Experiment& experiment) {
  std::set<std::pair<std::string, std::string>> listed;  // cells, by their datasets' labels
  std::int64_t next = kFirstImportedOrdinal;
  constexpr const char* kCells =
      "SELECT cell, dataset, model, method, ordinal FROM experiment_cell WHERE experiment = ? AND "
      "manifest_hash = ? ORDER BY ordinal";
  Statement known = out_.prepare(kCells);
  known << experiment.first << experiment.second;
  while (known.next()) {
    listed.emplace(known.text(0), known.text(1));
    next = std::max(next, known.integer(4) + 1);
  }
  Statement read = store.prepare(kCells);
  Statement write = out_.prepare(
      "INSERT INTO experiment_cell (experiment, manifest_hash, ordinal, cell, dataset, model, "
      "method) VALUES (?,?,?,?,?,?,?)");
  read << experiment.first << experiment.second;
  while (read.next()) {
    if (!listed.emplace(read.text(0), read.text(1)).second) continue;
    (write << experiment.first << experiment.second << next++ << read.view(0) << read.view(1)
           << read.view(2) << read.view(3))
        .run();
  }
}

void MergedPlans::note_hidden_manifests() {
  for (const auto& [name, stores] : shown_) {
    if (stores.size() < 2) continue;
    const std::string& shown = name;  // lambdas cannot capture structured bindings
    const auto last = std::find_if(order_.rbegin(), order_.rend(),
                                   [&](const Experiment& e) { return e.first == shown; });
    std::vector<std::string> hidden;
    for (const auto& [hash, store] : stores) {
      if (hash != last->second) hidden.push_back(store);
    }
    notes_.push_back(fmt::format(
        "{}: tables show the manifest of {}, not the other manifests of this name in {}", name,
        stores.contains(last->second) ? stores.at(last->second) : out_.path(), join(hidden, ", ")));
  }
}

void MergedPlans::finish() {
  note_hidden_manifests();
  Statement write = out_.prepare(
      "UPDATE experiment SET ordinal = ?1 WHERE name = ?2 AND manifest_hash = ?3 AND ordinal <> "
      "?1");
  for (std::size_t i = 0; i < order_.size(); ++i)
    (write << static_cast<std::int64_t>(i) << order_[i].first << order_[i].second).run();
}

}  // namespace turnbench
