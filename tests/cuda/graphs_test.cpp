#include "inference/cuda/graphs.h"

#include <gtest/gtest.h>

#include <optional>

#include "inference/cuda/elementwise.h"
#include "inference/cuda/linear.h"
#include "tests/cuda/device_array.h"
#include "tests/inference/reference.h"
#include "tests/message_of.h"

namespace turnbench {
namespace {

using cuda::Context, cuda::Gemm, cuda::GraphReplay;
using test::DeviceArray, test::random_floats;

constexpr std::int64_t kWidth = 48, kHeadDim = 16;

/// One of each operation that a pass repeats, on rows of kWidth floats.
class Piece {
 public:
  explicit Piece(std::int64_t rows)
      : rows_(rows),
        x_(std::vector<float>(rows * kWidth)),
        normed_(x_.values()),
        angles_(std::vector<float>(rows * kHeadDim)),
        gate_up_(std::vector<float>(rows * 2 * kWidth)),
        kept_(gate_up_.values()) {}

  /// Gives the operations new contents in the same memory.
  void fill(std::uint64_t seed) {
    write(x_, rows_ * kWidth, seed);
    write(angles_, rows_ * kHeadDim, seed + 100);
    write(bias_, kWidth, seed + 200);
  }
  ReplayKey key() {
    return {rows_, {x_.data(), normed_.data(), angles_.data(), gate_up_.data(), kept_.data()}};
  }
  void ask(Context& context, Gemm& gemm) {
    const MatrixView x(x_.data(), rows_, kWidth), normed(normed_.data(), rows_, kWidth),
        gate_up(gate_up_.data(), rows_, 2 * kWidth), kept(kept_.data(), rows_, kWidth),
        product(kept.row(rows_), rows_, kWidth), cos(angles_.data(), rows_, kHeadDim / 2),
        sin(cos.row(rows_), rows_, kHeadDim / 2);
    cuda::rms_norm(context, x, norm_.data(), 1e-5f, normed);
    cuda::linear(context, gemm, normed, weights(gate_up_weights_, 2 * kWidth), nullptr, gate_up);
    cuda::apply_rope(context, gate_up.columns_at(0, kWidth), cos, sin);
    cuda::copy_rows(context, gate_up.columns_at(0, kWidth), kept);
    cuda::silu_multiply(context, gate_up, product);
    cuda::linear(context, gemm, product, weights(down_weights_, kWidth), bias_.data(), normed);
    cuda::add(context, x_.data(), normed_.data(), rows_ * kWidth);
    ++asked_;
  }
  int asked() const { return asked_; }
  std::vector<float> result() {
    std::vector<float> out = x_.values();
    const std::vector<float> kept = kept_.values();
    out.insert(out.end(), kept.begin(), kept.end());
    return out;
  }

 private:
  static void write(DeviceArray<float>& to, std::size_t count, std::uint64_t seed) {
    to.write(random_floats(count, seed));
  }
  static std::vector<std::byte> random_weights(std::int64_t out, std::uint64_t seed) {
    return test::stored_as(DType::kBF16, random_floats(out * kWidth, seed));
  }
  static cuda::Weights weights(DeviceArray<std::byte>& data, std::int64_t out) {
    return {out, kWidth, DType::kBF16, data.data()};
  }

  std::int64_t rows_;
  DeviceArray<float> x_, normed_, angles_, gate_up_, kept_;
  DeviceArray<float> norm_{random_floats(kWidth, 1)}, bias_{random_floats(kWidth, 2)};
  DeviceArray<std::byte> gate_up_weights_{random_weights(2 * kWidth, 3)},
      down_weights_{random_weights(kWidth, 4)};
  int asked_ = 0;
};

class GraphsTest : public testing::Test {
 protected:
  void repeat(GraphReplay& graphs, Piece& piece, int part = 0) {
    graphs.run(piece.key(), part, [&] { piece.ask(*context_, gemm_); });
  }
  /// Runs a piece `times` times with graphs, until and after it is launched from a graph, and each
  /// time also a piece without graphs.
  void expect_the_same(GraphReplay& graphs, Piece& piece, Piece& plain, int times) {
    for (int i = 0; i < times; ++i) {
      const auto seed = static_cast<std::uint64_t>(i + 10);
      piece.fill(seed);
      plain.fill(seed);
      repeat(graphs, piece);
      plain.ask(*context_, gemm_);
      EXPECT_TRUE(test::same_bits(piece.result(), plain.result())) << "time " << i;
    }
  }
  /// Runs a piece with the graphs, and calls `late` each time except the first.
  std::function<void()> asking(GraphReplay& graphs, Piece& piece, int part,
                               const std::function<void()>& late) {
    const auto times = std::make_shared<int>(0);
    return [this, &graphs, &piece, part, late, times] {
      graphs.run(piece.key(), part, [&] {
        piece.ask(*context_, gemm_);
        if (++*times > 1) late();
      });
    };
  }
  template <typename Run>
  static std::string error_of(const Run& run) {
    return test::message_of(run, ErrorKind::kRuntime);
  }

  std::shared_ptr<Context> context_ = std::make_shared<Context>(0);
  Gemm gemm_;
};

TEST_F(GraphsTest, RepeatToTheBitWhatIsDonePlainly) {
  // One row's kernel, several rows' kernels, and products whose factors are rounded to scratch
  // memory.
  for (int rows : {1, 3, 8, 9, 20}) {
    SCOPED_TRACE(rows);
    test::in_every_order([&] {
      GraphReplay graphs(context_);
      Piece piece(rows), plain(rows);
      expect_the_same(graphs, piece, plain, 5);
      EXPECT_EQ(piece.asked(), 2) << "once plainly, once to be recorded";
      EXPECT_EQ(graphs.size(), 1u);
    });
  }
}

TEST_F(GraphsTest, RunInTheStreamsOrderAndOutliveTheirOwner) {
  Piece piece(4), plain(4);
  piece.fill(1);
  plain.fill(1);
  std::optional<GraphReplay> graphs(context_);
  for (int i = 0; i < 4; ++i) {
    repeat(*graphs, piece);
    piece.ask(*context_, gemm_);
    for (int twice = 0; twice < 2; ++twice) plain.ask(*context_, gemm_);
  }
  repeat(*graphs, piece);
  plain.ask(*context_, gemm_);
  graphs.reset();  // the last launches are still pending
  EXPECT_TRUE(test::same_bits(piece.result(), plain.result()));
}

TEST_F(GraphsTest, EveryPartAndKeyHasAGraph) {
  GraphReplay graphs(context_);
  Piece two(2), three(3), elsewhere(2);
  for (int i = 0; i < 3; ++i) {
    for (Piece* piece : {&two, &three, &elsewhere}) {
      for (int part = 0; part < 2; ++part) repeat(graphs, *piece, part);
    }
    EXPECT_EQ(graphs.size(), i == 0 ? 0u : 6u);
  }
  for (Piece* piece : {&two, &three, &elsewhere}) {
    EXPECT_EQ(piece->asked(), 4);
    Piece plain(piece->key().rows);
    expect_the_same(graphs, *piece, plain, 1);
  }
}

TEST_F(GraphsTest, AreForgottenWhenOthersAreUsed) {
  GraphReplay graphs(context_);
  Piece often(1);
  for (int i = 0; i < 3; ++i) repeat(graphs, often);
  std::vector<std::unique_ptr<Piece>> others;
  for (std::size_t rows = 1; rows <= 2 * GraphReplay::kMaxPasses; ++rows) {
    others.push_back(std::make_unique<Piece>(rows));
    for (int i = 0; i < 3; ++i) repeat(graphs, *others.back());
    repeat(graphs, often);
    EXPECT_LE(graphs.size(), GraphReplay::kMaxPasses);
  }
  EXPECT_EQ(graphs.size(), GraphReplay::kMaxPasses);
  EXPECT_EQ(often.asked(), 2) << "it was always used lately";
  repeat(graphs, *others.back());
  EXPECT_EQ(others.back()->asked(), 2);
  repeat(graphs, *others.front());
  EXPECT_EQ(others.front()->asked(), 3) << "it must be done plainly again";
}

TEST_F(GraphsTest, AreForgottenWhenScratchMoves) {
  GraphReplay graphs(context_);
  Piece piece(20), plain(20);
  expect_the_same(graphs, piece, plain, 3);
  EXPECT_EQ(graphs.size(), 1u);
  const int before = context_->scratch_generation();
  context_->begin();
  for (int i = 0; i < 2; ++i) context_->scratch<std::byte>(context_->bytes() + 1);
  repeat(graphs, piece);
  EXPECT_NE(context_->scratch_generation(), before);
  EXPECT_EQ(graphs.size(), 0u);
  EXPECT_EQ(piece.asked(), 3);
  expect_the_same(graphs, piece, plain, 3);
  EXPECT_EQ(graphs.size(), 1u);
}

TEST_F(GraphsTest, RejectHostData) {
  GraphReplay graphs(context_);
  Piece piece(2), plain(2);
  DeviceArray<float> table(random_floats(4 * kWidth, 1)), out(random_floats(kWidth, 2));
  const int token = 3;
  const auto embed = [&] {
    cuda::embed(*context_, {4, kWidth, DType::kF32, reinterpret_cast<std::byte*>(table.data())},
                {&token, 1}, out.data());
  };
  const std::vector<float> values(kWidth);
  const auto copy = [&] { context_->copy(out.data(), values.data(), kWidth * sizeof(float)); };
  const ReplayKey key{1, {out.data()}};
  EXPECT_EQ(error_of([&] { graphs.run(key, 0, embed); }),
            "CUDA, uploading: found among operations that are repeated as they are");
  EXPECT_EQ(error_of([&] { graphs.run(key, 1, copy); }),
            "CUDA, copying: found among operations that are repeated as they are");
  // Only while the piece is recorded, so that the capture has begun.
  int part = 2;
  for (const auto& late : std::vector<std::function<void()>>{embed, copy}) {
    const auto run = asking(graphs, piece, part++, late);
    run();
    EXPECT_NE(error_of(run).find("found among operations that are repeated"), std::string::npos);
  }
  embed();  // and outside of captures nothing is refused
  copy();
  EXPECT_EQ(graphs.size(), 0u);
  expect_the_same(graphs, piece, plain, 3);
}

TEST_F(GraphsTest, RefuseToRecordWaitingAndAllocating) {
  GraphReplay graphs(context_);
  Piece piece(2), plain(2);
  const auto wait = [&] { context_->synchronize(); };
  const auto allocate = [&] {
    context_->scratch<std::byte>(context_->bytes() + (std::size_t{8} << 20));
  };
  const std::string refused = ": operation not permitted when stream is capturing";
  const auto run_waiting = asking(graphs, piece, 0, wait);
  const auto run_allocating = asking(graphs, piece, 1, allocate);
  run_waiting();
  run_allocating();
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(error_of(run_waiting), "CUDA, waiting for the device" + refused);
    EXPECT_EQ(error_of(run_allocating), "CUDA, allocating memory" + refused);
  }
  GraphReplay others(context_);
  expect_the_same(others, piece, plain, 3);
}

}  // namespace
}  // namespace turnbench
