#pragma once

#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "reports/results.h"

namespace turnbench {

/// One cell, or one turn of it, in an entry of a table.
struct TablePart {
  const Cell* cell = nullptr;
  int turn = -1;                       ///< -1: all turns
  const std::string* value = nullptr;  ///< one of `TableSpec::values`
  bool has_reference = true;           ///< false: none of its turns can be scored
};
using TableParts = std::vector<TablePart>;

std::vector<const Cell*> cells_of(const TableParts& parts);
/// The parts with a reference.
TableParts scorable(const TableParts& parts);

/// The rows and columns of a table, and which cells form which entry.  `results` and `spec` must
/// outlive it.
class TableLayout {
 public:
  using Values = std::vector<std::string>;

  TableLayout(const Results& results, const TableSpec& spec);

  const Results& results() const { return results_; }
  const TableSpec& spec() const { return spec_; }
  /// The values of the dimensions of each row and column, in the order of the manifest.
  const std::vector<Values>& rows() const { return rows_; }
  const std::vector<Values>& columns() const { return columns_; }
  /// Empty if no cell belongs to the entry.
  const TableParts& parts(std::size_t row, std::size_t column) const { return parts_[row][column]; }
  /// A cell of each method of the table.
  const std::vector<const Cell*>& methods() const { return methods_; }
  bool by_turn() const { return by_turn_; }
  /// Dimensions over which entries average: those with several values that are neither in rows nor
  /// in columns.
  const Values& averaged() const { return averaged_; }
  std::string dimension(const TablePart& part, const std::string& name) const;
  const Stratum& stratum(const TablePart& part) const {
    return results_.stratum(part.cell->key, part.turn, *part.value);
  }
  /// The datasets and positions over which the entry of a part averages, as one text.
  std::string dialogues_of(const TablePart& part) const;
  /// Those at the place of a part's entry for which any method was planned.
  const Values& expected_dialogues(const TablePart& part) const {
    return expected_.at(place_of_peers(part));
  }

 private:
  void find_unreferenced();
  std::vector<TablePart> all_parts() const;
  Values place_of_peers(const TablePart& part) const;

  const Results& results_;
  const TableSpec& spec_;
  Values named_;  ///< dimensions of rows and columns
  bool by_turn_ = false;
  Values averaged_;
  std::vector<const Cell*> methods_;
  std::vector<Values> rows_, columns_;
  std::vector<std::vector<TableParts>> parts_;  ///< [row][column]
  std::map<Values, Values> expected_;           ///< by place of peers
  /// Datasets (hashes), turns and values.
  std::set<std::tuple<std::string, int, std::string>> unreferenced_;
};

/// Whether a dimension depends on the method alone.
bool is_of_method(const std::string& dimension);

}  // namespace turnbench
