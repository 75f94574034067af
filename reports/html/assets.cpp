#include "reports/html/assets.h"

#include <cstddef>
#include <string_view>

extern "C" {
extern const std::byte turnbench_page_style_begin[], turnbench_page_style_end[];
extern const std::byte turnbench_page_script_begin[], turnbench_page_script_end[];
}

namespace turnbench {
namespace {

std::string_view asset(const std::byte* begin, const std::byte* end) {
  return {reinterpret_cast<const char*>(begin), static_cast<std::size_t>(end - begin)};
}

}  // namespace

std::string page_style() {
  return std::string(asset(turnbench_page_style_begin, turnbench_page_style_end));
}

std::string page_script() {
  return std::string(asset(turnbench_page_script_begin, turnbench_page_script_end));
}

}  // namespace turnbench
