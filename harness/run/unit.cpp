#include "harness/run/unit.h"

#include <iterator>
#include <list>
#include <new>

#include "common/error.h"
#include "harness/run/unit_runner.h"

namespace turnbench {
namespace {

Error no_memory() {
  return memory_error("the system has no more memory");
}

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

/// Runs a unit alone, after it failed together with others; if it fails again, its cells one by
/// one.
UnitResult run_apart(Engine& engine, const PromptRenderer& renderer, const Decoding& decoding,
                     const Unit& unit, const StopTime& stop) {
  const auto fail = [&](const Error& error) {
    if (unit.cells.size() == 1) return failed(unit, error);
    if (error.kind() == ErrorKind::kDevice)
      return failed(unit, shared_by(unit.cells.size(), error));
    UnitResult out;
    for (const Unit& part : unit.split()) {
      if (out.lost_device.empty() && !out.abandoned)
        out.add(run_apart(engine, renderer, decoding, part, stop));
    }
    return out;
  };
  try {
    UnitRunner runner(engine, renderer, decoding);
    runner.add(unit);
    while (!stops(runner, stop) || !runner.empty()) {
      std::list<ActiveUnit> ended = runner.step();
      if (!ended.empty()) return std::move(ended.front().result);
    }
    UnitResult out;
    out.abandoned = true;
    return out;
  } catch (const Error& error) {
    return fail(error);
  } catch (const std::bad_alloc&) {
    return fail(no_memory());
  }
}

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

std::vector<Unit> Unit::split() const {
  std::vector<Unit> out;
  for (const UnitCell& cell : cells) out.push_back({dialogue, {cell}, model, dataset, false, key});
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
               const std::function<std::optional<Unit>()>& next,
               const std::function<void(const Unit&, UnitResult)>& done, const StopTime& stop) {
  UnitRunner runner(engine, renderer, decoding);
  std::optional<Unit> waiting = next();
  while (waiting || !runner.empty()) {
    if (stops(runner, stop)) {
      waiting.reset();
      if (runner.empty()) return;
    }
    if (waiting && runner.has_room(*waiting)) {
      runner.add(std::move(*waiting));
      waiting = next();
    }
    std::list<ActiveUnit> ended;
    std::optional<Error> failure;
    try {
      ended = runner.step();
    } catch (const Error& error) {
      failure = error;
    } catch (const std::bad_alloc&) {
      failure = no_memory();
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
    for (const Unit& unit : units) {
      const bool alone = units.size() == 1 && unit.cells.size() == 1;
      UnitResult result =
          alone ? failed(unit, *failure) : run_apart(engine, renderer, decoding, unit, stop);
      if (result.abandoned) return;
      const bool lost = !result.lost_device.empty();
      done(unit, std::move(result));
      if (lost) return;
    }
  }
}

UnitResult run_units(Engine& engine, const PromptRenderer& renderer, const Decoding& decoding,
                     const std::vector<Unit>& units, const StopTime& stop) {
  UnitResult out;
  auto unit = units.begin();
  run_units(
      engine, renderer, decoding,
      [&] { return unit == units.end() ? std::nullopt : std::optional(*unit++); },
      [&](const Unit&, UnitResult result) { out.add(std::move(result)); }, stop);
  return out;
}

}  // namespace turnbench
