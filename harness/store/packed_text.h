#pragma once

#include <string>
#include <string_view>

#include "harness/store/sqlite.h"

namespace turnbench {

// Long texts are stored compressed by Zstandard, as blobs.  Short texts, and those that do not
// become smaller, are stored as text, which any SQLite program shows.

/// A text in the form in which it is stored.  Binds it with `<<`.
class PackedText {
 public:
  explicit PackedText(std::string_view text);
  friend Statement& operator<<(Statement& statement, const PackedText& text);

 private:
  std::string_view text_;
  std::string compressed_;  ///< empty if the text is stored as it is
};

/// The size of such a text in bytes; 0 if it cannot be decompressed.
std::size_t unpacked_size(const Statement& row, int column);

/// The text in a column that `PackedText` was bound to.
/// @throws Error (input) if it cannot be decompressed
std::string unpacked_text(const Statement& row, int column);

}  // namespace turnbench
