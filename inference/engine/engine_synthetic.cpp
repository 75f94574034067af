// The part of the engine that measures attention on synthetic keys and values.

#include <algorithm>

#include "common/clock.h"
#include "common/random.h"
#include "inference/engine/encoded_rows.h"
#include "inference/engine/engine.h"

namespace turnbench {

namespace {

constexpr std::int32_t kFilledAtOnce = 64 * kPageTokens;

/// Uniform random numbers in [-1, 1), drawn in the order of the requests.
class RandomKv : public KvSource {
 public:
  RandomKv(Backend& backend, std::uint64_t seed) : backend_(backend), random_(seed) {}

  void keys_and_values(int, int, std::int32_t, MatrixView<float> rows) override { draw(rows); }
  void queries(int, std::int32_t, MatrixView<float> rows) override { draw(rows); }

 private:
  void draw(MatrixView<float> rows) {
    backend_.parallel_for(static_cast<std::size_t>(rows.rows), [&](std::size_t r) {
      Random own = random_;
      own.skip(r * static_cast<std::size_t>(rows.columns));
      float* row = rows.row(static_cast<std::int64_t>(r));
      for (std::int64_t i = 0; i < rows.columns; ++i)
        row[i] = static_cast<float>(2 * own.uniform() - 1);
    });
    random_.skip(static_cast<std::uint64_t>(rows.rows * rows.columns));
  }

  Backend& backend_;
  Random random_;
};

}  // namespace

void Engine::fill_random_kv(Sequence& sequence, std::span<const int> tokens,
                            const DialogueView& dialogue, std::uint64_t seed) {
  RandomKv source(core_.stages.front().backend, seed);
  fill_kv(sequence, tokens, dialogue, source, seed);
}

void Engine::fill_kv(Sequence& sequence, std::span<const int> tokens, const DialogueView& dialogue,
                     KvSource& source, std::uint64_t seed) {
  const auto n = static_cast<std::int32_t>(tokens.size());
  const std::int64_t head_dim = core_.shape.head_dim, width = head_dim * core_.shape.heads;
  const std::int32_t rows = std::clamp(sequence.tail_rows(), 1, n);
  std::vector<float> block, queries(rows * width);
  const std::vector<std::int32_t> positions = slots_between(n - rows, n);
  sequence.tokens.assign(tokens.begin(), tokens.end());
  DialogueView view = dialogue;
  view.tokens = sequence.tokens;
  const Pass pass{.sequence = &sequence, .tokens = tokens, .prompt_end = true};
  retrieval_.count_resources({&pass, 1});
  transfers_.begin_ledgers(pass);
  for (int l = 0; l < core_.shape.layers; ++l) {
    Stage& stage = core_.stage_of(l);
    auto& sets = sequence.sets(l);
    for (std::size_t s = 0; s < sets.size(); ++s) {
      KvHeadCache& set = sets[s];
      for (std::int32_t first = 0; first < n; first += kFilledAtOnce) {
        const int count = std::min(kFilledAtOnce, n - first);
        block.resize(2 * count * head_dim);
        source.keys_and_values(l, static_cast<int>(s), first, {block.data(), count, 2 * head_dim});
        stage.k.make_room(count, 2 * head_dim);
        stage.memory->copy_floats(block.data(), stage.k.data(), block.size());
        set.extend(slots_between(first, first + count));
        const MatrixView<const float> keys = stage.k.view.columns_at(0, head_dim);
        const AppendJob job{&set, first, keys, stage.k.view.columns_at(head_dim, head_dim),
                            set.layout().pre_rope_keys ? keys : MatrixView<const float>()};
        append_rows(stage.backend, {&job, 1}, sequence.policies.row_codec());
      }
    }
    std::vector<KvHeadCache> decoded;
    const std::span<const KvHeadCache> cached = decoded_sets(core_, sequence, l, sets, decoded);
    source.queries(l, n - rows, {queries.data(), rows, width});
    stage.q.make_room(rows, width);
    stage.memory->copy_floats(queries.data(), stage.q.data(), queries.size());
    QueryTail& tail = sequence.at(l).tail;
    for (std::int32_t r = 0; r < rows; ++r) tail.push(queries.data() + r * width, n - rows + r);
    AttentionStats stats(stage.backend, core_.shape, core_.scale,
                         core_.model.config().sliding_window[l], cached,
                         {stage.q.view, positions.data()}, &tail, &sequence.at(l).columns, seed);
    LayerView filled{l, core_.shape, cached, stats, view, n - rows, rows, n, 0};
    core_.add_tools(filled, stage.q.view);
    filled.scratch->clear();
    attention_.after_attention(l, pass, stats, filled);
  }
  retrieval_.begin_retrievers({&pass, 1}, {});
  sequence.prompt_tokens = n;
  sequence.next_position = sequence.policies.shifts_positions() ? sequence.sets(0)[0].size() : n;
  evict_by_scores(
      {.sequence = &sequence, .tokens = tokens, .dialogue = &dialogue, .prompt_end = true});
}

std::vector<double> Engine::attend_synthetic(const Pass& of, KvSource& source) {
  Pass pass = of;
  pass.all_logits = true;  // the last layer's rows are computed like those of other layers
  ForwardBatch batch = begin({&pass, 1});
  const auto began = Clock::now();
  begin_steps({&pass, 1}, batch);
  const double before = seconds_since(began);
  for (Stage& stage : core_.stages) decoder_.make_room(stage, batch);
  const std::int64_t head_dim = core_.shape.head_dim, rows = batch.rows;
  std::vector<float> queries(rows * batch.q_width), of_set(rows * 2 * head_dim),
      keys(rows * batch.kv_width), values(rows * batch.kv_width);
  std::vector<double> seconds;
  for (int l = 0; l < core_.shape.layers; ++l) {
    Stage& stage = core_.stage_of(l);
    const std::int32_t position = batch.positions[0];
    source.queries(l, position, {queries.data(), rows, batch.q_width});
    for (int s = 0; s < core_.shape.kv_heads; ++s) {
      source.keys_and_values(l, s, position, {of_set.data(), rows, 2 * head_dim});
      for (std::int64_t r = 0; r < rows; ++r) {
        const auto from = of_set.begin() + r * 2 * head_dim;
        const std::int64_t at = r * batch.kv_width + s * head_dim;
        std::copy_n(from, head_dim, keys.begin() + at);
        std::copy_n(from + head_dim, head_dim, values.begin() + at);
      }
    }
    stage.memory->copy_floats(queries.data(), stage.q.data(), queries.size());
    stage.memory->copy_floats(keys.data(), stage.k.data(), keys.size());
    stage.memory->copy_floats(values.data(), stage.v.data(), values.size());
    if (batch.pre_rope_keys)
      stage.memory->copy_floats(keys.data(), stage.pre_rope_k.data(), keys.size());
    const auto start = Clock::now();
    transfers_.append_keys(l, {&pass, 1}, batch);
    attention_.run(l, {&pass, 1}, batch);
    stage.memory->synchronize();
    seconds.push_back(seconds_since(start));
  }
  seconds.front() += before;
  end({&pass, 1});
  return seconds;
}

}  // namespace turnbench
