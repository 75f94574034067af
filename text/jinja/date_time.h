#pragma once

#include <string>
#include <string_view>

namespace turnbench::jinja {

/// The time that strftime_now prints.  A rendering must not depend on when it runs, so the caller
/// passes the time; the default is the fallback of the official templates.
struct DateTime {
  int year = 2024, month = 7, day = 26;
  int hour = 0, minute = 0, second = 0;
};

/// Python's `datetime.strftime` in the C locale, for %a %A %b %B %d %m %y %Y %H %I %M %S %p %j %F
/// %T and %%, also with the flag - as in %-d.  Rejects other conversions and invalid dates.
std::string format_time(const DateTime& time, std::string_view format);

}  // namespace turnbench::jinja
