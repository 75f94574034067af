#pragma once

#include <string>

namespace turnbench {

/// The style sheet of a page.
std::string page_style();

/// The script of a page.
std::string page_script();

/// The script that a served page has in addition.
std::string page_update_script();

}  // namespace turnbench
