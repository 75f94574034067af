#include "tests/backends/backend.h"
#include "tests/inference/selection.h"

namespace turnbench {
namespace {

using test::BackendMatrix;

// On every backend.
TEST(RmsNormHeads, HasTheBitsOfRmsNormOfEachHead) {
  constexpr int kRows = 5, kHeads = 5, kOthers = 2;
  constexpr float kEps = 1e-6f;
  const auto backend = test::make_backend(2);
  for (int head_dim : {6, 16, 80, 128}) {
    BackendMatrix weights = BackendMatrix::random(*backend, 2, head_dim, 1);
    const float *weight = weights.view().row(0), *other = weights.view().row(1);
    const auto random = [&] {
      return BackendMatrix::random(*backend, kRows, (kHeads + kOthers) * head_dim, 2);
    };
    BackendMatrix together = random(), apart = random();
    backend->rms_norm_heads(together.view(), head_dim, kHeads, weight, other, kEps);
    for (int h = 0; h < kHeads + kOthers; ++h) {
      const MatrixView<float> head = apart.view().columns_at(h * head_dim, head_dim);
      backend->rms_norm(head, h < kHeads ? weight : other, kEps, head);
    }
    EXPECT_EQ(together.read(), apart.read()) << "head_dim " << head_dim;
    EXPECT_NE(together.read(), random().read());
  }
}

}  // namespace
}  // namespace turnbench
