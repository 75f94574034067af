// Worked examples of the measurements, and properties that hold for any attention.

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "common/error.h"
#include "methods/parts/token_blocks.h"
#include "observe.h"

namespace turnbench {
namespace {

using namespace test;

/// One layer with the given attention probabilities.
Shown prescribed(const std::vector<Rows>& heads) {
  Shown out;
  out.prompt.push_back(std::make_unique<PrescribedLayer>(heads));
  out.number_tokens(static_cast<int>(heads[0].size()));
  return out;
}

// LoopServe's figure 1: A = (1; .5, .5; .6, .1, .3).  The weights of the vertical lines are (2.1,
// .6, .3), of the slash lines (1.8, .6, .6).  {v0, s0} cover (1 + .5 + .5 + .6 + .3) / 3; the cell
// (0, 0) counts once.
TEST(WorkedExample, Coverage) {
  Shown shown = prescribed({{{1}, {.5, .5}, {.6, .1, .3}}});
  const LineMass mass = shown.prompt[0]->view().stats.line_mass(0, 3);
  const std::vector<float> vertical = {2.1f, .6f, .3f}, slash = {1.8f, .6f, .6f};
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_NEAR(mass.vertical[i], vertical[i], 1e-5);
    EXPECT_NEAR(mass.slash[i], slash[i], 1e-5);
  }
  EXPECT_NEAR(value("coverage:eta=0.34", shown), 0.96667, 1e-5);  // 2 of 6 lines
  EXPECT_NEAR(value("coverage:eta=0.17", shown), 0.7, 1e-5);      // v0 alone
  EXPECT_EQ(value("coverage:eta=1", shown), 1);
  EXPECT_NE(measured("coverage:eta=0.1", shown).missing, "") << "0.6 lines are none";
}

// The rows (1), (.5, .5) and (.6, .1, .3); those of a second head are (1), (.9, .1) and (.2, .2,
// .6).
TEST(WorkedExample, TopMass) {
  Shown shown = prescribed({{{1}, {.5, .5}, {.6, .1, .3}}, {{1}, {.9, .1}, {.2, .2, .6}}});
  EXPECT_NEAR(value("top-mass:budget=1", shown), 0.6, 1e-5);
  EXPECT_NEAR(value("top-mass:budget=2", shown), (0.9 + 0.8) / 2, 1e-5);
  EXPECT_NEAR(value("top-mass:budget=2,over=p100", shown), 0.9, 1e-5);
  EXPECT_NEAR(value("top-mass:budget=1/2,row=0.5,head=1", shown), 0.9, 1e-5) << "row 1 of 2 tokens";
  EXPECT_EQ(value("top-mass:budget=1,row=0", shown), 1) << "the first row sees itself";
  EXPECT_NEAR(value("top-mass:budget=100%", shown), 1, 1e-6);
  EXPECT_NEAR(value("top-mass:budget=100", shown), 1, 1e-6);
  EXPECT_NE(measured("top-mass:budget=0.1", shown).missing.find("less than one token"),
            std::string::npos);
}

// Redundancy: b = 1 loses nothing.  With the scores (9, 0, 0, 1, 8, 0), K = 2 and b = 3, both
// blocks weigh 9; the best two tokens of the first block are kept, with 9 of 17.
TEST(WorkedExample, Redundancy) {
  const double sum = 18;
  Rows rows = rows_like({9 / sum, 0, 0, 1 / sum, 8 / sum, 0});
  Shown shown = prescribed({rows});
  EXPECT_NEAR(value("redundancy:block=3,budget=2,window=1", shown), 0.47059, 1e-5);
  EXPECT_EQ(value("redundancy:block=3,budget=2,window=1,by=tokens", shown), 0.5);
  EXPECT_EQ(value("redundancy:block=1,budget=2,window=1", shown), 0);
  EXPECT_EQ(value("redundancy:block=1,budget=2,window=1,by=tokens", shown), 0);
  EXPECT_EQ(in_blocks(std::vector<float>{9, 0, 0, 1, 8, 0}, 3, 2), (Ints{0, 1}));
}

// Fragmentation: a block is fragmented if it contains both a token that ends a segment and the next
// token.  Segments of 3, 1 and 4 tokens before a window of 2.
TEST(WorkedExample, Fragmentation) {
  Shown shown;
  shown.number_tokens(10);
  shown.text = [](int token) { return token == 2 || token == 3 || token == 7 ? " x," : " x"; };
  // Blocks of 2: 01 23| 45 67; the boundary after token 2 is within the second block.
  EXPECT_EQ(value("fragmentation:block=2,window=2", shown), 0.25);
  // Blocks of 3: 012 | 3 45, 67: the boundary after token 3 is within the second block.
  EXPECT_DOUBLE_EQ(value("fragmentation:block=3,window=2", shown), 1.0 / 3);
  EXPECT_EQ(value("fragmentation:block=4,window=2", shown), 0.5);
  EXPECT_EQ(value("fragmentation:block=8,window=2", shown), 1);
  EXPECT_EQ(value("fragmentation:block=1,window=2", shown), 0);
  EXPECT_EQ(value("fragmentation:block=4,window=2,cut=sentence", shown), 0) << "no sentence ends";
  EXPECT_NE(measured("fragmentation:block=4,window=10", shown).missing, "");
  shown.text = nullptr;
  EXPECT_THROW(measured("fragmentation:block=4", shown), Error);
}

// LoopServe's figure 2: slash lines by offset, vertical lines by column.  The head chooses v0 and
// s0 for the first prompt, v1 and s0 for the second: 1 of 3 lines is shared.
TEST(WorkedExample, LineOverlap) {
  Shown a = prescribed({{{1}, {.5, .5}, {.6, .1, .3}}}),
        b = prescribed({{{1}, {.05, .95}, {.05, .55, .4}}});
  for (const bool self : {true, false}) {
    const auto probe =
        ProbeSpec::parse(std::string("line-overlap:eta=0.34,self=") + (self ? "true" : "false"))
            .make();
    show(*probe, a);
    show(*probe, b);
    for (const ProbeResult& m : probe->results())
      EXPECT_DOUBLE_EQ(m.value, self ? (1 + 1.0 / 3) / 2 : 1.0 / 3);
  }
}

// LoopServe's figure 3: 4 tokens cut into 2 and 2.  The first part chooses v0 (1.9 of 2).  The
// second part chooses v2 and s0; of=shared ignores lines that the first part cannot have.
TEST(WorkedExample, SegmentOverlap) {
  Shown shown = prescribed({{{1}, {.9, .1}, {.04, .05, .91}, {.3, .03, .6, .07}}});
  // First part: v0 1.9, s0 1.1, s1 .9, v1 .1; eta = .25 takes 1 of 4 lines: v0.
  // Second part: v2 1.51, s0 .98, s1 .65, v0 .34, ...; 2 of 8 lines: v2, s0.
  EXPECT_EQ(value("segment-overlap:eta=0.25", shown), 0);
  // 2 of 4: v0, s0; 4 of 8: v2, s0, s1, v0.  Two of the four are shared, or two of the three that
  // exist in the first part.
  EXPECT_DOUBLE_EQ(value("segment-overlap:eta=0.5", shown), 0.5);
  EXPECT_DOUBLE_EQ(value("segment-overlap:eta=0.5,of=shared", shown), 2.0 / 3);
  EXPECT_DOUBLE_EQ(value("segment-overlap:eta=1,of=shared", shown), 1);
  for (const char* split : {"0", "0.2", "1"})
    EXPECT_TRUE(measured(fmt::format("segment-overlap:split={}", split), shown)
                    .missing.starts_with("split leaves"))
        << split;
}

// If all lines or tokens are chosen, all are shared.
TEST(Identities, WholeBudgetsAndSingleTokens) {
  for (int n : {2, 63, 64, 65, 150}) {
    SCOPED_TRACE(n);
    Shown shown = Shown::random(2, 2, 2, n, 20, static_cast<std::uint64_t>(n));
    EXPECT_EQ(value("coverage:eta=1", shown), 1);
    for (const char* spec : {"token-overlap:budget=100%", "window-overlap:budget=100%,window=2",
                             "window-overlap:budget=100%,index=1", "block-overlap:budget=100%",
                             "token-overlap:budget=100000", "block-overlap:distance=0,budget=1"})
      EXPECT_EQ(value(spec, shown), 1) << spec;
    // The window that covers the whole answer.
    EXPECT_EQ(value("window-overlap:index=0,window=20,budget=1", shown), 1);
    EXPECT_EQ(value("redundancy:block=1,window=1,budget=4", shown), 0);
    EXPECT_EQ(value("redundancy:block=1,window=1,budget=4,by=tokens", shown), 0);
    EXPECT_EQ(value("redundancy:block=5,window=1,budget=100%", shown), 0) << "all are kept";
    const auto same = ProbeSpec::parse("line-overlap:eta=0.3,self=false").make();
    show(*same, shown);
    show(*same, shown);
    for (const ProbeResult& m : same->results()) EXPECT_EQ(m.value, 1);
    double before = 0;
    for (double eta : {0.3, 0.5, 0.7, 0.9, 0.95}) {
      const double now = value(fmt::format("coverage:eta={}", eta), shown);
      EXPECT_GE(now, before) << "more lines cover more";
      before = now;
    }
  }
}

// A probe that cannot measure a prompt has no value, and a reason.
TEST(Missing, GivesTheReason) {
  Shown silent = Shown::random(1, 1, 1, 30, 0, 1), brief = Shown::random(1, 1, 1, 30, 5, 1);
  for (const char* spec : {"token-overlap", "window-overlap", "block-overlap"})
    EXPECT_NE(measured(spec, silent).missing.find("answer"), std::string::npos) << spec;
  EXPECT_NE(measured("window-overlap:index=1,window=5", brief).missing.find("ends before"),
            std::string::npos);
  EXPECT_NE(measured("window-overlap:index=-4,window=8", brief).missing.find("shorter"),
            std::string::npos);
  EXPECT_EQ(measured("window-overlap:index=-3,window=10", brief).missing, "");
  EXPECT_NE(measured("block-overlap:blocks=6", brief).missing, "");
  EXPECT_EQ(measured("block-overlap:blocks=5", brief).missing, "");
  EXPECT_NE(measured("token-overlap:budget=0.01", brief).missing.find("budget"), std::string::npos);
  const auto lonely = ProbeSpec::parse("line-overlap:self=false").make();
  show(*lonely, silent);
  EXPECT_NE(lonely->results()[0].missing, "");
}

TEST(Spec, RejectsInvalidSpecs) {
  for (const auto& [spec, expected] : std::vector<std::pair<std::string, std::string>>{
           {"covrage", "\"coverage\""},
           {"coverage:etta=1", "\"eta\""},
           {"coverage:eta=1.5", "from 0 to 1"},
           {"coverage:eta", "NAME=VALUE"},
           {"block-overlap:blocks=3,first=1,distance=2", "more blocks"},
           {"block-sizes:budget=8", "a larger budget"},
           {"output-error", "no parameter \"method\""},
           {"output-error:method=", "unknown method"},
           {"output-error:method=snapkv:budget=64,window=8,phase=decode", "\"phase\""},
           {"output-error:phase=both,method=full", "prefill, decode"},
           {"output-error:method=full:placement=host", "placement"}}) {
    try {
      ProbeSpec::parse(spec, "here");
      ADD_FAILURE() << spec;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kInput);
      EXPECT_NE(std::string(error.what()).find(expected), std::string::npos) << error.what();
    }
  }
  Shown shown = Shown::random(2, 1, 2, 30, 0, 1);
  EXPECT_THROW(measured("coverage:layer=4", shown), Error);  // the model has 4 layers
  EXPECT_THROW(measured("coverage:head=2", shown), Error);
}

// A method is the last setting of a probe and has its own settings.
TEST(Spec, AcceptsAMethodAsLastSetting) {
  const ProbeSpec spec =
      ProbeSpec::parse("output-error:phase=prefill,method=minference+snapkv:budget=64,window=8");
  ASSERT_TRUE(spec.method());
  EXPECT_EQ(spec.method()->name(), "minference+snapkv");
  EXPECT_EQ(spec.setting("phase"), "prefill");
  EXPECT_EQ(spec.setting("budget"), "64");
  EXPECT_EQ(spec.setting("name"), "output-error");
  for (const char* name : {"phase", "window", "method", "name", "eta"})
    EXPECT_EQ(setting_in(spec.canonical(), name), spec.setting(name)) << name;
  const Json json = {{"name", "output-error"},
                     {"phase", "prefill"},
                     {"method", "minference+snapkv:budget=64,window=8"}};
  const ProbeSpec same = ProbeSpec::parse(JsonView(json, "test"));
  EXPECT_EQ(same.canonical(), spec.canonical());
  EXPECT_EQ(ProbeSpec::parse(same.label()).canonical(), spec.canonical());
  EXPECT_FALSE(ProbeSpec::parse("coverage").method());
}

// Names of probes and methods share a column of tables, so they must be unique.
TEST(Registry, NamesAreUnique) {
  std::set<std::string_view> names;
  for (const MethodInfo& m : all_methods()) names.insert(m.name);
  for (const ProbeInfo& p : all_probes()) {
    EXPECT_TRUE(names.insert(p.name).second) << p.name;
    EXPECT_FALSE(p.summary.empty() || p.paper.empty() || p.metric.empty()) << p.name;
    const ProbeSpec spec = ProbeSpec::parse(with_required(p));
    EXPECT_EQ(spec.label(), with_required(p));
    EXPECT_EQ(ProbeSpec::parse(spec.canonical()).canonical(), spec.canonical());
  }
}

}  // namespace
}  // namespace turnbench
