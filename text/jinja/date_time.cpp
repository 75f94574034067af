#include "text/jinja/date_time.h"

#include <fmt/chrono.h>

#include <algorithm>

#include "common/text.h"
#include "text/jinja/budget.h"

namespace turnbench::jinja {
namespace {

std::tm calendar_time(const DateTime& time) {
  using std::chrono::sys_days;
  const std::chrono::year_month_day date{std::chrono::year(time.year),
                                         std::chrono::month(static_cast<unsigned>(time.month)),
                                         std::chrono::day(static_cast<unsigned>(time.day))};
  const auto within = [](int value, int end) { return value >= 0 && value < end; };
  if (!within(time.year - 1, 9999) || !date.ok() || !within(time.hour, 24) ||
      !within(time.minute, 60) || !within(time.second, 60)) {
    throw complaint("found the date {}-{}-{} {}:{}:{}, expected one that is", time.year, time.month,
                    time.day, time.hour, time.minute, time.second);
  }
  std::tm out{};
  out.tm_year = time.year - 1900;
  out.tm_mon = time.month - 1;
  out.tm_mday = time.day;
  out.tm_hour = time.hour;
  out.tm_min = time.minute;
  out.tm_sec = time.second;
  out.tm_wday = static_cast<int>(std::chrono::weekday(date).c_encoding());
  const sys_days first(date.year() / std::chrono::January / 1);
  out.tm_yday = static_cast<int>((sys_days(date) - first).count());
  return out;
}

}  // namespace

std::string format_time(const DateTime& time, std::string_view format) {
  const std::tm calendar = calendar_time(time);
  std::string out;
  for (std::size_t at = 0; at < format.size(); ++at) {
    if (format[at] != '%') {
      out += format[at];
      continue;
    }
    const bool bare = format.substr(at + 1).starts_with('-');
    at += bare ? std::size_t{2} : 1;
    const std::string_view conversion = format.substr(std::min(at, format.size()), 1);
    if (conversion.empty() ||
        std::string_view("aAbBdmyYHIMSpjFT%").find(conversion) == std::string_view::npos) {
      throw complaint("found the conversion %{}, expected one of dates and times",
                      printable(conversion));
    }
    std::string text = fmt::format(fmt::runtime(fmt::format("{{:%{}}}", conversion)), calendar);
    if (bare) text.erase(0, std::min(text.find_first_not_of('0'), text.size() - 1));
    out += text;
  }
  return out;
}

}  // namespace turnbench::jinja
