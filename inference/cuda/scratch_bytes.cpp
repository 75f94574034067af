#include <algorithm>

#include "inference/cuda/attention_rows.h"
#include "inference/cuda/context.h"
#include "inference/cuda/cuda_backend.h"
#include "inference/cuda/decode_plan.h"
#include "inference/cuda/gemm.h"
#include "inference/cuda/host_transfers.h"

namespace turnbench::cuda {

std::size_t scratch_bytes(const ModelConfig& c, const PassSize& pass) {
  const std::int64_t heads = c.heads, kv = c.kv_heads, head_dim = c.head_dim,
                     widest = std::max({c.hidden, c.heads * c.head_dim, c.ffn});
  // Operations run one after another: rows rounded to the weights' type, attention of many rows in
  // parts of the keys, attention of single rows in segments of the keys.
  const std::int64_t parts = max_parts(pass.longest_context);
  const std::int64_t rounded = std::min(pass.rows, kLinearBlockRows) * widest * 2,
                     split_rows = std::min(pass.rows, kMaxSplitRows * pass.sequences),
                     in_parts = parts == 1 ? 0 : split_rows * parts * heads * (head_dim + 1),
                     in_segments = pass.sequences * max_segments(pass.longest_context) * heads *
                                   (head_dim + 2);
  const std::int64_t scratch =
      std::max<std::int64_t>(rounded, sizeof(float) * std::max(in_parts, in_segments));
  // Arguments of an attention's jobs: tables of pages, positions, jobs, tasks.
  const std::size_t uploads =
      (pass.total_context / kPageTokens + pass.sequences) * kv * sizeof(std::uint32_t) +
      pass.rows * sizeof(std::int32_t) + pass.sequences * kv * (parts + 1) * sizeof(RowsJob) +
      (pass.rows / 16 + pass.sequences) * heads * parts * sizeof(RowsTask);
  // Memory grows by doubling; uploads are also staged in pinned memory, which keeps several.
  const auto grown = [](std::size_t bytes) { return 2 * bytes + Arena::kSmallestPiece; };
  return Gemm::kWorkspaceBytes + HostTransfers::kBuffers * HostTransfers::kBufferBytes +
         grown(scratch) + grown(uploads) + grown(2 * uploads);
}

}  // namespace turnbench::cuda
