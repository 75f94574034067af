// The emulated instructions of the tensor cores and the asynchronous copies.

#include <array>
#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "tests/cuda/emulated.h"

namespace turnbench::cuda {
namespace {

std::uint32_t packed(__half low, __half high) {
  return __half_as_ushort(low) | static_cast<std::uint32_t>(__half_as_ushort(high)) << 16;
}
std::uint32_t packed(__nv_bfloat16 low, __nv_bfloat16 high) {
  return __bfloat16_as_ushort(low) | static_cast<std::uint32_t>(__bfloat16_as_ushort(high)) << 16;
}

/// Element i of a lane's part of a matrix: the formulas of the PTX ISA, "Matrix fragments for
/// mma.m16n8k16 with floating point type".
struct Place {
  int row, column;
};
Place place_in_a(int lane, int i) {
  const int group = lane >> 2, thread = lane % 4;
  return {(i >= 0 && i < 2) || (i >= 4 && i < 6) ? group : group + 8,
          i < 4 ? thread * 2 + (i & 1) : thread * 2 + (i & 1) + 8};
}
Place place_in_b(int lane, int i) {
  const int group = lane >> 2, thread = lane % 4;
  return {i < 2 ? thread * 2 + (i & 1) : thread * 2 + (i & 1) + 8, group};
}
Place place_in_d(int lane, int i) {
  const int group = lane >> 2, thread = lane % 4;
  return {i < 2 ? group : group + 8, thread * 2 + (i & 1)};
}

template <typename T>
struct Fragments {
  T a[8], b[4];
  float d[4];
};

template <typename T>
__global__ void multiply_add(Fragments<T>* fragments, int times) {
  Fragments<T>& f = fragments[threadIdx.x];
  std::uint32_t a[4], b[2];
  for (int i = 0; i < 4; ++i) a[i] = packed(f.a[2 * i], f.a[2 * i + 1]);
  for (int i = 0; i < 2; ++i) b[i] = packed(f.b[2 * i], f.b[2 * i + 1]);
  for (int i = 0; i < times; ++i) mma(f.d, a, b, T{});
}

template <typename T>
class EmulatedProduct : public Emulated {};
using Types = testing::Types<__half, __nv_bfloat16>;
TYPED_TEST_SUITE(EmulatedProduct, Types);

TYPED_TEST(EmulatedProduct, EqualsThePlainProduct) {
  using T = TypeParam;
  this->in_every_order([&] {
    std::mt19937 random(5);
    std::normal_distribution<float> normal;
    double a[16][16], b[16][8], c[16][8];
    T a_short[16][16], b_short[16][8];
    const auto fill = [&](double& x, T& x_short) {
      x_short = from_float<T>(normal(random));
      x = to_float(x_short);
    };
    for (int i = 0; i < 16; ++i) {
      for (int k = 0; k < 16; ++k) fill(a[i][k], a_short[i][k]);
      for (int j = 0; j < 8; ++j) {
        fill(b[i][j], b_short[i][j]);
        c[i][j] = normal(random);
      }
    }
    constexpr int kTimes = 3;
    PinnedVector<Fragments<T>> fragments(64);  // two warps, the second with the rows of c negated
    for (int thread = 0; thread < 64; ++thread) {
      Fragments<T>& f = fragments[thread];
      const int lane = thread % 32;
      for (int i = 0; i < 8; ++i)
        f.a[i] = a_short[place_in_a(lane, i).row][place_in_a(lane, i).column];
      for (int i = 0; i < 4; ++i)
        f.b[i] = b_short[place_in_b(lane, i).row][place_in_b(lane, i).column];
      for (int i = 0; i < 4; ++i) {
        const auto x = static_cast<float>(c[place_in_d(lane, i).row][place_in_d(lane, i).column]);
        f.d[i] = thread < 32 ? x : -x;
      }
    }
    this->run(multiply_add<T>, 1, 64, 0, fragments.data(), kTimes);
    for (int thread = 0; thread < 64; ++thread) {
      for (int i = 0; i < 4; ++i) {
        const Place p = place_in_d(thread % 32, i);
        double sum = thread < 32 ? c[p.row][p.column] : -c[p.row][p.column];
        for (int k = 0; k < 16; ++k) sum += kTimes * a[p.row][k] * b[k][p.column];
        EXPECT_NEAR(fragments[thread].d[i], sum, 1e-4);
      }
    }
  });
}

/// out[x] = 1 * x for every existing x, 16 at a time in the first column of a.
template <typename T>
__global__ void multiply_by_one(float* out) {
  const std::uint32_t lane = threadIdx.x, row = lane / 4;
  const bool first = lane % 4 == 0;
  const std::uint32_t b[2] = {first ? packed(from_float<T>(1), from_float<T>(0)) : 0, 0};
  for (std::uint32_t x = 0; x < 65536; x += 16) {
    const std::uint32_t a[4] = {first ? x + row : 0, first ? x + row + 8 : 0, 0, 0};
    float d[4] = {};
    mma(d, a, b, T{});
    if (first) {
      out[x + row] = d[0];
      out[x + row + 8] = d[2];
    }
  }
}

TYPED_TEST(EmulatedProduct, WidensEveryElement) {
  using T = TypeParam;
  PinnedVector<float> out(65536);
  this->run(multiply_by_one<T>, 1, 32, 0, out.data());
  const DType dtype = std::is_same_v<T, __half> ? DType::kF16 : DType::kBF16;
  for (std::size_t i = 0; i < out.size(); ++i) {
    const auto bits = static_cast<std::uint16_t>(i);
    const float x = load_element(&bits, dtype, 0);
    ASSERT_TRUE(std::isnan(x) ? std::isnan(out[i]) : out[i] == x) << i;
  }
}

/// Loads matrices whose rows are `stride` bytes apart, in a scattered order; then overwrites them.
__global__ void load_both(std::uint32_t* plain, std::uint32_t* transposed, int stride) {
  const int lane = static_cast<int>(threadIdx.x);
  std::byte* row = shared_memory() + (lane * 5 % 32) * stride;
  for (int i = 0; i < 8; ++i) {
    reinterpret_cast<std::uint16_t*>(row)[i] = static_cast<std::uint16_t>(lane * 8 + i);
  }
  __syncwarp();
  std::uint32_t out[4];
  load_matrices(out, row);
  std::memcpy(plain + lane * 4, out, 16);
  load_transposed(out, row);
  std::memcpy(transposed + lane * 4, out, 16);
  std::memset(row, 0, 16);
}

TEST_F(Emulated, MatricesAreLoadedAsDefined) {
  in_every_order([] {
    for (const int stride : {16, 48}) {
      PinnedVector<std::uint32_t> plain(128), transposed(128);
      run(load_both, 1, 32, static_cast<std::size_t>(32 * stride), plain.data(), transposed.data(),
          stride);
      // Element [r, c] of matrix i is (8 i + r) * 8 + c.
      const auto element = [](int i, int r, int c) {
        return static_cast<std::uint32_t>((8 * i + r) * 8 + c);
      };
      for (int lane = 0; lane < 32; ++lane) {
        for (int i = 0; i < 4; ++i) {
          const auto at = static_cast<std::size_t>(lane * 4 + i);
          const int r = lane / 4, c = 2 * (lane % 4);
          EXPECT_EQ(plain[at], element(i, r, c) | element(i, r, c + 1) << 16);
          EXPECT_EQ(transposed[at], element(i, c, r) | element(i, c + 1, r) << 16);
        }
      }
    }
  });
}

/// Three groups of copies of 16 bytes per thread, the last without a source; reads the data after
/// `kPending`.
template <int kPending>
__global__ void copies(const uint4* from, uint4* out) {
  auto* tile = reinterpret_cast<uint4*>(shared_memory());
  const unsigned n = blockDim.x, i = threadIdx.x;
  for (unsigned group = 0; group < 3; ++group) {
    copy_async(&tile[group * n + i], &from[group * n + i], group < 2);
    commit_copies();
  }
  wait_for_copies<kPending>();
  __syncthreads();
  for (unsigned group = 0; group < 3; ++group) out[group * n + i] = tile[group * n + n - 1 - i];
}

template <int kPending>
std::vector<std::uint32_t> copied(emulation::Order order) {
  emulation::set_order(order, 11);
  constexpr unsigned kThreads = 48;
  PinnedVector<uint4> from(3 * kThreads), out(3 * kThreads);
  for (unsigned i = 0; i < from.size(); ++i) from[i] = make_uint4(i + 1, i + 2, i + 3, i + 4);
  Context context(0);
  context.launch(copies<kPending>, 1, kThreads, from.size() * sizeof(uint4), from.data(),
                 out.data());
  context.synchronize();
  std::vector<std::uint32_t> firsts;
  for (unsigned group = 0; group < 3; ++group) {
    for (unsigned i = 0; i < kThreads; ++i) {
      // The expected values, with the order reversed again.
      firsts.push_back(out[group * kThreads + kThreads - 1 - i].x);
    }
  }
  return firsts;
}

TEST_F(Emulated, CopiesArriveWhenWaitedFor) {
  using emulation::Order;
  for (const auto& [name, order, seed] : kOrders) {
    const auto all = copied<0>(order);
    for (std::size_t i = 0; i < all.size(); ++i) EXPECT_EQ(all[i], i < 96 ? i + 1 : 0) << name;
  }
  const auto late = copied<1>(Order::kForward), later = copied<2>(Order::kForward);
  for (std::size_t i = 0; i < late.size(); ++i) {
    EXPECT_EQ(late[i], i < 96 ? i + 1 : 0xFFFFFFFF);
    EXPECT_EQ(later[i], i < 48 ? i + 1 : 0xFFFFFFFF);
  }
  // A copy may also arrive at once.
  EXPECT_EQ(copied<2>(Order::kBackward), copied<0>(Order::kForward));
  const auto mixed = copied<2>(Order::kShuffled);
  EXPECT_NE(mixed, later);
  EXPECT_NE(mixed, copied<0>(Order::kForward));
}

__global__ void copy_one(void* to, const void* from) {
  copy_async(to == nullptr ? shared_memory() + 16 : to, from, true);
}
__global__ void load_at(int offset) {
  std::uint32_t out[4];
  load_matrices(out, shared_memory() + offset);
}

TEST_F(Emulated, AddressesAreChecked) {
  PinnedVector<std::byte> memory(32);
  std::byte* const bytes = memory.data();
  run(copy_one, 1, 1, 32, static_cast<void*>(nullptr), static_cast<const void*>(bytes));
  EXPECT_DEATH(
      run(copy_one, 1, 1, 32, static_cast<void*>(nullptr), static_cast<const void*>(bytes + 8)),
      "not at 16-byte boundaries");
  EXPECT_DEATH(
      run(copy_one, 1, 1, 24, static_cast<void*>(nullptr), static_cast<const void*>(bytes)),
      "does not go to shared memory");
  EXPECT_DEATH(run(copy_one, 1, 1, 32, static_cast<void*>(bytes), static_cast<const void*>(bytes)),
               "does not go to shared memory");
  EXPECT_DEATH(run(load_at, 1, 32, 64, 8), "a matrix's row is not at a 16-byte boundary");
  EXPECT_DEATH(run(load_at, 1, 32, 64, 64), "a matrix's row is not in shared memory");
}

TEST_F(Emulated, ConversionsRoundToNearestEven) {
  const auto half_of = [](float x) { return __half2float(__float2half_rn(x)); };
  const auto bfloat_of = [](float x) { return __bfloat162float(__float2bfloat16_rn(x)); };
  EXPECT_EQ(half_of(1.0F + 0x1p-11F), 1.0F);
  EXPECT_EQ(half_of(1.0F + 0x1.8p-10F), 1.0F + 0x1p-9F);
  EXPECT_EQ(half_of(65520.0F), INFINITY);
  EXPECT_EQ(half_of(0x1p-24F), 0x1p-24F);
  EXPECT_EQ(bfloat_of(1.0F + 0x1p-8F), 1.0F);
  EXPECT_EQ(bfloat_of(1.0F + 0x1.8p-7F), 1.0F + 0x1p-6F);
  EXPECT_TRUE(std::isnan(bfloat_of(NAN)));
  std::uint32_t bits;
  const __half2 pair = __floats2half2_rn(1.0F, -2.0F);
  std::memcpy(&bits, &pair, 4);
  EXPECT_EQ(bits, 0xC0003C00);
  const __nv_bfloat162 bfloats = __float22bfloat162_rn(make_float2(1.0F, -2.0F));
  std::memcpy(&bits, &bfloats, 4);
  EXPECT_EQ(bits, 0xC0003F80);
}

}  // namespace
}  // namespace turnbench::cuda
