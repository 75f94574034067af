#include "reports/html/assets.h"

#include <cstddef>

extern "C" {
extern const std::byte turnbench_page_style_begin[], turnbench_page_style_end[];
extern const std::byte turnbench_page_tables_begin[], turnbench_page_tables_end[];
extern const std::byte turnbench_page_results_begin[], turnbench_page_results_end[];
extern const std::byte turnbench_page_charts_begin[], turnbench_page_charts_end[];
extern const std::byte turnbench_page_text_begin[], turnbench_page_text_end[];
extern const std::byte turnbench_page_dialogues_begin[], turnbench_page_dialogues_end[];
extern const std::byte turnbench_page_entries_begin[], turnbench_page_entries_end[];
extern const std::byte turnbench_page_print_begin[], turnbench_page_print_end[];
extern const std::byte turnbench_page_page_begin[], turnbench_page_page_end[];
extern const std::byte turnbench_page_update_begin[], turnbench_page_update_end[];
}

namespace turnbench {
namespace {

std::string asset(const std::byte* begin, const std::byte* end) {
  return {reinterpret_cast<const char*>(begin), static_cast<std::size_t>(end - begin)};
}

}  // namespace

std::string page_style() {
  return asset(turnbench_page_style_begin, turnbench_page_style_end);
}

std::string page_script() {
  return "\"use strict\";\n" + asset(turnbench_page_tables_begin, turnbench_page_tables_end) +
         asset(turnbench_page_results_begin, turnbench_page_results_end) +
         asset(turnbench_page_charts_begin, turnbench_page_charts_end) +
         asset(turnbench_page_text_begin, turnbench_page_text_end) +
         asset(turnbench_page_dialogues_begin, turnbench_page_dialogues_end) +
         asset(turnbench_page_entries_begin, turnbench_page_entries_end) +
         asset(turnbench_page_print_begin, turnbench_page_print_end) +
         asset(turnbench_page_page_begin, turnbench_page_page_end);
}

std::string page_update_script() {
  return asset(turnbench_page_update_begin, turnbench_page_update_end);
}

}  // namespace turnbench
