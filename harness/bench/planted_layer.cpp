#include "harness/bench/planted_layer.h"

#include <cmath>
#include <numeric>

#include "common/normal.h"
#include "common/random.h"

namespace turnbench {
namespace {

constexpr double kNoise = 0.25;      // in every element
constexpr double kSink = 10;         // for the first four keys
constexpr double kColumn = 8;        // for one key in 500
constexpr double kSecondBand = 0.8;  // strength of the band around each head's own offset

}  // namespace

PlantedLayer::PlantedLayer(Backend& backend, const ModelShape& shape, int tokens, DType kv_dtype)
    : backend_(backend),
      shape_(shape),
      n_(tokens),
      q_(static_cast<std::size_t>(tokens) * width() * sizeof(float), backend.memory()),
      out_(q_.size(), backend.memory()),
      positions_(static_cast<std::size_t>(tokens)) {
  std::iota(positions_.begin(), positions_.end(), 0);
  dialogue_.seed = 1;
  std::vector<float> q(q_.size() / sizeof(float));
  std::vector<std::vector<float>> rows(static_cast<std::size_t>(shape.kv_heads));
  backend.parallel_for(rows.size(),
                       [&](std::size_t s) { rows[s] = plant(static_cast<int>(s), q); });

  Memory& memory = *backend.memory();
  memory.copy_floats(q.data(), q_.as<float>(), q.size());
  const auto pool =
      std::make_shared<KvPool>(PageLayout{shape.head_dim, kv_dtype, false}, backend.memory());
  const auto d = static_cast<std::size_t>(shape.head_dim);
  Buffer staged(rows[0].size() * sizeof(float), backend.memory());
  for (const std::vector<float>& set_rows : rows) {
    memory.copy_floats(set_rows.data(), staged.as<float>(), set_rows.size());
    KvHeadCache& set = sets_.emplace_back(pool);
    set.extend(positions_);
    const MatrixView<const float> from(staged.as<float>(), n_, 2 * d);
    const AppendJob job{&set, 0, from.columns_at(0, d), from.columns_at(d, d)};
    backend.append({&job, 1});
    memory.synchronize();
  }
}

// Dimension 0 encodes the sinks, dimension 1 the columns.  The others are waves, cos and sin of w *
// position for keys, and shifted by the head's offsets for queries, so that logits depend on the
// distance.
std::vector<float> PlantedLayer::plant(int set, std::vector<float>& queries) const {
  Random random(static_cast<std::uint64_t>(set) + 1);
  const auto d = static_cast<std::size_t>(shape_.head_dim), waves = (d - 2) / 2;
  const double peak =
      std::sqrt(13.0 * std::sqrt(static_cast<double>(d)) / static_cast<double>(waves));
  std::vector<double> frequency;
  for (std::size_t w = 0; w < waves; ++w)
    frequency.push_back(std::pow(10.0, -2.5 * random.uniform()));
  std::vector<float> rows(static_cast<std::size_t>(n_) * 2 * d);
  for (int j = 0; j < n_; ++j) {
    float *key = rows.data() + static_cast<std::size_t>(j) * 2 * d, *value = key + d;
    for (std::size_t i = 0; i < d; ++i) key[i] = static_cast<float>(kNoise * normal(random));
    for (std::size_t i = 0; i < d; ++i) value[i] = static_cast<float>(kNoise * normal(random));
    if (j < 4) key[0] += static_cast<float>(kSink);
    if (random.uniform() < 0.002) key[1] += static_cast<float>(kColumn);
    for (std::size_t w = 0; w < waves; ++w) {
      const double angle = frequency[w] * j;
      key[2 + 2 * w] += static_cast<float>(peak * std::cos(angle));
      key[3 + 2 * w] += static_cast<float>(peak * std::sin(angle));
    }
  }
  for (int h = set * shape_.group(); h < (set + 1) * shape_.group(); ++h) {
    const double second = 100 + random.uniform() * n_ / 2;
    for (int i = 0; i < n_; ++i) {
      float* q =
          queries.data() + static_cast<std::size_t>(i) * width() + static_cast<std::size_t>(h) * d;
      q[0] = q[1] = 10.0f;
      for (std::size_t w = 0; w < waves; ++w) {
        const double near = frequency[w] * i, far = frequency[w] * (i - second);
        q[2 + 2 * w] += static_cast<float>(peak * (std::cos(near) + kSecondBand * std::cos(far)));
        q[3 + 2 * w] += static_cast<float>(peak * (std::sin(near) + kSecondBand * std::sin(far)));
      }
    }
  }
  return rows;
}

void PlantedLayer::run(PrefillPolicy* policy) {
  const float scale = 1 / std::sqrt(static_cast<float>(shape_.head_dim));
  const MatrixView<float> queries(q_.as<float>(), n_, shape_.heads * shape_.head_dim);
  patterns_.clear();
  if (policy != nullptr) {
    AttentionStats stats(backend_, shape_, scale, 0, sets_, {queries, positions_.data()}, nullptr);
    // A middle layer, because some methods leave the first ones dense.
    patterns_ =
        policy->plan({shape_.layers / 2, shape_, sets_, stats, dialogue_, 0, n_, n_, 0, &backend_});
  }
  std::vector<AttentionJob> jobs;
  for (std::size_t s = 0; s < sets_.size(); ++s) {
    const auto first = s * static_cast<std::size_t>(shape_.group());
    const auto own = [&](MatrixView<float> all) {
      return all.columns_at(first * shape_.head_dim, shape_.group() * shape_.head_dim);
    };
    AttentionJob job;
    job.keys = &sets_[s];
    job.q = own(queries);
    job.out = own({out_.as<float>(), n_, queries.columns});
    job.positions = positions_.data();
    job.pass = {0, n_};
    if (!patterns_.empty()) job.patterns = patterns_.data() + first;
    jobs.push_back(job);
  }
  backend_.attend(scale, jobs);
  backend_.memory()->synchronize();
}

void PlantedLayer::keys_and_values(int, int set, std::int32_t first, MatrixView<float> rows) {
  const KvHeadCache& from = sets_[set];
  std::int64_t column = 0;
  for (const KvRow row : {KvRow::kKey, KvRow::kValue}) {
    const std::vector<float> all =
        backend_.rows_on_host(from, row, first, first + static_cast<int>(rows.rows));
    for (std::int64_t r = 0; r < rows.rows; ++r)
      std::copy_n(all.data() + r * shape_.head_dim, shape_.head_dim, rows.row(r) + column);
    column += shape_.head_dim;
  }
}

void PlantedLayer::queries(int, std::int32_t first, MatrixView<float> rows) {
  const std::size_t count = static_cast<std::size_t>(rows.rows) * width();
  backend_.memory()->copy_floats(q_.as<float>() + static_cast<std::size_t>(first) * width(),
                                 rows.data, count);
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
