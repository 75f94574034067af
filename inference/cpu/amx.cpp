#include "inference/cpu/amx.h"

#include <atomic>

#include "inference/cpu/bf16_linear.h"

#if defined(__x86_64__) && defined(__linux__)
#include <cpuid.h>
#include <immintrin.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cfloat>
#include <cmath>
#include <cstring>
#include <random>

#define TURNBENCH_AMX __attribute__((target("amx-tile,amx-bf16,avx512f")))

namespace turnbench::cpu::amx {
namespace {

bool processor_has_it() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid(1, &a, &b, &c, &d) == 0 || (c & bit_OSXSAVE) == 0) return false;
  constexpr unsigned kVectors = 0xE6, kTiles = 0x60000;  // states that the system saves
  unsigned low = 0, high = 0;
  asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  if ((low & (kVectors | kTiles)) != (kVectors | kTiles)) return false;
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0) return false;
  constexpr unsigned kAmxBf16 = 1U << 22, kAmxTile = 1U << 24;
  return (d & kAmxBf16) != 0 && (d & kAmxTile) != 0 && (b & bit_AVX512F) != 0;
}

/// Linux permits the use of tiles on request, for the whole process.
bool system_permits() {
  constexpr long kRequestPermission = 0x1023, kTileData = 18;
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}

std::atomic<bool>& allowed() {
  static std::atomic<bool> out{available()};
  return out;
}

constexpr int kColumnBytes = 64;  // of all tiles
constexpr std::int64_t kTileElements = kTileRows * kBlockInputs;
/// Inputs at a time: the weights of two panels fit into the first-level cache.
constexpr std::int64_t kDepthBlocks = 16;

/// The operand of LDTILECFG.
struct alignas(64) TileConfig {
  std::uint8_t palette = 1, start_row = 0, reserved[14] = {};
  std::uint16_t column_bytes[16] = {};
  std::uint8_t rows[16] = {};

  /// Eight whole tiles.
  TileConfig() {
    std::fill_n(column_bytes, 8, std::uint16_t{kColumnBytes});
    std::fill_n(rows, 8, std::uint8_t{kTileRows});
  }
};

/// 16 floats rounded to bf16, in the low halves of the elements.  NaN stays NaN.
TURNBENCH_AMX inline __m512i round_to_bf16(__m512 value) {
  constexpr __mmask16 kAll = 0xFFFF;
  const __m512i bits = _mm512_castps_si512(value);
  const __m512i cut = _mm512_maskz_srli_epi32(kAll, bits, 16);
  const __m512i even = _mm512_and_si512(cut, _mm512_set1_epi32(1));
  const __m512i sum = _mm512_add_epi32(_mm512_add_epi32(bits, _mm512_set1_epi32(0x7FFF)), even);
  const __mmask16 nan = _mm512_cmp_ps_mask(value, value, _CMP_UNORD_Q);
  return _mm512_mask_or_epi32(_mm512_maskz_srli_epi32(kAll, sum, 16), nan, cut,
                              _mm512_set1_epi32(0x40));
}

/// At most 16 floats, of which `left` are left; zeros beyond them.
TURNBENCH_AMX inline __m512 load_left(const float* from, std::int64_t left) {
  if (left >= 16) return _mm512_loadu_ps(from);
  const auto mask = static_cast<__mmask16>((1U << std::max<std::int64_t>(left, 0)) - 1);
  return _mm512_maskz_loadu_ps(mask, from);
}

/// Sums of up to 2 x 2 tiles over `blocks` blocks.  a, w: the first tiles, the others at a distance
/// of `a_step` and `w_step` elements; c: [32, 32] floats at stride ldc.
template <int kRowTiles, int kPanels>
TURNBENCH_AMX void multiply_tiles(std::int64_t blocks, const std::uint16_t* a, std::int64_t a_step,
                                  const std::uint16_t* w, std::int64_t w_step, float* c,
                                  std::int64_t ldc, bool start_from_c) {
  const std::int64_t stride = ldc * static_cast<std::int64_t>(sizeof(float));
  float* below = c + kTileRows * ldc;
  if (start_from_c) {
    _tile_loadd(0, c, stride);
    if constexpr (kPanels > 1) _tile_loadd(1, c + kPanelOutputs, stride);
    if constexpr (kRowTiles > 1) _tile_loadd(2, below, stride);
    if constexpr (kRowTiles > 1 && kPanels > 1) _tile_loadd(3, below + kPanelOutputs, stride);
  } else {
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
  }
  for (std::int64_t b = 0; b < blocks; ++b) {
    _tile_loadd(6, w, kColumnBytes);
    _tile_loadd(4, a, kColumnBytes);
    _tile_dpbf16ps(0, 4, 6);
    if constexpr (kPanels > 1) {
      _tile_loadd(7, w + w_step, kColumnBytes);
      _tile_dpbf16ps(1, 4, 7);
    }
    if constexpr (kRowTiles > 1) {
      _tile_loadd(5, a + a_step, kColumnBytes);
      _tile_dpbf16ps(2, 5, 6);
    }
    if constexpr (kRowTiles > 1 && kPanels > 1) _tile_dpbf16ps(3, 5, 7);
    a += kTileElements;
    w += kTileElements;
  }
  _tile_stored(0, c, stride);
  if constexpr (kPanels > 1) _tile_stored(1, c + kPanelOutputs, stride);
  if constexpr (kRowTiles > 1) _tile_stored(2, below, stride);
  if constexpr (kRowTiles > 1 && kPanels > 1) _tile_stored(3, below + kPanelOutputs, stride);
}

/// Denormals count as zeros.
float flushed(float x) {
  return std::fabs(x) < FLT_MIN ? std::copysign(0.0f, x) : x;
}

/// Whether a product of two tiles has the bits of the definition in `linear_bf16`: for ordinary
/// factors in its upper half, for denormal products in its lower half.
TURNBENCH_AMX bool has_the_sums() {
  std::uint16_t a[kTileElements], w[kTileElements];
  float sums[kTileRows * kPanelOutputs];
  std::mt19937 random(1);
  const auto draw = [&](unsigned least_exponent) {
    const unsigned bits = static_cast<unsigned>(random());
    return static_cast<std::uint16_t>((bits & 0x807F) | (least_exponent + (bits >> 16) % 24) << 7);
  };
  for (std::int64_t i = 0; i < kTileElements; ++i) {
    a[i] = draw(i < kTileElements / 2 ? 116 : 0);
    w[i] = draw(116);
  }
  const TileConfig config;
  _tile_loadconfig(&config);
  multiply_tiles<1, 1>(1, a, 0, w, 0, sums, kPanelOutputs, false);
  _tile_release();
  for (std::int64_t r = 0; r < kTileRows; ++r) {
    for (std::int64_t o = 0; o < kPanelOutputs; ++o) {
      float chain[2] = {0, 0};
      for (std::int64_t i = 0; i < kBlockInputs; ++i) {
        chain[i % 2] = flushed(std::fma(flushed(bf16_to_float(a[r * kBlockInputs + i])),
                                        bf16_to_float(w[(i / 2 * kPanelOutputs + o) * 2 + i % 2]),
                                        chain[i % 2]));
      }
      const float want = flushed(chain[0] + chain[1]);
      if (std::bit_cast<std::uint32_t>(want) !=
          std::bit_cast<std::uint32_t>(sums[r * kPanelOutputs + o]))
        return false;
    }
  }
  return true;
}

/// `multiply_tiles` for a part of y, which need not have whole tiles: then by way of a buffer.
TURNBENCH_AMX void multiply_part(std::int64_t blocks, const std::uint16_t* a, std::int64_t a_step,
                                 const std::uint16_t* w, std::int64_t w_step, MatrixView<float> y,
                                 bool start_from_y) {
  constexpr std::int64_t kBuffer = 2 * kTileRows;
  static_assert(kTileRows == kPanelOutputs);
  alignas(64) float buffer[kBuffer * kBuffer];
  const bool two_rows = y.rows > kTileRows, two_panels = y.columns > kPanelOutputs;
  const bool whole =
      y.rows == (two_rows ? 2 : 1) * kTileRows && y.columns == (two_panels ? 2 : 1) * kPanelOutputs;
  if (!whole && start_from_y) {
    std::memset(buffer, 0, sizeof(buffer));
    for (std::int64_t r = 0; r < y.rows; ++r)
      std::memcpy(buffer + r * kBuffer, y.row(r), y.columns * sizeof(float));
  }
  float* c = whole ? y.data : buffer;
  const std::int64_t ldc = whole ? y.stride : kBuffer;
  const auto multiply = two_rows ? (two_panels ? multiply_tiles<2, 2> : multiply_tiles<2, 1>)
                                 : (two_panels ? multiply_tiles<1, 2> : multiply_tiles<1, 1>);
  multiply(blocks, a, a_step, w, w_step, c, ldc, start_from_y);
  if (whole) return;
  for (std::int64_t r = 0; r < y.rows; ++r)
    std::memcpy(y.row(r), buffer + r * kBuffer, y.columns * sizeof(float));
}

}  // namespace

Support support() {
  static const Support out = !processor_has_it() || !system_permits() ? Support::kMissing
                             : has_the_sums()                         ? Support::kAvailable
                                                                      : Support::kDeviates;
  return out;
}

bool enabled() {
  return allowed();
}

void enable(bool use) {
  allowed() = use;
}

TURNBENCH_AMX void round_to_tiles(MatrixView<const float> x, std::uint16_t* tiles) {
  constexpr std::int64_t kLanes = 16;
  constexpr __mmask16 kAll = 0xFFFF;
  const std::int64_t blocks = (x.columns + kBlockInputs - 1) / kBlockInputs;
  for (std::int64_t r = 0; r < kTileRows; ++r) {
    for (std::int64_t i = 0; i < blocks * kBlockInputs; i += kLanes) {
      const __m512 value =
          r < x.rows ? load_left(x.row(r) + i, x.columns - i) : _mm512_setzero_ps();
      std::uint16_t* to =
          tiles + i / kBlockInputs * kTileElements + r * kBlockInputs + i % kBlockInputs;
      _mm512_mask_cvtepi32_storeu_epi16(to, kAll, round_to_bf16(value));
    }
  }
}

TURNBENCH_AMX void multiply(const Task& t) {
  const PairedMatrix& w = *t.w;
  const std::int64_t columns = std::min(t.last_panel * kPanelOutputs, w.out);
  const TileConfig config;
  _tile_loadconfig(&config);
  for (std::int64_t k0 = 0; k0 < w.blocks(); k0 += kDepthBlocks) {
    const std::int64_t depth = std::min(kDepthBlocks, w.blocks() - k0);
    for (std::int64_t p = t.first_panel; p < t.last_panel; p += 2) {
      const std::int64_t column = p * kPanelOutputs;
      const MatrixView<float> of_panels =
          t.y.columns_at(column, std::min(2 * kPanelOutputs, columns - column));
      for (std::int64_t r = 0; r < t.y.rows; r += 2 * kTileRows) {
        multiply_part(depth, t.tiles + (r / kTileRows * w.blocks() + k0) * kTileElements,
                      w.blocks() * kTileElements, w.panel(p) + k0 * kTileElements, w.panel_size(),
                      of_panels.rows_at(r, std::min(2 * kTileRows, t.y.rows - r)), k0 > 0);
      }
    }
  }
  _tile_release();
}

TURNBENCH_AMX double multiply_registers(std::size_t rounds) {
  const TileConfig config;
  _tile_loadconfig(&config);
  for (std::size_t i = 0; i < rounds; ++i) {
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
  }
  _tile_release();
  return 4.0 * 2 * kTileRows * kPanelOutputs * kBlockInputs * static_cast<double>(rounds);
}

}  // namespace turnbench::cpu::amx

#else

namespace turnbench::cpu::amx {

Support support() {
  return Support::kMissing;
}
bool enabled() {
  return false;
}
void enable(bool) {}
void round_to_tiles(MatrixView<const float>, std::uint16_t*) {}
void multiply(const Task&) {}
double multiply_registers(std::size_t) {
  return 0;
}

}  // namespace turnbench::cpu::amx

#endif
