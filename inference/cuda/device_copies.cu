#include "inference/cuda/device_copies.h"

#include <algorithm>
#include <vector>

#include "inference/cuda/vector.h"

namespace turnbench::cuda {
namespace {

constexpr int kCopyThreads = 256, kCopyWarps = kCopyThreads / kWarp;
constexpr std::size_t kPieceBytes = 4096;  // a multiple of 16; eight loads per lane

/// The part of one copy that one warp executes.
struct Piece {
  std::byte* to;
  const std::byte* from;
  int bytes;
};

/// Copies the whole words among `bytes` bytes from `done` on; returns the end of the copied bytes.
template <typename Word>
__device__ int copy_words(const Piece& p, int done, int lane) {
  const auto* from = reinterpret_cast<const Word*>(p.from + done);
  auto* to = reinterpret_cast<Word*>(p.to + done);
  const int words = (p.bytes - done) / static_cast<int>(sizeof(Word));
#pragma unroll 4
  for (int i = lane; i < words; i += kWarp) to[i] = from[i];
  return done + words * static_cast<int>(sizeof(Word));
}

__global__ void copy_pieces(const Piece* pieces, int count) {
  const int index =
      static_cast<int>(blockIdx.x) * kCopyWarps + static_cast<int>(threadIdx.x) / kWarp;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  if (index >= count) return;
  const Piece p = pieces[index];
  const auto both =
      reinterpret_cast<std::uintptr_t>(p.to) | reinterpret_cast<std::uintptr_t>(p.from);
  int done = 0;
  if (both % sizeof(uint4) == 0) done = copy_words<uint4>(p, done, lane);
  if (both % sizeof(std::uint32_t) == 0) done = copy_words<std::uint32_t>(p, done, lane);
  copy_words<std::byte>(p, done, lane);
}

/// Rows of one job that go to one page.
struct PageRows {
  std::byte* page;
  ElementLayout layout;
  int slot, rows;                            ///< the first row in the page, and their number
  MatrixView<const float> k, v, pre_rope_k;  ///< [rows, head_dim], the latter two null if not given
  const std::int32_t* positions;
};

template <typename T>
__device__ void write_rows(const PageRows& p, const MatrixView<const float>& from,
                           std::size_t offset) {
  const int width = p.layout.head_dim;
  T* to = reinterpret_cast<T*>(p.page + offset) + static_cast<std::size_t>(p.slot) * width;
  for (int r = static_cast<int>(threadIdx.x) / kWarp; r < p.rows; r += kCopyWarps) {
    const auto row = static_cast<std::size_t>(r);
    for (int d = static_cast<int>(threadIdx.x) % kWarp; d < width; d += kWarp) {
      to[row * width + d] = from_float<T>(from.data[row * from.stride + d]);
    }
  }
}

template <typename T>
__device__ void write_page(const PageRows& p) {
  write_rows<T>(p, p.k, 0);
  if (p.v.data != nullptr) write_rows<T>(p, p.v, p.layout.value_offset());
  if (p.layout.pre_rope_keys && p.pre_rope_k.data != nullptr)
    write_rows<T>(p, p.pre_rope_k, p.layout.pre_rope_key_offset());
  auto* positions = reinterpret_cast<std::int32_t*>(p.page + p.layout.position_offset()) + p.slot;
  for (int r = static_cast<int>(threadIdx.x); r < p.rows; r += kCopyThreads)
    positions[r] = p.positions[r];
}

/// One block per page; a warp processes one row after another.
__global__ void append_rows(const PageRows* pages) {
  const PageRows p = pages[blockIdx.x];
  switch (p.layout.dtype) {
    case DType::kF32:
      return write_page<float>(p);
    case DType::kF16:
      return write_page<__half>(p);
    case DType::kBF16:
      return write_page<__nv_bfloat16>(p);
  }
}

}  // namespace

void copy_bytes(Context& context, std::span<const Copy> copies) {
  context.begin();
  std::vector<Piece> pieces;
  pieces.reserve(copies.size());
  for (const Copy& c : copies) {
    for (std::size_t at = 0; at < c.bytes; at += kPieceBytes) {
      pieces.push_back(
          {c.to + at, c.from + at, static_cast<int>(std::min(kPieceBytes, c.bytes - at))});
    }
  }
  const std::size_t blocks = (pieces.size() + kCopyWarps - 1) / kCopyWarps;
  context.launch(copy_pieces, dim3(static_cast<unsigned>(blocks)), dim3(kCopyThreads), 0,
                 context.upload(pieces), static_cast<int>(pieces.size()));
}

void append(Context& context, std::span<const AppendJob> jobs) {
  context.begin();
  std::vector<std::int32_t> positions;
  for (const AppendJob& job : jobs) {
    check_on_device(*job.set);
    for (int r = 0; r < job.rows(); ++r) positions.push_back(job.set->position(job.first + r));
  }
  const std::int32_t* at = context.upload(positions);
  std::vector<PageRows> pages;
  for (const AppendJob& job : jobs) {
    for (int row = 0, rows = 0; row < job.rows(); row += rows) {
      const int slot = job.first + row;
      rows = std::min(job.rows() - row, kPageTokens - slot % kPageTokens);
      pages.push_back({job.set->pages()[slot / kPageTokens]->data, job.set->layout(),
                       slot % kPageTokens, rows, job.k.rows_at(row, rows), job.v.rows_at(row, rows),
                       job.pre_rope_k.rows_at(row, rows), at});
      at += rows;
    }
  }
  context.launch(append_rows, dim3(static_cast<unsigned>(pages.size())), dim3(kCopyThreads), 0,
                 context.upload(pages));
}

}  // namespace turnbench::cuda
