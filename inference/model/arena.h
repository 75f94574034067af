#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "inference/model/matrix_view.h"
#include "inference/model/memory.h"

namespace turnbench {

/// Scratch memory for many arrays.  An array stays valid until `clear`, or until the end of the
/// Frame in which it was made.
class Arena {
 public:
  explicit Arena(std::shared_ptr<Memory> memory = host_memory()) : memory_(std::move(memory)) {}

  /// An array of `count` floats with undefined contents, aligned to kAlignment bytes.
  float* floats(std::size_t count) {
    const std::size_t size = (count * sizeof(float) + kAlignment - 1) / kAlignment * kAlignment;
    while (block_ < blocks_.size() && blocks_[block_].size() - used_ < size) {
      ++block_;
      used_ = 0;
    }
    if (block_ == blocks_.size()) blocks_.emplace_back(std::max(size, kLeastBlock), memory_);
    std::byte* out = blocks_[block_].data() + std::exchange(used_, used_ + size);
    return reinterpret_cast<float*>(out);
  }
  /// A matrix of floats without gaps between its rows.
  MatrixView<float> matrix(std::int64_t rows, std::int64_t columns) {
    return {floats(static_cast<std::size_t>(rows * columns)), rows, columns};
  }

  /// Ends the validity of all arrays.  Keeps the memory, as one block.
  void clear() {
    if (blocks_.size() > 1) {
      const std::size_t size = bytes();
      release();
      blocks_.emplace_back(size, memory_);
    }
    block_ = used_ = 0;
  }
  void release() {
    blocks_.clear();
    block_ = used_ = 0;
  }
  std::size_t bytes() const {
    std::size_t out = 0;
    for (const Buffer& block : blocks_) out += block.size();
    return out;
  }
  /// Bytes of the valid arrays, including unused ends of blocks before the last array's block.
  std::size_t used_bytes() const {
    std::size_t out = used_;
    for (std::size_t i = 0; i < block_; ++i) out += blocks_[i].size();
    return out;
  }

  /// At its end, the arrays that were made since its beginning become invalid.
  class Frame {
   public:
    explicit Frame(Arena& arena) : arena_(arena), block_(arena.block_), used_(arena.used_) {}
    ~Frame() {
      arena_.block_ = block_;
      arena_.used_ = used_;
    }
    Frame(const Frame&) = delete;
    Frame& operator=(const Frame&) = delete;

   private:
    Arena& arena_;
    std::size_t block_, used_;
  };

 private:
  static constexpr std::size_t kAlignment = 64, kLeastBlock = 4096;

  std::shared_ptr<Memory> memory_;
  std::vector<Buffer> blocks_;
  std::size_t block_ = 0, used_ = 0;  // the next array's block, and the bytes used in it
};

}  // namespace turnbench
