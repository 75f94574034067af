#pragma once

#include <string>

#include "reports/answers.h"

namespace turnbench {

// A self-contained page of answers, written in parts: the head, a part for each turn, the end.  It
// has no script, and makes no requests.

std::string answers_page_head(const std::string& experiment);
std::string to_html(const AnsweredTurn& turn);
std::string answers_page_end();

}  // namespace turnbench
