// Selects the k highest of many scores without sorting: the k-th highest maximum of groups is a
// lower bound that few scores reach, and a radix selection among these finds the k-th.

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <numeric>

#include "common/error.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "inference/cpu/top_k.cpp"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

#include "inference/cpu/attention_tile-inl.h"
#include "inference/cpu/selection.h"

HWY_BEFORE_NAMESPACE();
namespace turnbench::cpu::HWY_NAMESPACE {

constexpr std::uint32_t kSignBit = 0x80000000;

/// An integer key in the order of the scores; -0 equals 0.
HWY_INLINE std::uint32_t key_of(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x + 0.0f);
  return (bits & kSignBit) != 0 ? ~bits : bits | kSignBit;
}
HWY_INLINE float score_of(std::uint32_t key) {
  return std::bit_cast<float>((key & kSignBit) != 0 ? key ^ kSignBit : ~key);
}

/// The k-th highest key, and the number of keys equal to it among the k highest.
struct KthKey {
  std::uint32_t key;
  std::int64_t equals;
};

/// Finds it by radix selection, kBits bits of the keys at a time.  Overwrites the keys; 0 < k <= n.
template <int kBits>
KthKey kth_by_digits(std::uint32_t* keys, std::int64_t n, std::int64_t k) {
  constexpr std::uint32_t kDigits = 1U << kBits;
  for (int above = 32; above > 0; above -= kBits) {  // remaining bits
    const int shift = std::max(above - kBits, 0);
    const std::uint32_t mask = (1U << (above - shift)) - 1;
    std::array<std::int32_t, kDigits> counts{};
    for (std::int64_t i = 0; i < n; ++i) ++counts[keys[i] >> shift & mask];
    std::uint32_t digit = mask;
    while (counts[digit] < k) k -= counts[digit--];
    std::int64_t kept = 0;
    for (std::int64_t i = 0; i < n; ++i) {
      const std::uint32_t key = keys[i];
      keys[kept] = key;
      kept += (key >> shift & mask) == digit;
    }
    n = kept;
  }
  return {keys[0], k};
}

/// The same with a number of bits that suits n: few keys do not justify many counters.
KthKey kth_greatest(std::uint32_t* keys, std::int64_t n, std::int64_t k) {
  return n < 1024 ? kth_by_digits<8>(keys, n, k) : kth_by_digits<11>(keys, n, k);
}

HWY_INLINE bool any_nan(const float* HWY_RESTRICT x, std::int64_t n) {
  const FloatTag d;
  const std::int64_t lanes = hn::Lanes(d);
  auto bad = hn::IsNaN(hn::Zero(d));
  std::int64_t i = 0;
  for (; i + lanes <= n; i += lanes) bad = hn::Or(bad, hn::IsNaN(hn::LoadU(d, x + i)));
  bool out = !hn::AllFalse(d, bad);
  for (; i < n; ++i) out = out || std::isnan(x[i]);
  return out;
}

/// A bound that at least k scores reach, and not many more: the k-th highest of the maxima of
/// groups.  Group i has the `rows` scores i, i + width, i + 2 width, ..., so that neighbours, which
/// are often high together, are in different groups.  keys: scratch [width].
HWY_INLINE float bound_of(const float* HWY_RESTRICT scores, std::int64_t rows, std::int64_t width,
                          std::int64_t k, std::uint32_t* HWY_RESTRICT keys) {
  const FloatTag d;
  const std::int64_t lanes = hn::Lanes(d);
  HWY_ALIGN float maxima[HWY_LANES(float)];
  std::int64_t i = 0;
  for (; i + lanes <= width; i += lanes) {
    FloatVec top = hn::LoadU(d, scores + i);
    for (std::int64_t r = 1; r < rows; ++r)
      top = hn::Max(top, hn::LoadU(d, scores + r * width + i));
    hn::Store(top, d, maxima);
    for (std::int64_t j = 0; j < lanes; ++j) keys[i + j] = key_of(maxima[j]);
  }
  for (; i < width; ++i) {
    float top = scores[i];
    for (std::int64_t r = 1; r < rows; ++r) top = std::max(top, scores[r * width + i]);
    keys[i] = key_of(top);
  }
  return score_of(kth_greatest(keys, width, k).key);
}

/// The indices of the scores that reach a bound; returns their number.
HWY_INLINE std::int64_t reaching(const float* HWY_RESTRICT scores, std::int64_t n, float bound,
                                 std::int32_t* HWY_RESTRICT out) {
  const FloatTag d;
  const std::int64_t lanes = hn::Lanes(d);
  const FloatVec least = hn::Set(d, bound);
  std::int64_t i = 0, count = 0;
  for (; i + lanes <= n; i += lanes) {
    const auto reached = hn::Ge(hn::LoadU(d, scores + i), least);
    if (hn::AllFalse(d, reached)) continue;
    std::uint64_t bits = 0;
    hn::StoreMaskBits(d, reached, reinterpret_cast<std::uint8_t*>(&bits));
    for (; bits != 0; bits &= bits - 1)
      out[count++] = static_cast<std::int32_t>(i) + std::countr_zero(bits);
  }
  for (; i < n; ++i) {
    if (scores[i] >= bound) out[count++] = static_cast<std::int32_t>(i);
  }
  return count;
}

/// Writes the indices of the k highest of n scores to out [k], ascending, 0 <= k <= n.  Returns
/// false if a score is NaN.  memory: scratch [3 n + 64].
bool select_greatest(const float* scores, std::int64_t n, std::int64_t k, std::int32_t* out,
                     float* memory) {
  if (any_nan(scores, n)) return false;
  if (k == n) std::iota(out, out + n, 0);
  if (k == 0 || k == n) return true;
  BumpAllocator bump(memory);
  std::int32_t *candidates = bump.ints(n), *chosen = bump.ints(k + 1);
  auto* keys = reinterpret_cast<std::uint32_t*>(bump.ints(n));
  std::int64_t count = n;
  const std::int64_t rows = std::min<std::int64_t>(n / (4 * k), 64);
  if (rows > 1) {
    const float bound = bound_of(scores, rows, n / rows, k, keys);
    count = reaching(scores, n, bound, candidates);
  } else {
    std::iota(candidates, candidates + n, 0);
  }
  for (std::int64_t i = 0; i < count; ++i) keys[i] = key_of(scores[candidates[i]]);
  const KthKey kth = kth_greatest(keys, count, k);
  std::int64_t taken = 0, equals = kth.equals;
  for (std::int64_t i = 0; taken < k; ++i) {
    const std::uint32_t key = key_of(scores[candidates[i]]);
    chosen[taken] = candidates[i];
    taken += key > kth.key || (key == kth.key && equals > 0);
    equals -= key == kth.key;
  }
  std::copy_n(chosen, k, out);
  return true;
}

}  // namespace turnbench::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace turnbench::cpu {

HWY_EXPORT(select_greatest);

namespace {

/// Scores per task, unless k is so large that splitting gains nothing.
constexpr std::int64_t kPieceScores = 1 << 16;

std::int64_t wanted(const TopKJob& job) {
  return std::clamp<std::int64_t>(job.k, 0, std::ssize(job.scores));
}

bool is_in_pieces(const TopKJob& job) {
  return std::ssize(job.scores) >= 2 * kPieceScores && 4 * wanted(job) <= kPieceScores;
}

}  // namespace

void top_k(ThreadPool& pool, std::span<const TopKJob> jobs, AttentionWorkspace& workspace) {
  const auto select = [&](std::span<const float> scores, std::int64_t k,
                          std::vector<std::int32_t>& out, int worker) {
    out.resize(k);
    float* memory = workspace.worker[worker].get(3 * scores.size() + 64);
    return HWY_DYNAMIC_DISPATCH(select_greatest)(scores.data(), std::ssize(scores), k, out.data(),
                                                 memory);
  };
  std::vector<Piece> pieces;
  std::vector<std::vector<std::int32_t>> of_pieces;
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    const std::int64_t n = std::ssize(jobs[i].scores),
                       grain = is_in_pieces(jobs[i]) ? kPieceScores : std::max<std::int64_t>(n, 1);
    for (std::int64_t at = 0; at == 0 || at < n; at += grain)
      pieces.push_back({i, at, std::min(grain, n - at)});
  }
  of_pieces.resize(pieces.size());
  std::vector<char> good(pieces.size());
  pool.parallel_for(pieces.size(), [&](std::size_t t, int worker) {
    const Piece& piece = pieces[t];
    const TopKJob& job = jobs[piece.job];
    good[t] =
        select(job.scores.subspan(piece.first, piece.count), std::min(wanted(job), piece.count),
               is_in_pieces(job) ? of_pieces[t] : *job.out, worker);
  });
  if (std::find(good.begin(), good.end(), 0) != good.end())
    throw runtime_error("top_k: found a score that is not a number");
  std::vector<std::size_t> divided;
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    if (is_in_pieces(jobs[i])) divided.push_back(i);
  }
  pool.parallel_for(divided.size(), [&](std::size_t d, int worker) {
    const std::size_t i = divided[d];
    const TopKJob& job = jobs[i];
    std::vector<std::int32_t> indices, ranks;
    std::vector<float> scores;
    for (std::size_t t = 0; t < pieces.size(); ++t) {
      if (pieces[t].job != i) continue;
      for (std::int32_t index : of_pieces[t])
        indices.push_back(index + static_cast<std::int32_t>(pieces[t].first));
    }
    for (std::int32_t index : indices) scores.push_back(job.scores[index]);
    select(scores, wanted(job), ranks, worker);
    job.out->clear();
    for (std::int32_t rank : ranks) job.out->push_back(indices[rank]);
  });
}

}  // namespace turnbench::cpu
#endif  // HWY_ONCE
