#include "inference/cpu/amx.h"

#include "inference/cpu/bf16_product.h"

#if defined(__x86_64__) && defined(__linux__)
#include <cpuid.h>
#include <immintrin.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "inference/cpu/bf16_round-inl.h"

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

bool available() {
  static const bool out = processor_has_it() && system_permits();
  return out;
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

TURNBENCH_AMX void multiply(const Bf16Product& t) {
  const PairedView& w = t.w;
  const auto* tiles = reinterpret_cast<const std::uint16_t*>(t.x.data);
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
        multiply_part(depth, tiles + (r / kTileRows * w.blocks() + k0) * kTileElements,
                      w.blocks() * kTileElements, w.panel(p) + k0 * kTileElements, w.panel_size(),
                      of_panels.rows_at(r, std::min(2 * kTileRows, t.y.rows - r)), t.add || k0 > 0);
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

bool available() {
  return false;
}
void round_to_tiles(MatrixView<const float>, std::uint16_t*) {}
void multiply(const Bf16Product&) {}
double multiply_registers(std::size_t) {
  return 0;
}

}  // namespace turnbench::cpu::amx

#endif
