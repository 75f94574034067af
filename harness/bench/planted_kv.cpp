#include "harness/bench/planted_kv.h"

#include <algorithm>
#include <cmath>

#include "common/normal.h"
#include "common/random.h"

namespace turnbench {
namespace {

constexpr int kKindsOfLayers = 3;
constexpr int kSinks = 4;
constexpr int kTopics = 256;   // per KV head
constexpr int kRun = 24;       // consecutive tokens with the same topic
constexpr int kLookedFor = 4;  // topics of a query; all but one are common to the heads of a group
constexpr int kStepsOfTopic = 8;  // for which a query keeps a topic
// Logits without noise, of a matching topic and of a sink; standard deviation of the noise.
constexpr double kTopicLogit = 9, kSinkLogit = 8, kNoiseLogit = 1.5;

std::uint64_t u(int i) {
  return static_cast<std::uint64_t>(i);
}

}  // namespace

PlantedKv::Head PlantedKv::planted(int layer, int set) const {
  return {layer % kKindsOfLayers, (set + layer / kKindsOfLayers) % shape_.kv_heads};
}

const PlantedKv::Topics& PlantedKv::topics(Head head) {
  const auto [layer, set] = head;
  Topics& out = topics_[{layer, set}];
  for (int number = static_cast<int>(out.size()); number <= kTopics; ++number) {
    Random random = Random::from({1, u(layer), u(set), u(number)});
    std::vector<float>& direction = out.emplace_back();
    double squares = 0;
    for (int d = 0; d < shape_.head_dim; ++d) {
      direction.push_back(static_cast<float>(normal(random)));
      squares += static_cast<double>(direction.back()) * direction.back();
    }
    for (float& x : direction) x /= static_cast<float>(std::sqrt(squares));
  }
  return out;
}

void PlantedKv::keys_and_values(int layer, int set, std::int32_t first, MatrixView<float> rows) {
  const Head head = planted(layer, set);
  if (rows.rows == 1) return plant(head, first, rows);
  std::vector<float>& known = rows_[{head.layer, head.set, first, rows.rows}];
  if (known.empty()) {
    known.resize(static_cast<std::size_t>(rows.rows * rows.columns));
    plant(head, first, {known.data(), rows.rows, rows.columns});
  }
  for (std::int64_t r = 0; r < rows.rows; ++r)
    std::copy_n(known.data() + r * rows.columns, rows.columns, rows.row(r));
}

// A query is the sum of the directions of its topics and of the sinks, each times the square root
// of head_dim, so that scaled scores equal the strengths of keys along these directions.
void PlantedKv::plant(Head head, std::int32_t first, MatrixView<float> rows) {
  const auto [layer, set] = head;
  const int dim = shape_.head_dim;
  const Topics& directions = topics(head);
  // A query has the length of kLookedFor + 1 directions.
  const double noise = kNoiseLogit / std::sqrt(kLookedFor + 1.0);
  for (std::int64_t r = 0; r < rows.rows; ++r) {
    const std::int32_t position = first + static_cast<std::int32_t>(r);
    Random run = Random::from({2, u(layer), u(set), u(position / kRun)});
    const bool is_sink = position < kSinks;
    const std::size_t number = is_sink ? kTopics : run.below(kTopics);
    const double strength = is_sink ? kSinkLogit : kTopicLogit * (0.5 + 0.5 * run.uniform());
    Random random = Random::from({3, u(layer), u(set), u(position)});
    float *key = rows.row(r), *value = key + dim;
    for (int d = 0; d < dim; ++d) {
      key[d] = static_cast<float>(strength * directions[number][d] + noise * normal(random));
      value[d] = static_cast<float>(normal(random));
    }
  }
}

void PlantedKv::queries(int layer, std::int32_t first, MatrixView<float> rows) {
  const int dim = shape_.head_dim;
  const double length = std::sqrt(static_cast<double>(dim));
  for (std::int64_t r = 0; r < rows.rows; ++r) {
    const std::int32_t position = first + static_cast<std::int32_t>(r);
    for (int h = 0; h < shape_.heads; ++h) {
      const Head head = planted(layer, h / shape_.group());
      const int like = head.set * shape_.group() +
                       h % shape_.group();  // the head of the first layers that this one repeats
      float* q = rows.row(r) + h * dim;
      std::fill(q, q + dim, 0.0f);
      for (int i = 0; i <= kLookedFor; ++i) {
        // Topics change one at a time.
        const int owner = i == 0 ? like : head.set;
        Random random =
            Random::from({4, u(head.layer), u(owner), u(i),
                          u((position + i * kStepsOfTopic / kLookedFor) / kStepsOfTopic)});
        const int number = i == kLookedFor ? kTopics : static_cast<int>(random.below(kTopics));
        const std::vector<float>& direction = topics(head)[number];
        for (int d = 0; d < dim; ++d) q[d] += static_cast<float>(length * direction[d]);
      }
    }
  }
}

}  // namespace turnbench
