// Attention probabilities of some rows, and their sums along columns and diagonals.  Rows are
// processed in strips of 64; only the probabilities [64][slots] of the current strips are in
// memory.

#include <algorithm>
#include <cassert>
#include <vector>

#include "inference/cuda/score_tile.h"
#include "inference/cuda/statistics.h"

namespace turnbench::cuda {
namespace {

constexpr int kSoftmaxThreads = 512, kSumThreads = 256;
constexpr int kRowsAtOnce = 256;  // for row_probabilities
// Approximate number of probabilities in memory during add_line_mass.
constexpr std::size_t kWaveFloats = 32ull << 20;

/// Up to 64 rows of one query head over one set; everything in device memory.
struct Strip {
  SetView keys;
  const float* q;
  std::size_t q_stride;
  const std::int32_t* positions;
  int rows, window;
  bool rounded;                  ///< queries are rounded to the keys' type
  std::int32_t least, greatest;  ///< range of the positions
  int seen;                      ///< slots at or before `greatest`
  float* cells;                  ///< [rows][ld]: scores, then probabilities
  std::size_t ld;

  // The sums; null if not computed.
  float *vertical, *slash;
  int distances;                ///< of `slash`
  const std::int32_t* slot_at;  ///< 1 + the slot of a position below `positions_end`, 0 for none;
  std::int32_t positions_end;   ///< null if slots are positions
};

/// Grid: (tiles of 64 keys, strips).  Scores of all pairs of tiles that some row sees.
template <class Scores>
__global__ void __launch_bounds__(kScoreThreads) strip_scores(const Strip* strips) {
  const Strip& strip = strips[blockIdx.y];
  const int first = static_cast<int>(blockIdx.x) * Scores::kKeys;
  if (first >= strip.seen) return;
  const int last = smaller(first + Scores::kKeys, strip.keys.size) - 1;
  if (strip.window > 0 && strip.keys.position(last) <= strip.least - strip.window) return;
  Scores scores(shared_memory(), strip.keys.layout.head_dim);
  scores.load_keys(strip.keys, first);
  scores.load_queries(strip.q, strip.q_stride, strip.rows);
  scores.store_queries(strip.rounded);
  __syncthreads();
  scores.compute();
#pragma unroll
  for (int i = 0; i < Scores::kRowsPerThread; ++i) {
    const int r = scores.row(i);
    if (r >= strip.rows) continue;
    float x[Scores::kKeysPerThread];
#pragma unroll
    for (int j = 0; j < Scores::kKeysPerThread; ++j) x[j] = scores.at(i, j);
    scores.store(strip.cells + static_cast<std::size_t>(r) * strip.ld + first, x);
  }
}

/// Grid: (rows, strips); a block computes the probabilities of one row from its scores and writes
/// the whole row.  A warp processes every 16th tile of 64 slots and adds its 64 weights in the
/// CPU's tree, the tiles' sums in double precision; then the warps' sums are added in order.
__global__ void __launch_bounds__(kSoftmaxThreads) softmax(const Strip* strips, float scale) {
  constexpr int kWarps = kSoftmaxThreads / kWarp;
  const Strip& strip = strips[blockIdx.y];
  const int row = static_cast<int>(blockIdx.x), thread = static_cast<int>(threadIdx.x),
            warp = thread / kWarp, lane = thread % kWarp;
  if (row >= strip.rows) return;
  float* cells = strip.cells + static_cast<std::size_t>(row) * strip.ld;
  const std::int32_t position = strip.positions[row];
  int first = 0, last = smaller(position + 1, strip.keys.size);
  if (!strip.keys.contiguous) last = strip.keys.lower_bound(position + 1);
  if (strip.window > 0) {
    const int from = position < strip.window ? 0 : position - strip.window + 1;
    first = strip.keys.contiguous ? from : strip.keys.lower_bound(from);
  }
  first = smaller(first, last);
  const int begin = first / kPageTokens, end = (last + kPageTokens - 1) / kPageTokens;

  float top = kMasked;
  for (int i = first + thread; i < last; i += kSoftmaxThreads) top = fmaxf(top, cells[i]);
  auto* tops = reinterpret_cast<float*>(shared_memory());                // [kWarps]
  auto* sums = reinterpret_cast<double*>(shared_memory() + 4 * kWarps);  // [kWarps]
  top = warp_max(top);
  if (lane == 0) tops[warp] = top;
  __syncthreads();
  top = tops[0];
  for (int w = 1; w < kWarps; ++w) top = fmaxf(top, tops[w]);

  const float shift = top * scale;
  double sum = 0;
  for (int tile = begin + warp; tile < end; tile += kWarps) {
    float weights[2];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int i = tile * kPageTokens + half * kWarp + lane;
      weights[half] = first <= i && i < last ? exp_of(fmaf(cells[i], scale, -shift)) : 0;
      cells[i] = weights[half];
      weights[half] += __shfl_xor_sync(0xFFFFFFFF, weights[half], 16);
    }
    float partial = weights[0] + weights[1];
    for (int step = 8; step > 0; step /= 2) partial += __shfl_xor_sync(0xFFFFFFFF, partial, step);
    sum += partial;
  }
  if (lane == 0) sums[warp] = sum;
  __syncthreads();
  sum = 0;
  for (int w = 0; w < kWarps; ++w) sum += sums[w];
  const float inverse = sum > 0 ? static_cast<float>(1.0 / sum) : 0;
  for (std::size_t i = threadIdx.x; i < strip.ld; i += kSoftmaxThreads) {
    const bool weight = static_cast<std::size_t>(begin) * kPageTokens <= i &&
                        i < static_cast<std::size_t>(end) * kPageTokens;
    cells[i] = weight ? cells[i] * inverse : 0;
  }
}

/// Grid: (columns / 256, strips); a thread adds the rows of one column in order.
__global__ void __launch_bounds__(kSumThreads) add_vertical(const Strip* strips) {
  const Strip& strip = strips[blockIdx.y];
  const int column = static_cast<int>(blockIdx.x * kSumThreads + threadIdx.x);
  if (column >= strip.seen) return;
  const float* cell = strip.cells + column;
  float sum = strip.vertical[column];
  for (int r = 0; r < strip.rows; ++r, cell += strip.ld) sum += *cell;
  strip.vertical[column] = sum;
}

/// Grid: (distances / 256, strips); a thread adds the rows of one distance in order.
__global__ void __launch_bounds__(kSumThreads) add_slash(const Strip* strips) {
  const Strip& strip = strips[blockIdx.y];
  const int distance = static_cast<int>(blockIdx.x * kSumThreads + threadIdx.x);
  if (distance >= strip.distances) return;
  float sum = strip.slash[distance];
  for (int r = 0; r < strip.rows; ++r) {
    const std::int32_t key = strip.positions[r] - distance;
    if (key < 0 || key >= strip.positions_end) continue;
    const int slot = strip.slot_at == nullptr ? key : strip.slot_at[key] - 1;
    if (slot >= 0) sum += strip.cells[static_cast<std::size_t>(r) * strip.ld + slot];
  }
  strip.slash[distance] = sum;
}

/// slot_at[position] = slot + 1; one thread per slot.
__global__ void __launch_bounds__(kSumThreads) map_positions(SetView keys, std::int32_t* slot_at) {
  const int slot = static_cast<int>(blockIdx.x * kSumThreads + threadIdx.x);
  if (slot < keys.size) slot_at[keys.position(slot)] = slot + 1;
}

unsigned blocks_of(int count, int per_block) {
  return static_cast<unsigned>((count + per_block - 1) / per_block);
}

std::size_t padded(int slots) {
  return static_cast<std::size_t>(slots + kPageTokens - 1) / kPageTokens * kPageTokens;
}

/// Sets the rows [first, first + rows) of a strip; `positions` are on the host, and will be at
/// `device`.
void set_rows(Strip& strip, const KvHeadCache& keys, const std::int32_t* positions,
              const std::int32_t* device, int first, int rows) {
  const auto [least, greatest] = std::minmax_element(positions + first, positions + first + rows);
  strip.positions = device + first;
  strip.rows = rows;
  strip.least = *least;
  strip.greatest = *greatest;
  strip.seen = keys.lower_bound(*greatest + 1);
}

/// Computes probabilities in the cells of strips of one dtype; returns the strips in device memory.
const Strip* probabilities(Context& context, float scale, const std::vector<Strip>& strips) {
  int seen = 0, head_dim = 0;
  for (const Strip& strip : strips) {
    seen = std::max(seen, strip.seen);
    head_dim = std::max(head_dim, strip.keys.layout.head_dim);
  }
  const Strip* device = context.upload(strips);
  const auto count = static_cast<unsigned>(strips.size());
  const auto scores = [&]<class Scores>(std::type_identity<Scores>) {
    context.launch(strip_scores<Scores>, {blocks_of(seen, Scores::kKeys), count}, kScoreThreads,
                   Scores::shared_bytes(head_dim), device);
  };
  with_float_scores(strips[0].keys.layout.dtype, head_dim, scores);
  context.launch(softmax, {kScoreRows, count}, kSoftmaxThreads,
                 kSoftmaxThreads / kWarp * (sizeof(float) + sizeof(double)), device, scale);
  return device;
}

/// Copies `from` [rows, width], between any two memories, to `to`.
void copy_matrix(Context& context, MatrixView<const float> from, MatrixView<float> to) {
  check(cudaMemcpy2DAsync(to.data, to.stride * sizeof(float), from.data,
                          from.stride * sizeof(float), from.columns * sizeof(float), from.rows,
                          cudaMemcpyDefault, context.stream()),
        "copying rows");
}

/// A LineMassJob on the device: the data that its strips share, and its sums.
struct Mass {
  const LineMassJob* job;
  Strip strip = {};
  int seen = 0;                     ///< slots that its last row sees
  MatrixView<float> vertical = {};  ///< [heads, seen]

  std::size_t width() const { return job->q.columns; }
  std::size_t cells() const { return kScoreRows * strip.ld * job->heads(); }
};

Mass make_mass(Context& context, const LineMassJob& job) {
  assert(job.slash == nullptr || job.heads() == 1);
  const KvHeadCache& keys = *job.keys;
  Mass mass{&job};
  Strip& strip = mass.strip;
  strip.keys = context.view(keys);
  strip.window = job.sliding_window;
  strip.rounded = rounds_queries(job);
  strip.positions = context.upload(std::span(job.positions, job.q.rows));
  strip.greatest = job.positions[job.q.rows - 1];
  mass.seen = keys.lower_bound(strip.greatest + 1);
  if (mass.seen == 0) return mass;
  strip.ld = padded(mass.seen);
  const int heads = job.heads();
  mass.vertical = {context.scratch<float>(std::int64_t{heads} * mass.seen), heads, mass.seen};
  copy_matrix(context, job.vertical.columns_at(0, mass.seen), mass.vertical);
  if (job.slash == nullptr) return mass;
  strip.distances = strip.greatest - keys.position(0) + 1;
  if (job.sliding_window > 0) strip.distances = std::min(strip.distances, job.sliding_window);
  strip.slash = context.scratch<float>(static_cast<std::size_t>(strip.distances));
  context.copy(strip.slash, job.slash, static_cast<std::size_t>(strip.distances) * sizeof(float));
  strip.positions_end = keys.position(keys.size() - 1) + 1;
  if (strip.keys.contiguous) return mass;
  const auto positions = static_cast<std::size_t>(strip.positions_end);
  auto* slot_at = context.scratch<std::int32_t>(positions);
  context.zero(slot_at, positions * sizeof(std::int32_t));
  context.launch(map_positions, blocks_of(keys.size(), kSumThreads), kSumThreads, 0, strip.keys,
                 slot_at);
  strip.slot_at = slot_at;
  return mass;
}

/// Adds the rows of jobs of one dtype, one strip of each head at a time.
void add_wave(Context& context, float scale, std::span<const Mass> wave, float* cells,
              float* queries) {
  int longest = 0;
  for (const Mass& mass : wave) longest = std::max(longest, mass.job->rows());
  for (int first = 0; first < longest; first += kScoreRows) {
    std::vector<Strip> strips;
    int seen = 0, distances = 0;
    float *next_cells = cells, *next_q = queries;
    for (const Mass& mass : wave) {
      const LineMassJob& job = *mass.job;
      const int rows = std::min(kScoreRows, job.rows() - first);
      if (rows <= 0) continue;
      copy_matrix(context, job.q.rows_at(first, rows), MatrixView(next_q, rows, job.q.columns));
      Strip strip = mass.strip;
      set_rows(strip, *job.keys, job.positions + first, strip.positions + first, 0, rows);
      strip.q_stride = mass.width();
      for (int h = 0; h < job.heads(); ++h) {
        strip.q = next_q + h * job.keys->layout().head_dim;
        strip.cells = next_cells;
        strip.vertical = mass.vertical.row(h);
        next_cells += kScoreRows * strip.ld;
        strips.push_back(strip);
      }
      next_q += kScoreRows * mass.width();
      seen = std::max(seen, strip.seen);
      distances = std::max(distances, strip.distances);
    }
    const Strip* device = probabilities(context, scale, strips);
    const auto count = static_cast<unsigned>(strips.size());
    context.launch(add_vertical, {blocks_of(seen, kSumThreads), count}, kSumThreads, 0, device);
    context.launch(add_slash, {blocks_of(distances, kSumThreads), count}, kSumThreads, 0, device);
  }
}

}  // namespace

void row_probabilities(Context& context, float scale, const KvHeadCache& keys,
                       MatrixView<const float> q, const std::int32_t* positions, int sliding_window,
                       MatrixView<float> out) {
  assert(out.stride == out.columns);
  if (q.rows == 0) return;
  context.begin();
  const int rows = static_cast<int>(q.rows), at_once = std::min(rows, kRowsAtOnce);
  const SetView view = context.view(keys);
  const std::int32_t* device_positions = context.upload(std::span(positions, q.rows));
  const MatrixView<float> queries(context.scratch<float>(at_once * q.columns), at_once, q.columns);
  const MatrixView<float> cells(context.scratch<float>(at_once * out.columns), at_once,
                                out.columns);
  for (int first = 0; first < rows; first += kRowsAtOnce) {
    const int count = std::min(kRowsAtOnce, rows - first);
    copy_matrix(context, q.rows_at(first, count), queries);
    std::vector<Strip> strips;
    for (int r = 0; r < count; r += kScoreRows) {
      Strip strip = {};
      strip.keys = view;
      strip.window = sliding_window;
      strip.rounded = true;
      strip.q = queries.row(r);
      strip.q_stride = queries.stride;
      strip.cells = cells.row(r);
      strip.ld = cells.stride;
      set_rows(strip, keys, positions, device_positions, first + r,
               std::min(kScoreRows, count - r));
      strips.push_back(strip);
    }
    probabilities(context, scale, strips);
    context.copy(out.row(first), cells.data, count * out.columns * sizeof(float));
  }
  context.synchronize();
}

void add_line_mass(Context& context, float scale, std::span<const LineMassJob> jobs) {
  context.begin();
  std::vector<Mass> masses;
  for (const LineMassJob& job : jobs) {
    if (job.q.rows == 0 || job.q.columns == 0 || job.keys->size() == 0) continue;
    Mass mass = make_mass(context, job);
    if (mass.seen > 0) masses.push_back(mass);
  }
  const auto dtype = [](const Mass& mass) { return mass.job->keys->layout().dtype; };
  // Waves: as many jobs of one dtype as have about kWaveFloats probabilities in total.
  std::vector<std::span<const Mass>> waves;
  std::size_t max_cells = 0, max_queries = 0;
  for (std::size_t begin = 0; begin < masses.size();) {
    std::size_t end = begin, cells = 0, queries = 0;
    while (end < masses.size() && dtype(masses[end]) == dtype(masses[begin]) &&
           (end == begin || cells + masses[end].cells() <= kWaveFloats)) {
      cells += masses[end].cells();
      queries += kScoreRows * masses[end++].width();
    }
    waves.push_back(std::span(masses).subspan(begin, end - begin));
    max_cells = std::max(max_cells, cells);
    max_queries = std::max(max_queries, queries);
    begin = end;
  }
  auto* cells = context.scratch<float>(max_cells);
  auto* queries = context.scratch<float>(max_queries);
  for (const std::span<const Mass> wave : waves) add_wave(context, scale, wave, cells, queries);
  for (const Mass& mass : masses) {
    copy_matrix(context, mass.vertical, mass.job->vertical);
    if (mass.strip.slash != nullptr) {
      context.copy(mass.job->slash, mass.strip.slash,
                   static_cast<std::size_t>(mass.strip.distances) * sizeof(float));
    }
  }
  context.synchronize();
}

}  // namespace turnbench::cuda
