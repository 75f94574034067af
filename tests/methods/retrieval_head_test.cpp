// Queries and keys of a draft model's layer, compared with weights that PyTorch computed from the
// same checkpoints (tests/golden/make_draft_golden.py), and checkpoints that are refused.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "common/error.h"
#include "common/file.h"
#include "methods/method.h"
#include "methods/parts/retrieval_head.h"
#include "tests/backends/backend.h"
#include "tests/inference/conversation.h"
#include "tests/message_of.h"
#include "tests/temporary_directory.h"

namespace turnbench {
namespace {

namespace fs = std::filesystem;
const fs::path kDrafts = TURNBENCH_SOURCE_DIR "/tests/data/methods/draft";
constexpr int kDraftTokens = 40, kTargetWidth = 64;

/// A tensor of a golden file as float32.
std::vector<float> draft_golden(const std::string& name,
                                const std::string& file_name = "golden.safetensors") {
  const MappedFile file(kDrafts / file_name);
  const Safetensors all = Safetensors::from_memory(file.bytes(), "golden");
  const TensorView& t = all.all().at(name);
  std::vector<float> out(t.bytes.size() / size_of(t.dtype));
  std::vector<std::byte> bytes(t.bytes.begin(), t.bytes.end());
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = load_element(bytes.data(), t.dtype, i);
  return out;
}

/// A head for a model with embeddings and hidden states only.
class DraftOfNoModel {
 public:
  DraftOfNoModel(const std::string& folder, bool previous)
      : backend_(test::make_backend(2)),
        states_(draft_golden("states")),
        settings_{.checkpoint = std::make_shared<const DraftCheckpoint>(
                      DraftCheckpoint::open(kDrafts / folder)),
                  .name = folder,
                  .previous_features = previous,
                  .longest = 128,
                  .original = 32},
        retriever_(make_retrieval_head(settings_)) {
    config_.hidden = kTargetWidth;
    config_.vocab = 128;
    config_.layers = 8;
    const std::vector<float> table = draft_golden("embedding");
    embedding_ = backend_->make_matrix(config_.vocab, kTargetWidth, DType::kF32, Math::kF32);
    embedding_->set_rows(0, reinterpret_cast<const std::byte*>(table.data()), DType::kF32,
                         config_.vocab);
    for (const float token : draft_golden("tokens")) tokens_.push_back(static_cast<int>(token));
    layers_ = head_shape(settings_, config_).feature_layers;
  }

  RetrieverPass pass(int end, int rows) {
    return {.config = config_,
            .weight_dtype = DType::kF32,
            .key_dtype = DType::kF32,
            .tokens = std::span(tokens_).first(static_cast<std::size_t>(end)),
            .rows = rows,
            .backend = *backend_,
            .embedding = *embedding_,
            .resources = resources_,
            .scratch = scratch_,
            .key_pool = [this](int head_dim) { return pool(head_dim); }};
  }

  /// Passes of `rows` rows over the first `end` tokens.
  void read(int end, int rows) {
    for (int first = seen_; first < end; first += rows) {
      const int count = std::min(rows, end - first);
      const RetrieverPass view = pass(first + count, count);
      retriever_->begin_pass(view);
      end_pass(view);
    }
    seen_ = end;
  }

  /// The weights of the step of the next token, as `lists` lists.
  std::vector<std::vector<float>> step(int lists) {
    const RetrieverPass view = pass(++seen_, 1);
    retriever_->begin_pass(view);
    std::vector<std::vector<float>> out =
        test::rows_on_host(*backend_, retriever_->weights(view, lists));
    end_pass(view);
    return out;
  }

  Retriever& retriever() { return *retriever_; }
  void truncate(int tokens) {
    retriever_->truncate(tokens);
    seen_ = tokens;
  }

 private:
  /// Provides the hidden states of the layers that are read.
  void end_pass(const RetrieverPass& view) {
    const int first = static_cast<int>(view.tokens.size()) - view.rows;
    for (int l = 0; l < config_.layers; ++l) {
      if (!retriever_->reads_layer(config_, l)) continue;
      const auto i = std::find(layers_.begin(), layers_.end(), l) - layers_.begin();
      Buffer hidden(static_cast<std::size_t>(view.rows * kTargetWidth) * sizeof(float),
                    backend_->memory());
      backend_->memory()->copy_floats(states_.data() + (i * kDraftTokens + first) * kTargetWidth,
                                      hidden.as<float>(),
                                      static_cast<std::size_t>(view.rows * kTargetWidth));
      retriever_->enter_layer(view, l,
                              MatrixView<const float>(hidden.as<float>(), view.rows, kTargetWidth));
      backend_->memory()->synchronize();
    }
  }
  std::shared_ptr<KvPool> pool(int head_dim) {
    if (pool_ == nullptr) {
      pool_ =
          std::make_shared<KvPool>(PageLayout{head_dim, DType::kF32, false}, backend_->memory());
    }
    return pool_;
  }

  std::unique_ptr<Backend> backend_;
  std::vector<float> states_;  // [features, tokens, hidden]
  ModelConfig config_;
  std::unique_ptr<WeightMatrix> embedding_;
  std::vector<int> tokens_, layers_;
  LayerMemo resources_;
  Scratch scratch_{backend_->memory()};
  std::shared_ptr<KvPool> pool_;
  RetrievalHeadSettings settings_;
  std::unique_ptr<Retriever> retriever_;
  int seen_ = 0;
};

/// got: log-probabilities; want: probabilities.
void expect_probabilities_near(const std::vector<float>& got, const float* want,
                               const std::string& what) {
  for (std::size_t i = 0; i < got.size(); ++i)
    ASSERT_NEAR(std::exp(got[i]), want[i], 2e-5) << what << " " << i;
}

TEST(RetrievalHead, WeightsEqualPyTorchs) {
  for (const auto& [folder, heads] : {std::pair("midlayer", 4), std::pair("layers", 3)}) {
    for (const bool previous : {false, true}) {
      const std::vector<float> want =
          draft_golden(std::string(folder) + (previous ? ".prev" : ".none"));
      std::vector<std::vector<float>> first;
      for (const int rows : {kDraftTokens, 7, 1}) {
        DraftOfNoModel head(folder, previous);
        head.read(kDraftTokens - 1, rows);
        std::vector<std::vector<float>> got = head.step(heads);
        ASSERT_EQ(got.size(), static_cast<std::size_t>(heads));
        if (first.empty()) first = got;
        if (!test::is_emulated()) {
          EXPECT_EQ(got, first) << "passes of " << rows << " rows";
        }
        for (int h = 0; h < heads; ++h) {
          std::vector<float>& weights = got[h];
          ASSERT_EQ(weights.size(), static_cast<std::size_t>(kDraftTokens));
          if (previous) {
            EXPECT_GT(weights[0], 1) << "the first token is read in any case";
            weights.erase(weights.begin());
          }
          expect_probabilities_near(weights, want.data() + h * std::ssize(weights), folder);
        }
      }
    }
  }
}

/// Reads all tokens, and stores the head's weights of the last step.
class RecordsWeights : public SelectionPolicy, public StepRetrieval {
 public:
  using Rows = std::vector<std::vector<float>>;
  RecordsWeights(RetrievalHeadSettings settings, std::shared_ptr<Rows> weights)
      : settings_(std::move(settings)), weights_(std::move(weights)) {}
  std::unique_ptr<SelectionPolicy> clone() const override {
    return std::make_unique<RecordsWeights>(*this);
  }
  SelectionTraits traits() const override { return {.needs_every_pass = true}; }
  std::unique_ptr<Retriever> make_retriever() const override {
    return make_retrieval_head(settings_);
  }
  void begin_step(const StepView& step) override {
    *weights_ = test::rows_on_host(
        step.pass.backend, step.retriever.weights(step.pass, settings_.checkpoint->shape().heads));
  }
  Selection select(const LayerView&) override { return {}; }

 private:
  RetrievalHeadSettings settings_;
  std::shared_ptr<Rows> weights_;
};

// The embedded draft on the hidden states of its model.
TEST(RetrievalHead, WeightsOfTheTrainedDraftEqualPyTorchs) {
  if (test::is_emulated()) GTEST_SKIP() << "a model of two layers";
  const auto backend = test::make_backend(2);
  const Model model(Checkpoint::open("tiny"), *backend, DType::kF32, Math::kF32);
  Engine engine(model, *backend, {});
  const RetrievalHeadSettings settings{
      .checkpoint = std::make_shared<const DraftCheckpoint>(DraftCheckpoint::of_tiny()),
      .name = "tiny",
      .previous_features = true,
      .longest = 128,
      .original = 32};
  const auto weights = std::make_shared<RecordsWeights::Rows>();
  test::Conversation talk(
      engine, Policies{.selection = std::make_unique<RecordsWeights>(settings, weights)});
  std::vector<int> tokens;
  for (const float token : draft_golden("tokens", "tiny.safetensors"))
    tokens.push_back(static_cast<int>(token));
  talk.turn(std::span(tokens).first(tokens.size() - 1));
  talk.answer(tokens.back());
  const std::vector<float> want = draft_golden("weights", "tiny.safetensors");
  ASSERT_EQ(weights->size(), 6u);
  for (std::size_t h = 0; h < weights->size(); ++h) {
    std::vector<float>& got = (*weights)[h];
    ASSERT_EQ(got.size(), tokens.size());
    got.erase(got.begin());  // the first token has no row
    expect_probabilities_near(got, want.data() + h * got.size(), "head " + std::to_string(h));
  }
}

TEST(RetrievalHead, ContinuesAfterTruncation) {
  DraftOfNoModel head("midlayer", false), other("midlayer", false);
  head.read(kDraftTokens - 1, 16);
  head.truncate(20);
  EXPECT_EQ(head.retriever().key_bytes(), 20u * 2 * 16 * 4);
  head.read(kDraftTokens - 1, 16);
  other.read(kDraftTokens - 1, 16);
  const std::vector<std::vector<float>> got = head.step(4), want = other.step(4);
  for (std::size_t h = 0; h < want.size(); ++h) {
    for (std::size_t i = 0; i < want[h].size(); ++i)
      ASSERT_NEAR(got[h][i], want[h][i], 1e-4) << "passes of other sizes " << i;
  }
  DraftOfNoModel features("midlayer", true);
  features.read(30, 16);
  features.truncate(20);
  EXPECT_NE(test::message_of([&] { features.read(30, 16); }).find("feat=prev: found 20 tokens"),
            std::string::npos);
}

// Four query heads: one for each list, the maximum of several, or one for several lists.
TEST(RetrievalHead, ListTakesTheMaximumOfItsHeads) {
  for (const bool previous : {false, true}) {
    const auto weights = [&](int lists) {
      DraftOfNoModel head("midlayer", previous);
      head.read(kDraftTokens - 1, 16);
      return head.step(lists);
    };
    const std::vector<std::vector<float>> four = weights(4);
    const auto greatest = [&](std::size_t begin, std::size_t end) {
      std::vector<float> out = four[begin];
      for (std::size_t h = begin + 1; h < end; ++h) {
        for (std::size_t j = 0; j < out.size(); ++j) out[j] = std::max(out[j], four[h][j]);
      }
      return out;
    };
    using Rows = std::vector<std::vector<float>>;
    EXPECT_EQ(weights(2), (Rows{greatest(0, 2), greatest(2, 4)}));  // GQA
    EXPECT_EQ(weights(1), (Rows{greatest(0, 4)}));                  // MQA
    EXPECT_EQ(weights(3), (Rows{greatest(0, 1), greatest(1, 2), greatest(2, 4)}));
    EXPECT_EQ(weights(8),
              (Rows{four[0], four[0], four[1], four[1], four[2], four[2], four[3], four[3]}));
  }
}

TEST(RetrievalHead, CountsItsWeights) {
  ModelConfig config;
  config.hidden = kTargetWidth;
  config.layers = 8;
  config.vocab = 128;
  RetrievalHeadSettings s;
  s.checkpoint =
      std::make_shared<const DraftCheckpoint>(DraftCheckpoint::open(kDrafts / "midlayer"));
  const std::size_t of_embedding = (4 + 2) * 16 * 64;
  EXPECT_EQ(head_bytes(s, config, DType::kBF16), 2 * of_embedding);
  s.previous_features = true;
  EXPECT_EQ(head_bytes(s, config, DType::kF32), 4 * (2 * of_embedding + 3 * 64 * 64));
  EXPECT_EQ(head_shape(s, config).feature_layers, (std::vector<int>{2, 4, 5}));
}

/// A copy of a draft's checkpoint, whose files can be changed.
class DraftFiles {
 public:
  explicit DraftFiles(const std::string& folder) {
    for (const char* name : {"config.json", "model.safetensors"})
      fs::copy_file(kDrafts / folder / name, path() / name);
  }
  const fs::path& path() const { return directory_.path(); }
  void replace(const char* file, const std::string& from, const std::string& to) {
    std::string text = read_file(path() / file);
    const std::size_t at = text.find(from);
    ASSERT_NE(at, std::string::npos) << from;
    text.replace(at, from.size(), to);
    std::ofstream(path() / file, std::ios::binary) << text;
  }
  std::string message() const {
    return test::message_of([&] { DraftCheckpoint::open(path()); });
  }

 private:
  test::TemporaryDirectory directory_;
};

TEST(DraftCheckpoint, RejectsInvalidCheckpoints) {
  const auto expect = [](const std::string& message, const std::string& part) {
    EXPECT_NE(message.find(part), std::string::npos) << message;
  };
  {
    DraftFiles files("midlayer");
    files.replace("model.safetensors", "\"fc.weight\"", "\"fc.wEight\"");
    expect(files.message(), "found no tensor fc.weight, expected one");
  }
  {
    DraftFiles files("midlayer");
    files.replace("config.json", "\"hidden_size\": 64", "\"hidden_size\": 32");
    expect(files.message(),
           "/midlayer.self_attn.q_proj.weight: found the shape [64, 128], "
           "expected [64, 64]");
  }
  {
    DraftFiles files("layers");
    files.replace("model.safetensors", "\"model.embed_tokens.weight\"",
                  "\"model.embed_tokens.weighT\"");
    expect(files.message(), "found no tensor embed_tokens.weight");
  }
  {
    DraftFiles files("midlayer");
    files.replace("config.json", "\"vocab_size\"",
                  "\"rope_scaling\": {\"type\": \"linear\"}, \"vocab_size\"");
    expect(files.message(), "/rope_scaling: found");
  }
  {
    DraftFiles files("midlayer");
    fs::rename(files.path() / "model.safetensors", files.path() / "pytorch_model.bin");
    expect(files.message(), "found pytorch_model.bin, expected model.safetensors; convert it: ");
  }
  expect(test::message_of([] { DraftCheckpoint::open("/no/such"); }), "/no/such: found no such");
}

TEST(DraftCheckpoint, MustFitTheModel) {
  ModelConfig config;
  config.hidden = kTargetWidth;
  config.layers = 6;
  RetrievalHeadSettings s;
  s.checkpoint =
      std::make_shared<const DraftCheckpoint>(DraftCheckpoint::open(kDrafts / "midlayer"));
  EXPECT_NO_THROW(head_shape(s, config));
  s.previous_features = true;
  EXPECT_NE(test::message_of([&] {
              head_shape(s, config);
            }).find("found no eagle_aux_hidden_state_layer_ids, expected them for a model of 6"),
            std::string::npos);
  s.checkpoint = std::make_shared<const DraftCheckpoint>(DraftCheckpoint::open(kDrafts / "layers"));
  EXPECT_NO_THROW(head_shape(s, config));
  config.layers = 2;
  EXPECT_NE(test::message_of([&] {
              head_shape(s, config);
            }).find("found hidden states of layer 2, expected one of 0 to 1"),
            std::string::npos);
  config.hidden = 32;
  EXPECT_NE(test::message_of([&] {
              head_shape(s, config);
            }).find("found a draft for a model with hidden_size 64, expected 32"),
            std::string::npos);
  s.checkpoint = std::make_shared<const DraftCheckpoint>(DraftCheckpoint::of_tiny());
  EXPECT_EQ(test::message_of([&] { head_shape(s, config); }),
            "head=tiny (for the model tiny only): found a draft for a model with hidden_size 192, "
            "expected 32");
}

TEST(DraftCheckpoint, TheEmbeddedOneIsTheFile) {
  const std::string file = TURNBENCH_SOURCE_DIR "/models/tiny/retrieval_head";
  EXPECT_EQ(DraftCheckpoint::of_tiny().content_hash(), DraftCheckpoint::open(file).content_hash());
  const std::string canonical = Method::parse("specontext:head=tiny").canonical();
  EXPECT_NE(canonical.find(",head=tiny#" + DraftCheckpoint::of_tiny().content_hash().substr(0, 12)),
            std::string::npos)
      << canonical;
  EXPECT_EQ(Method::parse(canonical).canonical(), canonical);
}

// Files that are read are part of the method's name; other files are not.
TEST(DraftCheckpoint, IsHashedIntoTheMethod) {
  DraftFiles files("midlayer");
  const std::string spec = "specontext:head=" + files.path().string();
  const std::string canonical = Method::parse(spec).canonical();
  EXPECT_NE(canonical.find(",head=" + files.path().string() + "#"), std::string::npos) << canonical;
  EXPECT_EQ(Method::parse(canonical).canonical(), canonical);
  std::string bytes = read_file(files.path() / "model.safetensors");
  std::uint64_t header = 0;
  std::memcpy(&header, bytes.data(), sizeof(header));
  const auto change = [&](const std::string& tensor) {
    const std::string name = "\"" + tensor + "\"";
    const std::size_t entry = bytes.find(name),
                      offsets = bytes.find("data_offsets\":[", entry) + 15;
    std::string other = bytes;
    other[8 + header + std::stoull(bytes.substr(offsets))] ^= 1;
    std::ofstream(files.path() / "model.safetensors", std::ios::binary) << other;
  };
  change("norm.weight");
  EXPECT_EQ(Method::parse(spec).canonical(), canonical);
  change("midlayer.self_attn.k_proj.weight");
  EXPECT_NE(Method::parse(spec).canonical(), canonical);
  EXPECT_NE(test::message_of([&] { Method::parse(canonical); }).find("expected"),
            std::string::npos);
}

}  // namespace
}  // namespace turnbench
