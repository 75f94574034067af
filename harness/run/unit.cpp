#include "harness/run/unit.h"

#include <algorithm>
#include <cstddef>
#include <exception>
#include <iterator>
#include <limits>
#include <list>

#include "common/error.h"
#include "harness/run/unit_runner.h"

namespace turnbench {
namespace {

/// The result of a unit of which all cells fail.
UnitResult failed(const Unit& unit, const Error& error) {
  UnitResult out;
  for (const UnitCell& cell : unit.cells) {
    std::vector<Record> records = failed_records(cell.key, *unit.dialogue, error);
    std::move(records.begin(), records.end(), std::back_inserter(out.records));
  }
  if (error.kind() == ErrorKind::kDevice) out.lost_device = error.what();
  return out;
}

/// The error of `cells` cells that ran together when the device was lost.
Error shared_by(std::size_t cells, const Error& error) {
  if (cells == 1) return error;
  return Error(error.kind(), fmt::format("{} (one of {} cells that ran together is the cause)",
                                         error.what(), cells));
}

/// Returns true if the run stops, after abandoning the units that will not end in time.
bool stops(UnitRunner& runner, const StopTime& stop) {
  const std::optional<Clock::time_point> time = stop ? stop() : std::nullopt;
  if (time) runner.abandon_after(*time);
  return time.has_value();
}

/// The amount of work that memory has room for, as cells times tokens.
class Room {
 public:
  bool has(std::int64_t work) const { return work < least_without_; }
  void failed(std::int64_t work) { least_without_ = std::min(least_without_, work); }

 private:
  std::int64_t least_without_ = std::numeric_limits<std::int64_t>::max();
};

std::int64_t work_of(const Unit& unit, std::size_t cells) {
  return static_cast<std::int64_t>(cells) * estimate_context_tokens(*unit.dialogue);
}
std::int64_t work_of(const Unit& unit) {
  return work_of(unit, unit.cells.size());
}

/// Runs units one at a time.
class UnitsApart {
 public:
  UnitsApart(Engine& engine, const PromptRenderer& renderer, const Decoding& decoding,
             const StopTime& stop, Room& room)
      : engine_(engine), renderer_(renderer), decoding_(decoding), stop_(stop), room_(room) {}

  /// Runs a unit in parts for which there is room.
  UnitResult run(const Unit& unit) {
    const std::size_t cells = unit.cells.size();
    std::size_t parts = 1;
    while (parts < cells && !room_.has(work_of(unit, (cells + parts - 1) / parts))) ++parts;
    return parts == 1 ? run_whole(unit) : run_parts(unit, parts);
  }

  /// Runs the halves of a unit that failed alone.
  UnitResult run_halves(const Unit& unit, const Error& error) {
    const std::size_t cells = unit.cells.size();
    if (cells == 1 || error.kind() == ErrorKind::kDevice)
      return failed(unit, shared_by(cells, error));
    UnitResult out = run_parts(unit, 2);
    if (error.kind() == ErrorKind::kMemory && !out.has(Record::Status::kOutOfMemory))
      room_.failed(work_of(unit));
    return out;
  }

 private:
  UnitResult run_parts(const Unit& unit, std::size_t parts) {
    UnitResult out;
    for (const Unit& part : unit.split(parts)) {
      if (out.lost_device.empty() && !out.abandoned) out.add(run_whole(part));
    }
    return out;
  }

  /// Runs a unit; if that fails, its halves.
  UnitResult run_whole(const Unit& unit) {
    try {
      UnitRunner runner(engine_, renderer_, decoding_);
      runner.add(unit);
      while (!stops(runner, stop_) || !runner.empty()) {
        std::list<ActiveUnit> ended = runner.step();
        if (!ended.empty()) return std::move(ended.front().result);
      }
      UnitResult out;
      out.abandoned = true;
      return out;
    } catch (const std::exception& error) {
      return run_halves(unit, as_error(error));
    }
  }

  Engine& engine_;
  const PromptRenderer& renderer_;
  const Decoding& decoding_;
  const StopTime& stop_;
  Room& room_;
};

}  // namespace

std::int64_t estimate_context_tokens(const Dialogue& dialogue) {
  std::int64_t out = 0;
  for (const Turn& turn : dialogue.turns) {
    std::size_t bytes = turn.question.size() + gold_answer_text(turn).size();
    for (const Paragraph& p : turn.contexts) bytes += p.text.size();
    out += static_cast<std::int64_t>(bytes / 3);
  }
  return out;
}

std::vector<Unit> Unit::split(std::size_t parts) const {
  std::vector<Unit> out;
  const std::size_t count = std::min(parts, cells.size());
  const auto at = [&](std::size_t part) {
    return cells.begin() + static_cast<std::ptrdiff_t>(cells.size() * part / count);
  };
  for (std::size_t i = 0; i < count; ++i)
    out.push_back({dialogue, {at(i), at(i + 1)}, model, dataset, false, key});
  if (!out.empty()) out.back().last_part = last_part;
  return out;
}

void UnitResult::add(UnitResult part) {
  std::move(part.records.begin(), part.records.end(), std::back_inserter(records));
  std::move(part.scores.begin(), part.scores.end(), std::back_inserter(scores));
  prefilled_tokens += part.prefilled_tokens;
  decoded_tokens += part.decoded_tokens;
  engine_seconds += part.engine_seconds;
  if (lost_device.empty()) lost_device = std::move(part.lost_device);
  abandoned |= part.abandoned;
  if (batch_error.empty()) batch_error = std::move(part.batch_error);
}

bool UnitResult::has(Record::Status status) const {
  return std::any_of(records.begin(), records.end(),
                     [&](const Record& r) { return r.status == status; });
}

std::vector<Record> failed_records(const std::string& cell, const Dialogue& dialogue,
                                   const Error& error) {
  std::vector<Record> out;
  for (std::size_t t = 0; t < dialogue.turns.size(); ++t) {
    Record r;
    r.cell = cell;
    r.dialogue = dialogue.id;
    r.turn = static_cast<int>(t);
    r.status =
        error.kind() == ErrorKind::kMemory ? Record::Status::kOutOfMemory : Record::Status::kError;
    r.error = error.what();
    out.push_back(std::move(r));
  }
  return out;
}

void run_units(Engine& engine, const PromptRenderer& renderer, const Decoding& decoding,
               const UnitSource& source, const std::function<void(const Unit&, UnitResult)>& done,
               const StopTime& stop) {
  Room room;
  UnitsApart apart(engine, renderer, decoding, stop, room);
  UnitRunner runner(engine, renderer, decoding);
  // Returns false if the run ends.
  const auto deliver = [&](const Unit& unit, UnitResult result) {
    if (result.abandoned) return false;
    const bool lost = !result.lost_device.empty();
    done(unit, std::move(result));
    return !lost;
  };
  std::optional<Unit> waiting;
  for (bool more = true;;) {
    if (more && !waiting && (source.request() || runner.is_due())) {
      waiting = source.next();
      more = waiting.has_value();
    }
    if (!waiting && runner.empty()) return;
    if (stops(runner, stop)) {
      waiting.reset();
      more = false;
      if (runner.empty()) return;
    }
    if (waiting && runner.empty() && !room.has(work_of(*waiting))) {
      if (!deliver(*waiting, apart.run(*waiting))) return;
      waiting.reset();
      continue;
    }
    std::int64_t work = 0;
    for (const ActiveUnit& unit : runner.active()) work += work_of(unit.unit);
    if (waiting && runner.has_room(*waiting) && room.has(work + work_of(*waiting))) {
      work += work_of(*waiting);
      runner.add(std::move(*waiting));
      waiting.reset();
    }
    std::list<ActiveUnit> ended;
    std::optional<Error> failure;
    try {
      ended = runner.step();
    } catch (const std::exception& error) {
      failure = as_error(error);
    }
    for (ActiveUnit& unit : ended) done(unit.unit, std::move(unit.result));
    if (!failure) continue;
    const std::vector<Unit> units = runner.abandon();
    if (failure->kind() == ErrorKind::kDevice) {
      std::size_t cells = 0;
      for (const Unit& unit : units) cells += unit.cells.size();
      for (const Unit& unit : units) done(unit, failed(unit, shared_by(cells, *failure)));
      return;
    }
    const bool lacks_memory = failure->kind() == ErrorKind::kMemory;
    bool fit_alone = units.size() > 1 && lacks_memory, fails_alone = lacks_memory;
    for (const Unit& unit : units) {
      UnitResult result = units.size() == 1 ? apart.run_halves(unit, *failure) : apart.run(unit);
      fit_alone &= !result.has(Record::Status::kOutOfMemory);
      fails_alone |= result.has(Record::Status::kError);
      if (&unit == &units.back() && !fails_alone) result.batch_error = failure->what();
      if (!deliver(unit, std::move(result))) return;
    }
    if (fit_alone) room.failed(work);
  }
}

UnitResult run_units(Engine& engine, const PromptRenderer& renderer, const Decoding& decoding,
                     const std::vector<Unit>& units, const StopTime& stop) {
  UnitResult out;
  auto unit = units.begin();
  run_units(
      engine, renderer, decoding,
      {[&] { return unit == units.end() ? std::nullopt : std::optional(*unit++); }},
      [&](const Unit&, UnitResult result) { out.add(std::move(result)); }, stop);
  return out;
}

}  // namespace turnbench
