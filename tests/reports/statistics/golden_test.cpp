// Compares with results of numpy and scipy on the same tables:
// tests/golden/make_statistics_golden.py.

#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>

#include "common/file.h"
#include "common/json.h"
#include "reports/statistics/equivalence.h"
#include "reports/statistics/family.h"
#include "reports/statistics/power.h"
#include "reports/statistics/student_t.h"
#include "tests/reports/strata.h"

namespace turnbench {
namespace {

const Json& golden() {
  static const Json json =
      Json::parse(read_file(TURNBENCH_SOURCE_DIR "/tests/data/reports/statistics.json"));
  return json;
}

void expect_interval(const Interval& got, const Json& want, const std::string& what) {
  EXPECT_NEAR(got.low, want[0].get<double>(), 1e-9) << what;
  EXPECT_NEAR(got.high, want[1].get<double>(), 1e-9) << what;
}

/// The strata of one method: one for each dataset.
struct MethodStrata {
  std::vector<Stratum> strata;
  std::vector<const Stratum*> pointers() const {
    std::vector<const Stratum*> out;
    for (const Stratum& s : strata) out.push_back(&s);
    return out;
  }
};

std::vector<MethodStrata> read_table(const Json& datasets, std::size_t methods) {
  std::vector<MethodStrata> out(methods);
  for (const auto& [name, dialogues] : datasets.items()) {
    auto population = std::make_shared<Population>();
    population->name = name;
    for (const auto& [id, rows] : dialogues.items()) population->ids.push_back(id);
    for (std::size_t m = 0; m < methods; ++m) {
      std::vector<std::vector<double>> scores;
      for (const auto& [id, rows] : dialogues.items())
        scores.push_back(rows[m].get<std::vector<double>>());
      out[m].strata.push_back(test::stratum(population, scores));
    }
  }
  return out;
}

TEST(StatisticsGolden, QuantilesAndTails) {
  for (const Json& row : golden()["quantiles"]) {
    const double want = row[2];
    EXPECT_NEAR(student_t_quantile(row[0], row[1]), want, 1e-9 * std::max(1.0, want)) << row.dump();
  }
  for (const Json& row : golden()["tails"]) {
    const double want = row[2];
    EXPECT_NEAR(student_t_tail(row[0], row[1]), want, 1e-11 + 1e-9 * want) << row.dump();
  }
}

TEST(StatisticsGolden, Tables) {
  const double margin = golden()["margin"], points = golden()["points"];
  std::size_t number = 0;
  for (const Json& table : golden()["tables"]) {
    const Json& methods = table["methods"];
    const std::vector<MethodStrata> strata = read_table(table["datasets"], methods.size());
    std::vector<Contributions> differences;
    for (std::size_t m = 0; m < methods.size(); ++m) {
      const std::string what = fmt::format("table {}, method {}", number, m);
      const Contributions mean = contributions(strata[m].pointers());
      const Spread spread = spread_of(mean);
      EXPECT_NEAR(mean.mean, methods[m]["mean"].get<double>(), 1e-12) << what;
      EXPECT_NEAR(spread.freedom, methods[m]["freedom"].get<double>(), 1e-6) << what;
      expect_interval(share_interval(mean.mean, spread), methods[m]["interval"], what);
      if (m == 0) continue;
      std::vector<StratumPair> pairs;
      for (std::size_t k = 0; k < strata[m].strata.size(); ++k)
        pairs.push_back({&strata[m].strata[k], &strata[0].strata[k]});
      differences.push_back(contributions(pairs));
    }
    std::vector<const Contributions*> family;
    for (const Contributions& d : differences) family.push_back(&d);
    const std::vector<PValue> max_t = test_family(family, Adjustment::kMaxT),
                              by_holm = test_family(family, Adjustment::kHolm);
    for (std::size_t i = 0; i < differences.size(); ++i) {
      const std::string what = fmt::format("table {}, difference {}", number, i);
      const Json& want = methods[i + 1]["difference"];
      const Contributions& d = differences[i];
      const Spread spread = spread_of(d);
      EXPECT_NEAR(d.mean, want["mean"].get<double>(), 1e-12) << what;
      expect_interval(difference_interval(d.mean, spread), want["interval"], what);
      EXPECT_NEAR(max_t[i].p, want["p"].get<double>(), 1e-12) << what;
      EXPECT_NEAR(max_t[i].adjusted, want["max_t"].get<double>(), 1e-12) << what;
      EXPECT_NEAR(by_holm[i].p, want["p"].get<double>(), 1e-12) << what;
      EXPECT_NEAR(by_holm[i].adjusted, want["holm"].get<double>(), 1e-12) << what;
      EXPECT_NEAR(equivalence_p(d.mean, spread, d, margin), want["equivalent"].get<double>(), 1e-6)
          << what;
      EXPECT_EQ(dialogues_needed(spread, points), want["needed"].get<int>()) << what;
    }
    ++number;
  }
  EXPECT_GT(number, 5u);
}

}  // namespace
}  // namespace turnbench
