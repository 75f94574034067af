#pragma once

#include "common/json.h"
#include "common/random.h"
#include "tests/methods/layer.h"

namespace turnbench::test {

/// A layer with the queries and keys of tests/golden/make_minference_golden.py, for the seed and
/// sizes of a case.
class GoldenLayer : public Layer {
 public:
  GoldenLayer(const Json& golden, int heads, int kv_heads)
      : Layer(kv_heads, heads / kv_heads, golden.at("head_dim"), golden.at("n"), golden.at("n"),
              1) {
    Random random(golden.at("seed").get<std::uint64_t>());
    const auto draw = [&](float* vector) {
      for (int d = 0; d < shape.head_dim; ++d)
        vector[d] = (static_cast<float>(random.next() >> 52) - 2048) / 1024;
    };
    for (int i = 0; i < n; ++i) {
      for (int h = 0; h < heads; ++h) draw(query(h, i));
      for (int h = 0; h < kv_heads; ++h) draw(key(h, i));
    }
    write_keys();
  }

  float* query(int head, int token) {
    return queries.data() + static_cast<std::size_t>((token * shape.heads + head) * shape.head_dim);
  }
  float* key(int kv_head, int token) { return keys[kv_head].data() + token * shape.head_dim; }
  void write_keys() {
    for (int h = 0; h < shape.kv_heads; ++h) sets[h].write(0, {key(h, 0), n, shape.head_dim});
  }
};

}  // namespace turnbench::test
