#pragma once

#include <string>

namespace turnbench {

/// The style sheet of a page.
std::string page_style();

/// The script of a page.
std::string page_script();

}  // namespace turnbench
