#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "common/json.h"
#include "tests/temporary_directory.h"

namespace turnbench::test {

/// A headless Chromium with one page, controlled through its remote-debugging pipe.
class Browser {
 public:
  /// The program on the search path; "" if there is none.
  static std::string program();

  /// @throws std::runtime_error if it does not start.
  Browser();
  ~Browser();
  Browser(const Browser&) = delete;
  Browser& operator=(const Browser&) = delete;

  /// Loads a file into a window of this width.  `scheme`: light or dark, as the system's theme.
  void open(const std::string& file, int width, const std::string& scheme = "light");
  /// The value of a JavaScript expression; a promise is awaited.  An exception counts as an error.
  Json evaluate(const std::string& expression);
  /// Presses and releases a key: "Enter", "ArrowDown", "Escape".
  void press(const std::string& key);
  /// Shows the page as it is printed, with the event that precedes it, or again as on a screen.
  void show_as_printed(bool printed);

  /// Exceptions and console errors since the last `open`.
  const std::vector<std::string>& errors() const { return errors_; }
  /// Requests since the last `open`, other than for the file.
  const std::vector<std::string>& requests() const { return requests_; }

 private:
  Json call(const std::string& method, Json parameters = Json::object());
  Json receive();
  void note(const Json& event);
  void wait_for_load();

  TemporaryDirectory profile_;
  int to_ = -1, from_ = -1, process_ = -1, last_id_ = 0;
  std::string session_, received_, url_;
  bool is_loaded_ = false;
  std::vector<std::string> errors_, requests_;
};

}  // namespace turnbench::test
