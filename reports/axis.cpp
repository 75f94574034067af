#include "reports/axis.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

namespace turnbench {
namespace {

/// Ticks from `first` to `last`, counted in steps.
void add_ticks(Axis& axis, long first, long last, double step) {
  axis.first = static_cast<double>(first) * step;
  axis.last = static_cast<double>(last) * step;
  for (long i = first; i <= last; ++i) {
    const double at = static_cast<double>(i) * step;
    axis.ticks.push_back({at, fmt::format("{:.6g}", at)});
  }
}

/// Removes ticks whose labels would touch their left neighbours.
void remove_crowded(Axis& axis) {
  constexpr double kDistance = .08;  // share of the axis
  double last = -1;
  std::erase_if(axis.ticks, [&](const Axis::Tick& tick) {
    const double place = axis.place(tick.at);
    if (place - last < kDistance) return true;
    last = place;
    return false;
  });
}

/// A logarithmic axis without ticks: from the lowest to the highest value, with margins.
Axis empty_log_axis(const std::string& label, const std::vector<double>& values) {
  const auto [low, high] = std::minmax_element(values.begin(), values.end());
  const double margin = *low == *high ? 2 : std::pow(*high / *low, .04);
  Axis out;
  out.label = label;
  out.first = *low / margin;
  out.last = *high * margin;
  out.is_log = true;
  return out;
}

}  // namespace

double Axis::place(double value) const {
  const double x = std::clamp(value, first, last);
  return is_log ? std::log(x / first) / std::log(last / first) : (x - first) / (last - first);
}

Axis share_axis(const std::string& label) {
  Axis out;
  out.label = label;
  add_ticks(out, 0, 5, 20);
  return out;
}

Axis linear_axis(const std::string& label, const std::vector<double>& values) {
  double low = 0, high = 0;
  for (const double value : values) {
    low = std::min(low, value);
    high = std::max(high, value);
  }
  if (low == high) high = 1;
  // The largest of 1, 2 and 5 times a power of ten that gives at least four steps.
  const double most = (high - low) / 4, power = std::pow(10, std::floor(std::log10(most)));
  const double step = (most >= 5 * power ? 5 : most >= 2 * power ? 2 : 1) * power;
  constexpr double kRounding = 1e-6;  // in steps: rounding errors must not add a step
  Axis out;
  out.label = label;
  add_ticks(out, std::lround(std::floor(low / step + kRounding)),
            std::lround(std::ceil(high / step - kRounding)), step);
  return out;
}

Axis log_axis(const std::string& label, const std::vector<double>& values,
              const std::vector<std::string>& texts) {
  Axis out = empty_log_axis(label, values);
  std::map<double, std::string> distinct;
  for (std::size_t i = 0; i < values.size(); ++i) distinct.try_emplace(values[i], texts[i]);
  for (const auto& [value, text] : distinct) out.ticks.push_back({value, text});
  remove_crowded(out);
  return out;
}

Axis log_axis(const std::string& label, const std::vector<double>& values) {
  Axis out = empty_log_axis(label.empty() ? "" : label + ", logarithmic", values);
  const int last = static_cast<int>(std::ceil(std::log10(out.last)));
  for (int power = static_cast<int>(std::floor(std::log10(out.first))); power <= last; ++power) {
    for (const int digit : {1, 2, 5}) {
      const double at = digit * std::pow(10, power);
      if (at >= out.first && at <= out.last) out.ticks.push_back({at, fmt::format("{:.6g}", at)});
    }
  }
  remove_crowded(out);
  return out;
}

Axis fitting_axis(const std::string& label, const std::vector<double>& values,
                  const std::vector<std::string>& texts) {
  constexpr double kWide = 4;
  const auto [low, high] = std::minmax_element(values.begin(), values.end());
  if (*low <= 0 || *high < kWide * *low) return linear_axis(label, values);
  return texts.empty() ? log_axis(label, values) : log_axis(label, values, texts);
}

}  // namespace turnbench
