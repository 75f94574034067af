// Codecs of the cache: stored bytes, decoded values, and sizes.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "common/error.h"
#include "inference/engine/memory_estimate.h"
#include "methods/method.h"
#include "tests/inference/conversation.h"
#include "tests/inference/guarded_backend.h"
#include "tests/methods/codec_rows.h"
#include "tests/methods/conformance.h"
#include "tests/methods/settings.h"

namespace turnbench::test {
namespace {

/// Stores the elements of a row in another type, after a mark of one byte, so that rows are not
/// aligned.  Values have two more bytes than keys.
class ElementCodec : public RowCodec {
 public:
  explicit ElementCodec(DType dtype) : dtype_(dtype) {}
  std::unique_ptr<CacheCodec> clone() const override {
    return std::make_unique<ElementCodec>(*this);
  }
  std::size_t row_bytes(KvRow kind, int head_dim) const override {
    return static_cast<std::size_t>(head_dim) * size_of(dtype_) + (kind == KvRow::kValue ? 3 : 1);
  }
  void encode(KvRow kind, std::span<const float> row, std::span<std::byte> out) const override {
    std::vector<std::byte> elements(row.size() * size_of(dtype_));
    for (std::size_t d = 0; d < row.size(); ++d) store_element(elements.data(), dtype_, d, row[d]);
    out[0] = mark(kind);
    std::memcpy(out.data() + 1, elements.data(), elements.size());
  }
  void decode(KvRow kind, std::span<const std::byte> bytes, std::span<float> out) const override {
    std::vector<std::byte> elements(bytes.begin() + 1, bytes.end());
    const bool is_encoded = bytes[0] == mark(kind);
    for (std::size_t d = 0; d < out.size(); ++d)
      out[d] = is_encoded ? load_element(elements.data(), dtype_, d) : 0;
  }

 private:
  static std::byte mark(KvRow kind) { return static_cast<std::byte>(1 + static_cast<int>(kind)); }
  DType dtype_;
};

/// Stores the elements of groups of tokens, channel after channel, with a mark for each kind.
class ElementGroups : public GroupCodec {
 public:
  std::unique_ptr<CacheCodec> clone() const override {
    return std::make_unique<ElementGroups>(*this);
  }
  std::size_t row_bytes(KvRow kind, int head_dim) const override {
    return static_cast<std::size_t>(head_dim) * sizeof(float) + (kind == KvRow::kValue ? 1 : 2);
  }
  int group(KvRow kind) const override { return kind == KvRow::kValue ? 2 : 16; }
  int encoded_rows(KvRow kind, int tokens) const override {
    return kind == KvRow::kValue ? std::max(0, tokens - 20) / 2 * 2 : tokens / 32 * 32;
  }
  void encode(KvRow kind, MatrixView<const float> rows, std::span<std::byte> out) const override {
    out.back() = mark(kind);
    for_each(rows, [&](std::int64_t r, std::int64_t d, std::size_t at) {
      std::memcpy(out.data() + at, &rows(r, d), sizeof(float));
    });
  }
  void decode(KvRow kind, std::span<const std::byte> bytes, MatrixView<float> out) const override {
    for_each(out, [&](std::int64_t r, std::int64_t d, std::size_t at) {
      std::memcpy(&out(r, d), bytes.data() + at, sizeof(float));
      if (bytes.back() != mark(kind)) out(r, d) = NAN;
    });
  }

 private:
  static std::byte mark(KvRow kind) { return static_cast<std::byte>(1 + static_cast<int>(kind)); }
  template <typename T, typename Visit>
  static void for_each(const MatrixView<T>& rows, const Visit& visit) {
    for (std::int64_t d = 0; d < rows.columns; ++d) {
      for (std::int64_t r = 0; r < rows.rows; ++r)
        visit(r, d, static_cast<std::size_t>(d * rows.rows + r) * sizeof(float));
    }
  }
};

Policies with_groups(Policies policies) {
  policies.codec = std::make_unique<ElementGroups>();
  return policies;
}

Policies with_codec(Policies policies, DType dtype = DType::kF32) {
  policies.codec = std::make_unique<ElementCodec>(dtype);
  return policies;
}

bool rebuilds_keys(const Policies& policies) {
  return capability<KeyRebuilder>(policies.selection.get()) != nullptr;
}

/// Every method without a codec that can be combined with one, with small settings.
std::vector<Method> other_methods() {
  std::vector<Method> out;
  for (const MethodInfo& info : all_methods()) {
    Method method = Method::parse(spec_of(info, small_values(info)));
    if (!method.policies().codec && !rebuilds_keys(method.policies()))
      out.push_back(std::move(method));
  }
  return out;
}

std::unique_ptr<RowCodec> int8_codec() {
  return codec_of<RowCodec>("int8");
}

std::vector<float> random_row(std::size_t head_dim, double magnitude, std::mt19937_64& random) {
  std::normal_distribution<double> normal(0, magnitude);
  std::vector<float> out(head_dim);
  for (float& x : out) x = static_cast<float>(normal(random));
  return out;
}

constexpr double kMagnitudes[] = {1e-34, 1e-6, 0.02, 1, 37, 1e20};

double largest_of(const std::vector<float>& row) {
  double out = 0;
  for (float x : row) out = std::max(out, std::abs(static_cast<double>(x)));
  return out;
}

/// The scale in double precision: 17 significant bits.
double scale_of(const std::vector<float>& row) {
  int exponent = 0;
  const double fraction =
      std::frexp(static_cast<double>(static_cast<float>(largest_of(row) / 127)), &exponent);
  return std::ldexp(std::nearbyint(std::ldexp(fraction, 17)), exponent - 17);
}

TEST(Int8, RoundsAsInDoublePrecision) {
  const auto codec = int8_codec();
  std::mt19937_64 random(1);
  for (double magnitude : kMagnitudes) {
    for (int i = 0; i < 200; ++i) {
      const std::vector<float> row = random_row(48, magnitude, random),
                               got = read_back(*codec, row);
      const double scale = scale_of(row);
      EXPECT_NEAR(scale, largest_of(row) / 127, scale * 0x1p-17);
      for (std::size_t d = 0; d < row.size(); ++d) {
        EXPECT_EQ(got[d], std::nearbyint(row[d] / scale) * scale) << row[d];
        EXPECT_LE(std::abs(got[d] - static_cast<double>(row[d])), scale / 2);
      }
    }
  }
  // The scale is 1: ties go to the even integer.
  EXPECT_EQ(read_back(*codec, {127, 0.5, 1.5, 2.5, -0.5, -1.5, -126.5}),
            (std::vector<float>{127, 0, 2, 2, 0, -2, -126}));
}

TEST(Int8, ReadsBackWhatItWritesAgain) {
  const auto codec = int8_codec();
  std::mt19937_64 random(2);
  std::vector<std::vector<float>> rows = {
      std::vector<float>(8, 0.0f), {-0.0f, 0}, {1e-40f, -2e-44f}, {-3}, {2e-36f, 1e-36f}};
  for (double magnitude : kMagnitudes) {
    for (int i = 0; i < 2000; ++i) rows.push_back(random_row(8, magnitude, random));
  }
  for (const std::vector<float>& row : rows) {
    const Bytes bytes = encoded(*codec, row);
    EXPECT_EQ(bytes.size(), row.size() + 4);
    EXPECT_EQ(encoded(*codec, decoded(*codec, bytes, row.size())), bytes) << row[0];
  }
}

TEST(Int8, KeepsWhatIsNotANumber) {
  const auto codec = int8_codec();
  for (float x : {INFINITY, -INFINITY, NAN}) {
    for (float y : read_back(*codec, {1, x, 2})) EXPECT_TRUE(std::isnan(y)) << x;
  }
}

// |score error| <= e = scale_k / 2 * |q|_1 / sqrt(d) for every key, so probabilities change by a
// factor within exp(+-2 e), and outputs by at most (exp(2 e) - 1) max |v| + scale_v / 2.
TEST(Int8, BoundsTheErrorOfAttention) {
  constexpr std::size_t kTokens = 300, kDim = 32;
  const auto codec = int8_codec();
  std::mt19937_64 random(3);
  std::vector<std::vector<float>> keys, values;
  for (std::size_t i = 0; i < kTokens; ++i) {
    keys.push_back(random_row(kDim, 1, random));
    values.push_back(random_row(kDim, 1, random));
  }
  const std::vector<float> query = random_row(kDim, 1, random);
  const auto attend = [&](bool rounded) {
    std::vector<double> out(kDim);
    double sum = 0;
    for (std::size_t i = 0; i < kTokens; ++i) {
      const std::vector<float> k = rounded ? read_back(*codec, keys[i]) : keys[i],
                               v = rounded ? read_back(*codec, values[i]) : values[i];
      double score = 0;
      for (std::size_t d = 0; d < kDim; ++d) score += static_cast<double>(query[d]) * k[d];
      const double weight = std::exp(score / std::sqrt(static_cast<double>(kDim)));
      sum += weight;
      for (std::size_t d = 0; d < kDim; ++d) out[d] += weight * v[d];
    }
    for (double& x : out) x /= sum;
    return out;
  };
  double key_scale = 0, value_scale = 0, largest_value = 0, norm = 0;
  for (std::size_t i = 0; i < kTokens; ++i) {
    key_scale = std::max(key_scale, scale_of(keys[i]));
    value_scale = std::max(value_scale, scale_of(values[i]));
    largest_value = std::max(largest_value, largest_of(values[i]));
  }
  for (float x : query) norm += std::abs(x);
  const double e = key_scale / 2 * norm / std::sqrt(static_cast<double>(kDim)),
               bound = (std::exp(2 * e) - 1) * largest_value + value_scale / 2;
  const std::vector<double> want = attend(false), got = attend(true);
  double worst = 0;
  for (std::size_t d = 0; d < kDim; ++d) worst = std::max(worst, std::abs(got[d] - want[d]));
  EXPECT_LE(worst, bound);
  EXPECT_GT(worst, 0);
  EXPECT_LT(worst, 0.01) << "the bound is far from tight";
}

class Codec : public testing::Test {
 protected:
  void SetUp() override {
    if (is_emulated()) GTEST_SKIP() << "codecs need the CPU backend";
  }

  struct Run {
    std::vector<Logits> logits;
    double attended, kept;
    bool operator==(const Run&) const = default;
  };
  /// Two turns with answers; the second answer is computed twice.  removes: the first answer may be
  /// removed.
  static Run run(Engine& engine, Policies policies, bool removes = true) {
    const std::vector<int> prompt = synthetic_tokens(200, 1), answer = synthetic_tokens(12, 2),
                           question = synthetic_tokens(40, 3);
    const bool evicts = policies.eviction != nullptr, selects = policies.selection != nullptr;
    Conversation c(engine, std::move(policies));
    Run out{logits_of(c, prompt, answer), 0, 0};
    const auto add = [&](const std::vector<Logits>& more) {
      out.logits.insert(out.logits.end(), more.begin(), more.end());
    };
    if (!evicts && !selects && removes) {
      c.sequence.truncate(static_cast<std::int32_t>(prompt.size()));
      add({c.answer(answer[3])});
    }
    Conversation fork = c.fork();
    add(logits_of(fork, question, answer));
    add(logits_of(c, question, std::span(answer).first(3)));
    out.attended = c.sequence.counters.attended_tokens;
    out.kept = c.sequence.mean_tokens();
    return out;
  }

  Machine& machine(Engine::Options options = {}) {
    const std::pair key(options.kv_dtype, options.prefill_chunk);
    return machines_.try_emplace(key, "llama3", 2, options).first->second;
  }

  std::map<std::pair<DType, int>, Machine> machines_;
};

TEST_F(Codec, OfTheSameElementsChangesNoMethod) {
  const std::vector<Method> methods = other_methods();
  ASSERT_GE(methods.size(), 30u);
  for (const Method& method : methods) {
    SCOPED_TRACE(method.canonical());
    for (const bool host : {false, true}) {
      const auto policies = [&] {
        Policies out = method.make();
        out.placement.host = host;
        return out;
      };
      const Run want = run(machine().engine, policies());
      EXPECT_TRUE(run(machine().engine, with_codec(policies())) == want) << (host ? "host" : "");
      if (host) continue;
      EXPECT_TRUE(run(machine({.kv_dtype = DType::kBF16}).engine, with_codec(policies())) ==
                  run(machine({.kv_dtype = DType::kBF16}).engine, policies()));
    }
  }
}

TEST_F(Codec, OfGroupsOfTheSameElementsChangesNoMethod) {
  int methods = 0;
  for (const Method& method : other_methods()) {
    SCOPED_TRACE(method.canonical());
    const Policies& p = method.policies();
    if (p.evict_in_answers() || (p.prefill && p.prefill->recomputes_answer())) continue;
    ++methods;
    const auto policies = [&] {
      Policies out = method.make();
      out.placement.host = false;
      return out;
    };
    for (const int chunk : {2048, 48}) {
      Engine& engine = machine({.prefill_chunk = chunk}).engine;
      const Run want = run(engine, policies(), false);
      EXPECT_TRUE(run(engine, with_groups(policies()), false) == want) << chunk;
    }
  }
  EXPECT_GE(methods, 28);
}

// Forks of one prefill share an index only if their keys are the same.
TEST_F(Codec, OfForksDoesNotChangeOtherForks) {
  Machine& m = machine();
  const std::vector<int> prompt = synthetic_tokens(200, 1), answer = synthetic_tokens(6, 2);
  const auto run_forks = [&](std::initializer_list<std::string> specs) {
    Sequence prefix = m.engine.make_sequence({});
    std::vector<Sequence> forks;
    for (const std::string& spec : specs)
      forks.push_back(m.engine.make_sequence(Method::parse(spec).make()));
    Pass pass{.sequence = &prefix, .tokens = prompt, .prompt_end = true};
    for (Sequence& fork : forks) pass.forks.push_back(&fork);
    m.engine.prefill({&pass, 1});
    std::map<std::string, std::vector<Logits>> out;
    for (std::size_t i = 0; i < forks.size(); ++i) {
      for (const int& token : answer) {
        const Pass step{.sequence = &forks[i], .tokens = {&token, 1}, .kind = Pass::Kind::kDecode};
        out[std::data(specs)[i]].push_back(m.engine.forward({&step, 1})[0]);
      }
    }
    return out;
  };
  for (const std::string plain :
       {"quest:budget=24,page=4,dense_layers=0", "sparq:budget=24,r=4",
        "clusterkv:budget=24,cluster_tokens=8,dense_layers=0,placement=device",
        "pqcache:budget=24,sinks=2,placement=device"}) {
    const std::string encoded = plain + "+kivi:residual=32";
    auto want = run_forks({plain});
    want.merge(run_forks({encoded}));
    EXPECT_NE(want[plain], want[encoded]);
    EXPECT_EQ(run_forks({plain, encoded}), want) << plain;
    EXPECT_EQ(run_forks({encoded, plain}), want) << plain;
  }
}

// A codec that rounds to bfloat16 has the results of a cache in bfloat16 for all readers: rows of
// the same pass, of later chunks, steps, statistics, indices and shifted positions.
TEST_F(Codec, IsReadByAllThatReadTheCache) {
  for (const Method& method : other_methods()) {
    SCOPED_TRACE(method.canonical());
    // A retriever stores its keys in the KV dtype, without the codec.
    if (capability<StepRetrieval>(method.policies().selection.get()) != nullptr) continue;
    const Run want = run(machine({.kv_dtype = DType::kBF16}).engine, method.make());
    EXPECT_TRUE(run(machine().engine, with_codec(method.make(), DType::kBF16)) == want);
    EXPECT_FALSE(run(machine().engine, method.make()) == want);
  }
}

TEST_F(Codec, DoesNotDependOnChunksForksAndBatches) {
  ConformanceChecks checks;
  for (const char* spec : {"int8", "int8+snapkv:budget=24,window=4", "quest:budget=24,page=4+int8",
                           "minference:vertical=30,slash=100+int8+h2o:budget=24",
                           "snapkv:budget=100,window=4+kivi:residual=32",
                           "quest:budget=24,page=4+kivi:residual=32,bits=8"}) {
    for (const auto& [name, check] : ConformanceChecks::all())
      EXPECT_EQ(checks.finding(check, Candidate(Method::parse(spec))), "") << spec << " " << name;
  }
}

TEST_F(Codec, EncodesAHistoryWithoutIt) {
  Machine& m = machine();
  const std::vector<int> before = synthetic_tokens(100, 1), turn = synthetic_tokens(50, 2);
  Sequence history = m.engine.make_sequence({});
  const Pass pass{.sequence = &history, .tokens = before};
  m.engine.prefill({&pass, 1});
  const auto go_on = [&](Policies policies) {
    Conversation c(m.engine, history.fork_as(std::move(policies)));
    std::vector<Logits> out = {c.turn(turn), c.answer(5)};
    return std::pair(std::move(out), c.sequence.kv_bytes());
  };
  const auto plain = go_on({});
  const auto same = go_on(with_codec({}));
  EXPECT_EQ(same.first, plain.first);
  const auto rounded = go_on(Method::parse("int8").make());
  EXPECT_NE(rounded.first, plain.first);
  EXPECT_LT(distance(rounded.first, plain.first), 0.1);
  const auto head_dim = static_cast<std::size_t>(m.engine.shape().head_dim);
  EXPECT_EQ(rounded.second * 4 * head_dim, plain.second * (head_dim + 4));
  EXPECT_EQ(go_on({}), plain) << "the history is as it was";
}

TEST_F(Codec, StoresEncodedBytes) {
  Machine& m = machine();
  const ModelShape& shape = m.engine.shape();
  const std::vector<int> prompt = synthetic_tokens(150, 1);
  const auto row = static_cast<std::size_t>(shape.head_dim) + 4;
  const auto bytes = [&](std::size_t tokens, std::size_t rows) {
    return tokens * rows * row * static_cast<std::size_t>(shape.layers * shape.kv_heads);
  };
  {
    Conversation c(m.engine, Method::parse("int8").make());
    c.turn(prompt);
    EXPECT_EQ(c.sequence.kv_bytes(), bytes(150, 2));
    EXPECT_EQ(c.sequence.resident_kv_bytes(), bytes(150, 2));
    const PageLayout& layout = c.sequence.at(0).kv.pool()->layout();
    EXPECT_EQ(layout.row_bytes(KvRow::kKey), row);
    EXPECT_EQ(layout.row_bytes(KvRow::kValue), row);
    EXPECT_EQ(m.engine.memory().kv_bytes(), kv_bytes_of(layout, shape.layers, shape.kv_heads, 150));
    EXPECT_EQ(m.engine.memory().kv_bytes(), c.sequence.page_bytes());
    EXPECT_EQ(m.engine.memory().peak_kv_bytes(), m.engine.memory().kv_bytes());
  }
  EXPECT_EQ(m.engine.memory().kv_bytes(), 0u);
  Conversation shifted(m.engine, Method::parse("int8+streamingllm:budget=40,pos=shift").make());
  shifted.turn(prompt);
  EXPECT_EQ(shifted.sequence.kv_bytes(), bytes(40, 3));
}

// The decoded copies of a layer are in scratch memory, which is estimated before a pass.
TEST_F(Codec, CountsDecodedCopiesAsWorkspace) {
  Machine m("llama3");
  const std::vector<int> prompt = synthetic_tokens(640, 1);
  const auto workspace = [&](const char* spec) {
    m.engine.memory().release_workspace();
    Conversation c(m.engine, Method::parse(spec).make());
    c.turn(prompt);
    const std::size_t out = m.engine.memory().workspace_bytes();
    m.engine.memory().release_workspace();
    EXPECT_EQ(m.engine.memory().workspace_bytes(), 0u);
    return out;
  };
  const ModelShape& shape = m.engine.shape();
  const PageLayout layout{shape.head_dim, DType::kF32, false};
  const std::size_t layer = kv_bytes_of(layout, 1, shape.kv_heads, 640);
  const std::size_t copies = workspace("int8") - workspace("full");
  EXPECT_GE(copies, layer);
  EXPECT_LE(copies, 2 * layer) << "slabs double";
  const Policies one = Method::parse("int8").make(), two = Method::parse("int8+quest").make();
  const auto estimate = [&](const Policies& policies, bool prompt_end) {
    return decoded_bytes_of(policies, shape, layout, shape.kv_heads, 640, prompt_end);
  };
  EXPECT_EQ(estimate({}, true), 0u);
  EXPECT_EQ(estimate(one, true), layer);
  EXPECT_EQ(estimate(two, false), layer);
  EXPECT_EQ(estimate(two, true), 2 * layer);
}

TEST(CodecTime, IsAPhaseOfAProfile) {
  Machine machine("llama3");
  for (const char* spec : {"int8", "kivi:residual=32"}) {
    Conversation c(machine.engine, Method::parse(spec).make());
    Profile profile(machine.engine.shape().layers);
    machine.engine.measure_phases(&profile);
    c.turn(synthetic_tokens(150, 1));
    c.answer(5);
    machine.engine.measure_phases(nullptr);
    for (const PhaseSeconds& layer : profile.layers())
      EXPECT_GT(layer[static_cast<std::size_t>(Phase::kCodec)], 0) << spec;
  }
}

TEST_F(Codec, FitsWhereFullPrecisionIsRefused) {
  const std::vector<int> prompt = synthetic_tokens(1900, 1);
  Machine& m = machine();
  const auto fits = [&](const char* spec, Engine::Options options) {
    Engine engine(m.model, *m.backend, options);
    Conversation c(engine, Method::parse(spec).make());
    try {
      c.turn(prompt);
      return true;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kMemory);
      return false;
    }
  };
  const auto least = [&](const char* spec) {
    std::size_t refused = 0, enough = std::size_t{1} << 32;
    while (enough - refused > 64) {
      const std::size_t middle = (refused + enough) / 2;
      (fits(spec, {.memory_limit = middle}) ? enough : refused) = middle;
    }
    return enough;
  };
  const ModelShape& shape = m.engine.shape();
  const auto pages = [&](int layers, EncodedBytes encoded) {
    return kv_bytes_of({shape.head_dim, DType::kF32, false, encoded}, layers, shape.kv_heads, 1900);
  };
  const auto row = static_cast<std::uint16_t>(shape.head_dim + 4);
  const EncodedBytes rows{row, row};
  const std::size_t saved = pages(shape.layers, {}) - pages(shape.layers, rows) - pages(1, {});
  EXPECT_NEAR(static_cast<double>(least("full") - least("int8")), static_cast<double>(saved), 128);
  const Engine::Options limit{.kv_limit = pages(shape.layers, rows)};
  EXPECT_TRUE(fits("int8", limit));
  EXPECT_FALSE(fits("full", limit));
}

// The same tokens cross the link, as encoded bytes.
TEST_F(Codec, TransfersEncodedBytes) {
  Machine& m = machine();
  const std::vector<int> prompt = synthetic_tokens(150, 1), question = synthetic_tokens(30, 2);
  const auto moved = [&](const std::string& spec) {
    Conversation c(m.engine, Method::parse(spec).make());
    c.turn(prompt);
    c.answer(5);
    c.turn(question);
    c.answer(6);
    return c.sequence.counters.ledger.total();
  };
  const std::string host = ":placement=host,cache_tokens=32,cache_block=8";
  const LedgerEntry full = moved("full" + host), encoded = moved("int8" + host);
  const std::int64_t dim = m.engine.shape().head_dim;
  for (const LedgerField& field : kLedgerFields) {
    const bool is_kv = std::string_view(field.name).ends_with("_bytes");
    EXPECT_EQ(encoded.*field.value * (is_kv ? 4 * dim : 1),
              full.*field.value * (is_kv ? dim + 4 : 1))
        << field.name;
  }
  EXPECT_GT(encoded.prefill_bytes, 0);
  EXPECT_GT(encoded.kv_fetch_bytes, 0);
  EXPECT_GT(encoded.writeback_bytes, 0);
}

std::string message_of(const std::function<void()>& act) {
  try {
    act();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(CodecRefusals, NameWhatIsExpected) {
  Machine machine("llama3", std::make_unique<GuardedBackend>(make_cpu_backend(2),
                                                             std::make_shared<Territories>(), 0,
                                                             /*is_device=*/true));
  EXPECT_EQ(message_of([&] { machine.engine.make_sequence(Method::parse("int8").make()); }),
            "int8: found a codec of the cache on a GPU, expected the CPU backend: rows are encoded "
            "and decoded by the host");
  EXPECT_EQ(
      message_of([] { Method::parse("int8+shadowkv"); }),
      "method: shadowkv+int8: found a codec of the cache with a selection that rebuilds keys, "
      "expected no codec: rebuilt keys are not encoded");
  EXPECT_NE(message_of([] { Method::parse("int8+int8"); }), "");
}

TEST(CodecRefusals, OfRowsBeyondThePageLayout) {
  Policies policies = with_codec({});
  policies.method = "wide";
  EXPECT_EQ(policies.encoded_bytes(16'383), (EncodedBytes{65'533, 65'535}));
  EXPECT_EQ(message_of([&] { policies.encoded_bytes(16'384); }),
            "wide: found encoded rows of 65537 bytes, expected at most 65535");
}

TEST(CodecRefusals, OfForksWithOtherRows) {
  Machine machine("llama3", make_cpu_backend(1));
  Conversation prefix(machine.engine, Policies{});
  Sequence fork = machine.engine.make_sequence(Method::parse("int8").make());
  const std::vector<int> prompt = synthetic_tokens(10, 1);
  EXPECT_NE(message_of([&] { prefix.turn_with_forks(prompt, {&fork}); }).find("other encoded rows"),
            std::string::npos);
}

}  // namespace
}  // namespace turnbench::test
