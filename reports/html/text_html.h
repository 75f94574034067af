#pragma once

#include <string>

namespace turnbench {

/// A label, which a narrow column may break after a colon or a comma.
std::string label_html(const std::string& text);

/// A paragraph of remarks; "" for no text.
std::string note_html(const std::string& text);

/// A text that is shown when its summary is opened.
std::string details_html(const std::string& summary, const std::string& text);

}  // namespace turnbench
