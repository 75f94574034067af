#include "reports/live_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "common/mean.h"
#include "common/text.h"
#include "reports/escape.h"
#include "reports/number_text.h"

namespace turnbench {
namespace {

constexpr std::size_t kEntryWidth = 8, kLeastLabelWidth = 12;

std::size_t width_of(const std::string& text) {
  return static_cast<std::size_t>(text_width(text));
}

/// Text of exactly `width` characters.
std::string padded(const std::string& text, std::size_t width, bool right) {
  const std::string shown = terminal_line(text, width);
  const std::string spaces(width - std::min(width, width_of(shown)), ' ');
  return right ? spaces + shown : shown + spaces;
}

/// A value of a dimension of the cells, in table order.
class LabelList {
 public:
  void add(const std::string& label) {
    if (std::find(labels_.begin(), labels_.end(), label) == labels_.end()) labels_.push_back(label);
  }
  const std::vector<std::string>& labels() const { return labels_; }
  bool is_several() const { return labels_.size() > 1; }

 private:
  std::vector<std::string> labels_;
};

/// The sums of the scores of each cell.
std::map<std::string, Mean> means_of_cells(const Store& store, const std::string& experiment) {
  std::map<std::string, Mean> out;
  store.for_each_turn(experiment, {}, [&](const StoredTurn& turn) {
    if (turn.status == Record::Status::kOk) out[std::string(turn.cell)].add(turn.score);
  });
  return out;
}

}  // namespace

std::string terminal_line(const std::string& text, std::size_t columns) {
  const std::string line = one_line(text);
  if (width_of(line) <= columns) return line;
  std::string out;
  std::size_t width = 0;
  for (std::size_t at = 0; at < line.size();) {
    const std::size_t start = at;
    next_code_point(line, at);
    const std::string letter = line.substr(start, at - start);
    width += width_of(letter);
    if (width + 1 > columns) break;
    out += letter;
  }
  return columns == 0 ? "" : out + "…";
}

std::vector<std::string> live_table(const Store& store, const std::string& experiment,
                                    std::size_t rows, std::size_t columns) {
  const std::map<std::string, Mean> means = means_of_cells(store, experiment);
  if (means.empty()) return {};
  LabelList models, histories, positions, datasets, methods;
  const std::vector<Cell> cells = store.cells(experiment);
  for (const Cell& cell : cells) {
    models.add(cell.model);
    histories.add(cell.history);
    positions.add(cell.position);
    datasets.add(cell.dataset);
  }
  const bool by_position = positions.is_several();
  const std::vector<std::string>& heads = by_position ? positions.labels() : datasets.labels();
  std::map<std::pair<std::string, std::string>, Mean> entries;
  for (const Cell& cell : cells) {
    const std::string label = (models.is_several() ? cell.model + " " : "") + cell.method +
                              (histories.is_several() ? " " + cell.history : "");
    methods.add(label);
    const auto found = means.find(cell.key);
    if (found != means.end())
      entries[{label, by_position ? cell.position : cell.dataset}].add(100 * found->second.value());
  }
  constexpr const char* kTitle = "means so far, x100";
  std::size_t label_width = width_of(kTitle);
  for (const std::string& label : methods.labels())
    label_width = std::max(label_width, width_of(one_line(label)));
  if (columns < kLeastLabelWidth + kEntryWidth || rows < 2) return {};
  label_width = std::min(label_width, columns - kEntryWidth);
  const std::size_t shown_heads = std::min(heads.size(), (columns - label_width) / kEntryWidth);
  const bool all_fit = methods.labels().size() + 1 <= rows;
  const std::size_t shown_methods = all_fit ? methods.labels().size() : rows - 2;
  std::vector<std::string> out = {padded(kTitle, label_width, false)};
  for (std::size_t h = 0; h < shown_heads; ++h)
    out.front() += padded(" " + heads[h], kEntryWidth, true);
  for (std::size_t m = 0; m < shown_methods; ++m) {
    const std::string& label = methods.labels()[m];
    std::string& line = out.emplace_back(padded(label, label_width, false));
    for (std::size_t h = 0; h < shown_heads; ++h) {
      const auto found = entries.find({label, heads[h]});
      line += padded(found == entries.end() ? "–" : number_text(found->second.value(), 1),
                     kEntryWidth, true);
    }
  }
  if (!all_fit) out.push_back(fmt::format("and {} more", methods.labels().size() - shown_methods));
  return out;
}

}  // namespace turnbench
