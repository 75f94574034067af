// Scores of the keys of sets.

#include <vector>

#include "inference/cuda/score_rows.h"
#include "inference/cuda/selection.h"

namespace turnbench::cuda {
namespace {

/// Keys in pages; some rows may have no key.
template <typename T>
struct PagedKeys {
  ScoredHeads heads;
  PageTable pages;
  const std::int32_t* slots;  ///< null: row i is slot i

  struct Row {
    const T* key;
    __device__ float load(int d) const { return key == nullptr ? 0 : to_float(key[d]); }
    __device__ static float add(float q, float x, float sum) { return fmaf(q, x, sum); }
    __device__ float score(float sum) const { return key == nullptr ? kMasked : sum; }
  };
  __device__ Row row(int i) const {
    const int slot = slots == nullptr ? i : slots[i];
    if (slot < 0) return {nullptr};
    return {reinterpret_cast<const T*>(pages[slot / kPageTokens]) +
            static_cast<std::size_t>(slot % kPageTokens) * heads.dim};
  }
};

}  // namespace

void score_keys(Context& context, float scale, std::span<const KeyScoreJob> jobs) {
  context.begin();
  std::vector<std::span<const std::byte>> tables;  // the pages of all jobs, followed by their slots
  for (const KeyScoreJob& job : jobs) {
    check_on_device(*job.set);
    tables.push_back(std::as_bytes(job.set->page_indices()));
  }
  for (const KeyScoreJob& job : jobs) tables.push_back(std::as_bytes(job.slots));
  std::vector<const std::byte*> at = {context.upload_pieces(tables)};
  for (const auto& table : tables) at.push_back(at.back() + table.size());
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kBF16}) {
    with_type(dtype, [&](auto type) {
      std::vector<PagedKeys<decltype(type)>> rows;
      for (std::size_t i = 0; i < jobs.size(); ++i) {
        const KeyScoreJob& job = jobs[i];
        if (job.set->layout().dtype != dtype) continue;
        rows.push_back({{job.q, job.out},
                        PageTable::of(*job.set, reinterpret_cast<const std::uint32_t*>(at[i])),
                        job.slots.empty()
                            ? nullptr
                            : reinterpret_cast<const std::int32_t*>(at[jobs.size() + i])});
      }
      score_all_rows(context, scale, rows);
    });
  }
}

}  // namespace turnbench::cuda
