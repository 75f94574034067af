#include "runners/work_queue.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace turnbench {

WorkQueue::WorkQueue(const Plan& plan, std::size_t model, Claims& claims, Parts parts)
    : claims_(claims), splits_(parts == Parts::kCells && plan.experiment.manifest.isolated) {
  for (const Cell& cell : plan.cells) methods_[cell.key] = cell.method_canonical;
  for (const Unit* unit : plan.units_of(model)) units_.push_back(*unit);
  for (const ProbeUnit* unit : plan.probe_units_of(model)) probe_units_.push_back(*unit);
}

bool WorkQueue::has_results(const std::string& cell,
                            const std::vector<const Dialogue*>& dialogues) {
  return std::all_of(dialogues.begin(), dialogues.end(), [&](const Dialogue* dialogue) {
    return claims_.has_results(cell, methods_.at(cell), dialogue->id, dialogue->turns.size());
  });
}

template <typename AnyUnit>
bool WorkQueue::begin(AnyUnit& unit, const std::vector<const Dialogue*>& dialogues,
                      std::deque<AnyUnit>& claimed) {
  if (!claims_.claim(unit.key)) {
    claimed.push_back(std::move(unit));
    return false;
  }
  std::erase_if(unit.cells, [&](const auto& cell) { return has_results(cell.key, dialogues); });
  if (!unit.cells.empty()) return true;
  claims_.release(unit.key);
  ++completed_;
  return false;
}

std::optional<Unit> WorkQueue::take() {
  std::lock_guard lock(mutex_);
  while (parts_.empty() && !units_.empty()) {
    Unit unit = std::move(units_.front());
    units_.pop_front();
    if (!begin(unit, {unit.dialogue}, claimed_units_)) continue;
    if (!splits_) return unit;
    std::vector<Unit> parts = unit.split();
    std::move(parts.begin(), parts.end(), std::back_inserter(parts_));
  }
  if (parts_.empty()) return std::nullopt;
  Unit part = std::move(parts_.front());
  parts_.pop_front();
  return part;
}

std::optional<ProbeUnit> WorkQueue::take_probes() {
  std::lock_guard lock(mutex_);
  while (!probe_units_.empty()) {
    ProbeUnit unit = std::move(probe_units_.front());
    probe_units_.pop_front();
    if (begin(unit, unit.dialogues, claimed_probe_units_)) return unit;
  }
  return std::nullopt;
}

bool WorkQueue::retry_claimed() {
  std::lock_guard lock(mutex_);
  if (units_.empty()) units_.swap(claimed_units_);
  if (probe_units_.empty()) probe_units_.swap(claimed_probe_units_);
  return !units_.empty() || !probe_units_.empty();
}

bool WorkQueue::is_empty() {
  std::lock_guard lock(mutex_);
  return units_.empty() && claimed_units_.empty() && parts_.empty() && probe_units_.empty() &&
         claimed_probe_units_.empty();
}

std::size_t WorkQueue::completed_elsewhere() {
  std::lock_guard lock(mutex_);
  return std::exchange(completed_, 0);
}

}  // namespace turnbench
