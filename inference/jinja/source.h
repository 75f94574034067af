#pragma once

#include <string>
#include <string_view>

#include "common/error.h"

namespace turnbench::jinja {

/// A part of a template's text, in bytes.
struct Place {
  std::size_t begin = 0, end = 0;
};

/// A template's text as Jinja2 reads it: line ends are \n, and the last one is gone.
class Source {
 public:
  /// Refuses text that is not UTF-8 or has more than 256 KiB.
  Source(std::string_view text, std::string name);

  std::string_view text() const { return text_; }
  /// "NAME: line N: THE TEXT AT PLACE: MESSAGE"
  Error error(Place place, std::string_view message) const;

 private:
  std::string name_, text_;
};

}  // namespace turnbench::jinja
