#pragma once

// The constructed layers of golden files of selection methods.

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "common/file.h"
#include "common/json.h"
#include "common/random.h"
#include "tests/inference/set_rows.h"
#include "tests/methods/steps.h"

namespace turnbench::test {

inline Json golden_of(const std::string& method) {
  const std::string path =
      fmt::format("{}/tests/data/methods/{}.json", TURNBENCH_SOURCE_DIR, method);
  return parse_json(read_file(path), path);
}

/// The layer of a case of a golden file, as tests/golden/made_layer.py draws it.
class MadeSteps : public Steps {
 public:
  explicit MadeSteps(const Json& c)
      : Steps(c["sets"], c["heads"].get<int>() / c["sets"].get<int>(), c["dim"], c["prompt"],
              c["prompt"].get<int>() + c["steps"].get<int>(), 1) {
    Random random = Random::from({c["seed"].get<std::uint64_t>()});
    const auto draw = [&](float* row, std::int64_t scale) {
      for (int d = 0; d < shape.head_dim; ++d)
        row[d] = static_cast<float>(random.between(-scale, scale)) / 256;
    };
    const auto row = [&](std::vector<float>& rows, std::ptrdiff_t token) {
      return rows.data() + token * shape.head_dim;
    };
    for (std::ptrdiff_t t = 0; t < std::ssize(positions); ++t) {
      for (int h = 0; h < shape.heads; ++h)
        draw(queries.data() + (t * shape.heads + h) * shape.head_dim, 600);
      for (std::vector<float>& rows : keys) draw(row(rows, t), 600);
      for (std::vector<float>& rows : values) draw(row(rows, t), 256);
    }
    for (std::size_t s = 0; s < sets.size(); ++s) {
      for (int j = 0; j < n; ++j) test::write_rows(sets[s], j, key(s, j), value(s, j), nullptr);
    }
  }

  /// Attention of the step over the tokens that it reads.  Of each head's output the first element
  /// counts once, the second twice and so on.
  std::vector<double> sums_of(const Selection& read) {
    const std::int32_t position = n - 1;
    const auto dim = std::int64_t{shape.head_dim};
    std::vector<float> outputs =
        attend(static_cast<std::size_t>(shape.heads * dim), [&](float* to) {
          const auto lists = read.all() ? std::ssize(sets) : std::ssize(read.slots);
          const std::int64_t width = shape.heads / lists * dim;
          std::vector<AttentionJob> jobs(static_cast<std::size_t>(lists));
          for (std::int64_t i = 0; i < lists; ++i) {
            AttentionJob& job = jobs[i];
            job.keys = &sets[i * std::ssize(sets) / lists];
            job.q = {view().queries.data + i * width, 1, width};
            job.positions = &position;
            job.out = {to + i * width, 1, width};
            if (!read.all()) job.slots = &read.slots[i];
          }
          return jobs;
        });
    blend(read.blend, outputs);
    std::vector<double> out(static_cast<std::size_t>(shape.heads));
    for (std::size_t i = 0; i < outputs.size(); ++i)
      out[i / static_cast<std::size_t>(dim)] +=
          static_cast<double>(i % static_cast<std::size_t>(dim) + 1) * double{outputs[i]};
    return out;
  }

 private:
  /// outputs: [heads, dim].
  void blend(const Blend& with, std::vector<float>& outputs) {
    if (with.weights == nullptr) return;
    const auto floats = [&](const float* data, std::int64_t count) {
      std::vector<float> out(static_cast<std::size_t>(count));
      backend->memory()->copy_floats(data, out.data(), out.size());
      return out;
    };
    const std::int64_t dim = shape.head_dim;
    const std::vector<float> weights = floats(with.weights, shape.heads),
                             vectors = floats(with.vectors.data, with.vectors.rows * dim);
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      const auto head = static_cast<std::int64_t>(i) / dim;
      const float weight = weights[head];
      const auto at = head / shape.group() * dim + static_cast<std::int64_t>(i) % dim;
      outputs[i] = weight * outputs[i] + (1 - weight) * vectors[at];
    }
  }
};

}  // namespace turnbench::test
