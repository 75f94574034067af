#include "reports/statistics/student_t.h"

#include <gtest/gtest.h>

#include <cmath>

namespace turnbench {
namespace {

// Values of printed tables, for 97.5% and 99.5%.
TEST(StudentT, QuantilesAreThoseOfTables) {
  const struct {
    double freedom, two_sided_95, two_sided_99;
  } rows[] = {{1, 12.706, 63.657}, {2, 4.303, 9.925},  {3, 3.182, 5.841},   {4, 2.776, 4.604},
              {5, 2.571, 4.032},   {10, 2.228, 3.169}, {20, 2.086, 2.845},  {30, 2.042, 2.750},
              {60, 2.000, 2.660},  {95, 1.985, 2.629}, {120, 1.980, 2.617}, {1e9, 1.960, 2.576}};
  for (const auto& row : rows) {
    EXPECT_NEAR(student_t_quantile(.975, row.freedom), row.two_sided_95, 6e-4) << row.freedom;
    EXPECT_NEAR(student_t_quantile(.995, row.freedom), row.two_sided_99, 6e-4) << row.freedom;
  }
}

// One and two degrees of freedom have closed forms.
TEST(StudentT, TailsAreThoseOfClosedForms) {
  const double pi = std::acos(-1.0);
  for (double t : {-30.0, -2.0, -.5, 0.0, 1e-6, .1, 1.0, 3.0, 12.706, 1e3}) {
    EXPECT_NEAR(student_t_tail(t, 1), .5 - std::atan(t) / pi, 1e-14) << t;
    EXPECT_NEAR(student_t_tail(t, 2), .5 - t / (2 * std::sqrt(2 + t * t)), 1e-14) << t;
  }
}

TEST(StudentT, QuantilesAndTailsAreInverse) {
  for (double freedom : {1.0, 1.7, 2.0, 5.5, 11.0, 92.0, 1000.0}) {
    for (double p : {.001, .025, .3, .5, .8, .975, .9999}) {
      const double t = student_t_quantile(p, freedom);
      EXPECT_NEAR(1 - student_t_tail(t, freedom), p, 1e-12) << p << " " << freedom;
      EXPECT_NEAR(student_t_quantile(1 - p, freedom), -t, 1e-9 * std::max(1.0, std::abs(t)));
    }
  }
}

}  // namespace
}  // namespace turnbench
