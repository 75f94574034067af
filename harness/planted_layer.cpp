#include "harness/planted_layer.h"

#include <cmath>
#include <numbers>

#include "common/random.h"

namespace turnbench {
namespace {

constexpr double kNoise = 0.25;      // of every element
constexpr double kSink = 10;         // of the first four keys
constexpr double kColumn = 8;        // of one key in 500
constexpr double kSecondBand = 0.8;  // strength of the band around each head's own offset

double normal(Random& random) {
  const double radius = std::sqrt(-2 * std::log(1 - random.uniform()));
  return radius * std::cos(2 * std::numbers::pi * random.uniform());
}

}  // namespace

PlantedLayer::PlantedLayer(Backend& backend, const ModelShape& shape, int tokens)
    : backend_(backend),
      shape_(shape),
      n_(tokens),
      q_(static_cast<std::size_t>(tokens) * width()),
      out_(q_.size()) {
  auto pool = std::make_shared<KvPool>(PageLayout{shape.head_dim, DType::kF32, false});
  for (int s = 0; s < shape.kv_heads; ++s) plant(s, pool);
  for (int i = 0; i < n_; ++i) positions_.push_back(i);
  dialogue_.seed = 1;
}

// Dimension 0 holds the sinks, 1 the columns, the others waves: cos and sin of w * position for
// keys, shifted by the head's offsets for queries, so that logits depend on the distance.
void PlantedLayer::plant(int set, const std::shared_ptr<KvPool>& pool) {
  Random random(static_cast<std::uint64_t>(set) + 1);
  const auto d = static_cast<std::size_t>(shape_.head_dim), waves = (d - 2) / 2;
  const double peak =
      std::sqrt(13.0 * std::sqrt(static_cast<double>(d)) / static_cast<double>(waves));
  std::vector<double> frequency;
  for (std::size_t w = 0; w < waves; ++w)
    frequency.push_back(std::pow(10.0, -2.5 * random.uniform()));
  KvSet keys(pool);
  std::vector<float> key(d), value(d);
  for (int j = 0; j < n_; ++j) {
    for (float& x : key) x = static_cast<float>(kNoise * normal(random));
    for (float& x : value) x = static_cast<float>(kNoise * normal(random));
    if (j < 4) key[0] += static_cast<float>(kSink);
    if (random.uniform() < 0.002) key[1] += static_cast<float>(kColumn);
    for (std::size_t w = 0; w < waves; ++w) {
      const double angle = frequency[w] * j;
      key[2 + 2 * w] += static_cast<float>(peak * std::cos(angle));
      key[3 + 2 * w] += static_cast<float>(peak * std::sin(angle));
    }
    keys.append(key.data(), value.data(), nullptr, j);
  }
  sets_.push_back(std::move(keys));
  for (int h = set * shape_.group(); h < (set + 1) * shape_.group(); ++h) {
    const double second = 100 + random.uniform() * n_ / 2;
    for (int i = 0; i < n_; ++i) {
      float* q =
          q_.data() + static_cast<std::size_t>(i) * width() + static_cast<std::size_t>(h) * d;
      q[0] = q[1] = 10.0f;
      for (std::size_t w = 0; w < waves; ++w) {
        const double near = frequency[w] * i, far = frequency[w] * (i - second);
        q[2 + 2 * w] += static_cast<float>(peak * (std::cos(near) + kSecondBand * std::cos(far)));
        q[3 + 2 * w] += static_cast<float>(peak * (std::sin(near) + kSecondBand * std::sin(far)));
      }
    }
  }
}

void PlantedLayer::run(PrefillPolicy* policy) {
  const float scale = 1 / std::sqrt(static_cast<float>(shape_.head_dim));
  patterns_.clear();
  if (policy != nullptr) {
    AttentionStats stats(backend_, shape_, scale, 0, sets_,
                         {q_.data(), width(), positions_.data(), n_}, nullptr);
    // A middle layer: some methods leave the first ones dense.
    patterns_ = policy->plan({shape_.layers / 2, shape_, sets_, stats, dialogue_, 0, n_, 0, 0});
  }
  std::vector<AttentionJob> jobs;
  for (std::size_t s = 0; s < sets_.size(); ++s) {
    const auto first = s * static_cast<std::size_t>(shape_.group()),
               at = first * static_cast<std::size_t>(shape_.head_dim);
    AttentionJob job;
    job.keys = &sets_[s];
    job.q = q_.data() + at;
    job.out = out_.data() + at;
    job.q_stride = job.out_stride = width();
    job.heads = shape_.group();
    job.positions = positions_.data();
    job.rows = n_;
    job.pass = {0, n_};
    if (!patterns_.empty()) job.patterns = patterns_.data() + first;
    jobs.push_back(job);
  }
  backend_.attend(scale, jobs);
}

double PlantedLayer::dense_pairs() const {
  return shape_.heads * 0.5 * n_ * (n_ + 1.0);
}

double PlantedLayer::pairs() const {
  if (patterns_.empty()) return dense_pairs();
  double pairs = 0;
  for (const HeadPattern& p : patterns_) pairs += static_cast<double>(pattern_pairs(p, {0, n_}));
  return pairs;
}

}  // namespace turnbench
