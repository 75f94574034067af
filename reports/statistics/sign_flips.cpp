#include "reports/statistics/sign_flips.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "common/random.h"

namespace turnbench {
namespace {

constexpr std::size_t kGroup = 8;  // units whose signs form one byte

}  // namespace

SignFlips::SignFlips(const std::vector<const Contributions*>& family) {
  std::map<std::string_view, const Units*> named;
  std::map<std::string_view, std::vector<bool>> differs;  // by index
  for (const Contributions* member : family) {
    for (const Contributions::OfPopulation& p : member->populations) {
      named[p.units->name] = p.units.get();
      std::vector<bool>& of = differs[p.units->name];
      of.resize(p.units->ids.size());
      for (std::size_t i = 0; i < p.present.size(); ++i) {
        if (p.parts[i] != 0) of[p.present[i]] = true;
      }
    }
  }
  for (const auto& [name, of] : differs) {
    std::vector<std::uint32_t>& units = populations_[name].units;
    for (std::size_t i = 0; i < of.size(); ++i) {
      if (of[i]) units.push_back(static_cast<std::uint32_t>(i));
    }
  }
  std::size_t total = 0;
  for (const auto& [name, p] : populations_) total += p.units.size();
  all_ = total <= kMaxEnumerated;
  count_ = all_ ? std::size_t{1} << total : kFlips;
  std::size_t number = 0;  // index of a unit in the whole family
  for (auto& [name, p] : populations_) {
    p.signs.assign((p.units.size() + kGroup - 1) / kGroup, {});
    for (auto& bytes : p.signs) bytes.resize(count_);
    for (std::size_t i = 0; i < p.units.size(); ++i, ++number) {
      std::vector<std::uint8_t>& bytes = p.signs[i / kGroup];
      const std::size_t bit = i % kGroup;
      Random random = Random::from(
          {seed_of("sign flips"), seed_of(name), seed_of(named[name]->ids[p.units[i]])});
      std::uint64_t word = 0;
      for (std::size_t flip = 0; flip < count_; ++flip) {
        if (!all_ && flip % 64 == 0) word = random.next();
        const std::uint64_t sign = (all_ ? flip >> number : word >> (flip % 64)) & 1;
        bytes[flip] = static_cast<std::uint8_t>(bytes[flip] | sign << bit);
      }
    }
  }
}

std::vector<double> SignFlips::sums(const Contributions& member) const {
  std::vector<double> out(count_, 0.0);
  for (const Contributions::OfPopulation& p : member.populations) {
    const OfPopulation& signs = populations_.at(p.units->name);
    std::size_t at = 0;  // index among the member's units
    for (std::size_t group = 0; group < signs.signs.size(); ++group) {
      // The sums of eight parts with all combinations of signs are 256; each is the sum with one
      // sign fewer, plus twice that part.  A flip looks up one of them instead of eight products
      // and sums: a matrix product by the method of four Russians (Arlazarov, Dinic, Kronrod and
      // Faradzev, 1970).
      std::array<double, kGroup> parts{};
      bool any = false;
      for (std::size_t bit = 0; bit < kGroup; ++bit) {
        const std::size_t number = group * kGroup + bit;
        if (number >= signs.units.size()) break;
        while (at < p.present.size() && p.present[at] < signs.units[number]) ++at;
        if (at == p.present.size() || p.present[at] != signs.units[number]) continue;
        parts[bit] = p.parts[at];
        any |= parts[bit] != 0;
      }
      if (!any) continue;
      std::array<double, 1 << kGroup> table;
      table[0] = 0;
      for (double part : parts) table[0] += part;
      for (std::size_t bit = 0; bit < kGroup; ++bit) {
        const std::size_t half = std::size_t{1} << bit;
        for (std::size_t i = 0; i < half; ++i) table[half + i] = table[i] - 2 * parts[bit];
      }
      const std::uint8_t* bytes = signs.signs[group].data();
      for (std::size_t flip = 0; flip < count_; ++flip) out[flip] += table[bytes[flip]];
    }
  }
  for (double& sum : out) sum = std::abs(sum);
  return out;
}

double SignFlips::p_value(std::size_t reached) const {
  return all_ ? static_cast<double>(reached) / static_cast<double>(count_)
              : static_cast<double>(reached + 1) / static_cast<double>(count_ + 1);
}

}  // namespace turnbench
