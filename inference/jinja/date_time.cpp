#include "inference/jinja/date_time.h"

#include <chrono>
#include <optional>

#include "common/text.h"
#include "inference/jinja/complaint.h"

namespace turnbench::jinja {
namespace {

constexpr std::string_view kDays[] = {"Sunday",   "Monday", "Tuesday", "Wednesday",
                                      "Thursday", "Friday", "Saturday"};
constexpr std::string_view kMonths[] = {"January",   "February", "March",    "April",
                                        "May",       "June",     "July",     "August",
                                        "September", "October",  "November", "December"};

/// A date with its place in the week and in the year.
class Calendar {
 public:
  explicit Calendar(const DateTime& time) : time_(time) {
    const std::chrono::year_month_day date{std::chrono::year(time.year),
                                           std::chrono::month(static_cast<unsigned>(time.month)),
                                           std::chrono::day(static_cast<unsigned>(time.day))};
    const auto within = [](int value, int end) { return value >= 0 && value < end; };
    if (!within(time.year - 1, 9999) || !date.ok() || !within(time.hour, 24) ||
        !within(time.minute, 60) || !within(time.second, 60)) {
      throw complaint("found the date {}-{}-{} {}:{}:{}, expected one that is", time.year,
                      time.month, time.day, time.hour, time.minute, time.second);
    }
    const std::chrono::sys_days day(date);
    weekday_ = static_cast<int>(std::chrono::weekday(day).c_encoding());
    day_of_year_ = static_cast<int>(
        (day - std::chrono::sys_days(date.year() / std::chrono::January / 1)).count());
  }

  /// What stands for %CONVERSION; `padding` is '0', ' ' or '\0' where the format says so.
  std::string text(char conversion, std::optional<char> padding) const {
    const auto number = [&](int value, std::size_t width, char fill) {
      std::string digits = std::to_string(value);
      const char with = padding.value_or(fill);
      if (with != '\0' && digits.size() < width) digits.insert(0, width - digits.size(), with);
      return digits;
    };
    const int hour = time_.hour % 12 == 0 ? 12 : time_.hour % 12;
    switch (conversion) {
      case 'a':
        return std::string(day_name().substr(0, 3));
      case 'A':
        return std::string(day_name());
      case 'b':
      case 'h':
        return std::string(month_name().substr(0, 3));
      case 'B':
        return std::string(month_name());
      case 'd':
        return number(time_.day, 2, '0');
      case 'e':
        return number(time_.day, 2, ' ');
      case 'm':
        return number(time_.month, 2, '0');
      case 'y':
        return number(time_.year % 100, 2, '0');
      case 'Y':
        return std::to_string(time_.year);
      case 'H':
        return number(time_.hour, 2, '0');
      case 'I':
        return number(hour, 2, '0');
      case 'M':
        return number(time_.minute, 2, '0');
      case 'S':
        return number(time_.second, 2, '0');
      case 'f':
        return "000000";
      case 'p':
        return time_.hour < 12 ? "AM" : "PM";
      case 'j':
        return number(day_of_year_ + 1, 3, '0');
      case 'w':
        return std::to_string(weekday_);
      case 'u':
        return std::to_string(weekday_ == 0 ? 7 : weekday_);
      case 'U':
        return number((day_of_year_ + 7 - weekday_) / 7, 2, '0');
      case 'W':
        return number((day_of_year_ + 7 - (weekday_ + 6) % 7) / 7, 2, '0');
      case 'n':
        return "\n";
      case 't':
        return "\t";
      case '%':
        return "%";
      default:
        throw complaint("found the conversion %{}, expected one of dates and times",
                        printable(std::string_view(&conversion, 1)));
    }
  }

 private:
  std::string_view day_name() const { return kDays[static_cast<std::size_t>(weekday_)]; }
  std::string_view month_name() const { return kMonths[static_cast<std::size_t>(time_.month - 1)]; }

  DateTime time_;
  int weekday_ = 0;      // from Sunday
  int day_of_year_ = 0;  // from 0
};

/// The conversions that stand for others.
std::string_view expanded(char conversion) {
  switch (conversion) {
    case 'D':
    case 'x':
      return "%m/%d/%y";
    case 'F':
      return "%Y-%m-%d";
    case 'T':
    case 'X':
      return "%H:%M:%S";
    case 'R':
      return "%H:%M";
    case 'r':
      return "%I:%M:%S %p";
    case 'c':
      return "%a %b %e %H:%M:%S %Y";
    default:
      return "";
  }
}

void add_formatted(const Calendar& calendar, std::string_view format, std::string& out) {
  for (std::size_t at = 0; at < format.size(); ++at) {
    if (format[at] != '%') {
      out += format[at];
      continue;
    }
    std::optional<char> padding;
    if (at + 1 < format.size() && format[at + 1] == '-') padding = '\0';
    if (at + 1 < format.size() && format[at + 1] == '_') padding = ' ';
    at += padding ? std::size_t{2} : 1;
    if (at >= format.size()) throw complaint("found a % at the end, expected a conversion");
    const std::string_view others = expanded(format[at]);
    if (others.empty()) {
      out += calendar.text(format[at], padding);
    } else {
      add_formatted(calendar, others, out);
    }
  }
}

}  // namespace

std::string format_time(const DateTime& time, std::string_view format) {
  std::string out;
  add_formatted(Calendar(time), format, out);
  return out;
}

}  // namespace turnbench::jinja
