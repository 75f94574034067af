// The selections of `minference` and its calibration, compared with Microsoft's minference; see
// tests/golden/make_minference_golden.py.  Not compared, because of intended differences: slash
// sizes of 50 to 99, which tie in the package and are refused here; later turns, which the package
// computes densely; and the search by outputs, for which the package executes kernels (see
// PatternObjective::kOutput).

#include <nlohmann/json.hpp>

#include "common/file.h"
#include "common/json.h"
#include "golden_layer.h"
#include "methods/prefill/pattern_search.h"
#include "prefill_reference.h"
#include "tests/temporary_directory.h"

namespace turnbench {
namespace {

using namespace test;
using Ints = std::vector<std::int32_t>;
using Kind = MInferenceConfig::Kind;
using Head = MInferenceConfig::Head;

Json golden(const char* part) {
  const std::filesystem::path path = TURNBENCH_SOURCE_DIR "/tests/data/methods/minference.json";
  return parse_json(read_file(path), path.string()).at(part);
}

Ints golden_positions_of(const Json& runs) {
  Ints out;
  for (const Json& run : runs) {
    for (int i = 0; i < run[1].get<int>(); ++i) out.push_back(run[0].get<int>() + i);
  }
  return out;
}

TEST(MInferenceGolden, Lines) {
  const Json cases = golden("lines");
  ASSERT_FALSE(cases.empty());
  for (const Json& c : cases) {
    const auto spec = c.at("method").get<std::string>();
    SCOPED_TRACE(spec);
    const Json& heads = c.at("heads");
    GoldenLayer layer(c, static_cast<int>(heads.size()), c.at("kv_heads"));
    const auto patterns = plan(spec, layer);
    ASSERT_EQ(patterns.size(), heads.size());
    for (std::size_t h = 0; h < heads.size(); ++h) {
      EXPECT_EQ(patterns[h].columns, golden_positions_of(heads[h].at("columns"))) << "head " << h;
      EXPECT_EQ(patterns[h].offsets, golden_positions_of(heads[h].at("offsets"))) << "head " << h;
    }
  }
}

// The keys that the package's kernel reads for each block of 64 rows, and attention over them.
TEST(MInferenceGolden, KeysOfRowBlocks) {
  const Json cases = golden("lines");
  ASSERT_FALSE(cases.empty());
  for (const Json& c : cases) {
    const auto spec = c.at("method").get<std::string>();
    SCOPED_TRACE(spec);
    std::vector<std::vector<Ints>> keys;  // [head][row block]
    for (const Json& head : c.at("heads")) {
      keys.emplace_back();
      for (const Json& runs : head.at("keys")) keys.back().push_back(golden_positions_of(runs));
    }
    GoldenLayer layer(c, static_cast<int>(keys.size()), c.at("kv_heads"));
    expect_equal(layer, plan(spec, layer), [&](int h, int i, int j) {
      const Ints& block = keys[h][i / 64];
      return std::binary_search(block.begin(), block.end(), j);
    });
  }
}

TEST(MInferenceGolden, Blocks) {
  const test::TemporaryDirectory directory;
  const std::string blocks = R"({"0":["block_sparse",1,1,1]})";
  const std::string path = directory.write(
      "blocks.json", "[" + blocks + "," + blocks + "," + blocks + "," + blocks + "]");
  const Json cases = golden("blocks");
  ASSERT_FALSE(cases.empty());
  for (const Json& c : cases) {
    GoldenLayer layer(c, 1, 1);
    const HeadPattern pattern = plan("minference:config=" + path, layer)[0];
    const auto left_out = c.at("left_out").get<std::vector<Ints>>();
    ASSERT_EQ(pattern.blocks.size(), left_out.size());
    for (std::size_t r = 0; r < left_out.size(); ++r) {
      Ints all = pattern.blocks[r];
      EXPECT_EQ(all.size(), std::min<std::size_t>(r + 1, 100));
      all.insert(all.end(), left_out[r].begin(), left_out[r].end());
      std::sort(all.begin(), all.end());
      for (std::size_t b = 0; b <= r; ++b) ASSERT_EQ(all[b], static_cast<int>(b)) << r;
    }
  }
}

/// The result of the script's function of the same name for one head.
void plant(GoldenLayer& layer, int head, const std::string& kind) {
  for (int i = 0; i < layer.n; ++i) {
    float *q = layer.query(head, i), *k = layer.key(head, i);
    std::fill_n(q, 48, 0.0f);
    std::fill_n(k, 48, 0.0f);
    const auto at = static_cast<float>(i);
    const bool hot = (kind == "window_and_sinks" && i < 100) ||
                     (kind == "window_and_columns" && i % 13 == 3) ||
                     (kind == "diagonals_and_columns" && i % 86 == 7);
    if (kind.starts_with("window")) {
      q[0] = 16;
      k[0] = hot ? 0 : at / 512;
      q[1] = at / 32;
      k[1] = hot ? 1 : 0;
    }
    if (kind.starts_with("diagonals")) {
      q[i % 8] = 48;
      k[i % 8] = hot ? 0 : 1;
      q[8] = 56;
      k[8] = hot ? 1 : 0;
    }
    if (kind == "blocks") {
      const int b = i / 32;
      for (int wanted : {7 * b, 11 * b + 5, b * b}) q[wanted % 40] = 56;
      k[b % 40] = 1;
    }
  }
}

struct SearchCase {
  Json heads;
  std::unique_ptr<GoldenLayer> layer;
  std::vector<FoundPattern> found(std::vector<Head> candidates) {
    FoundPatterns all;
    PatternSearch({.candidates = std::move(candidates)}, all).plan(layer->view());
    return all[0];
  }
};

SearchCase search_case() {
  const Json search = golden("search");
  SearchCase out{search.at("heads"), nullptr};
  const int heads = static_cast<int>(out.heads.size());
  out.layer = std::make_unique<GoldenLayer>(search, heads, heads);
  for (int h = 0; h < heads; ++h) plant(*out.layer, h, out.heads[h].at("kind"));
  out.layer->write_keys();
  return out;
}

// Each candidate's share of the attention mass.  In the package's search, the window of sinks has
// one key more than in its prefill and here.
TEST(MInferenceGolden, SearchScores) {
  SearchCase search = search_case();
  const auto candidates = pattern_candidates(PatternObjective::kRecall);
  for (std::size_t c = 0; c < candidates.size(); ++c) {
    Head candidate = candidates[c];
    if (candidate.kind == Kind::kStream) ++candidate.slash;
    const auto found = search.found({candidate});
    ASSERT_EQ(found.size(), search.heads.size());
    for (std::size_t h = 0; h < found.size(); ++h) {
      const Json& want = search.heads[h].at("candidates");
      ASSERT_EQ(want.size(), candidates.size());
      EXPECT_EQ(want[c][0].get<std::string>(), name_of(candidate.kind));
      if (candidate.kind != Kind::kBlockSparse) {
        EXPECT_EQ(want[c][1].get<int>(), candidates[c].vertical);
        EXPECT_EQ(want[c][2].get<int>(), candidates[c].slash);
      }
      EXPECT_NEAR(found[h].score, want[c][3].get<double>(), 1e-5)
          << search.heads[h].at("kind") << ", candidate " << c;
    }
  }
}

// The entries of the file that the search of the package writes.
TEST(MInferenceGolden, SearchChoices) {
  SearchCase search = search_case();
  const auto found = search.found(pattern_candidates(PatternObjective::kRecall));
  ASSERT_EQ(found.size(), search.heads.size());
  for (std::size_t h = 0; h < found.size(); ++h) {
    const Json& want = search.heads[h].at("entry");
    const Head got = as_vertical_slash(found[h].pattern);
    EXPECT_EQ(name_of(got.kind), want[0].get<std::string>()) << h;
    EXPECT_EQ(got.vertical, want[1].get<int>()) << h;
    EXPECT_EQ(got.slash, want[2].get<int>()) << h;
    EXPECT_NEAR(found[h].score, want[3].get<double>(), 1e-3) << h;  // the window's odd key
  }
}

}  // namespace
}  // namespace turnbench
