#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "methods/parts/code_index.h"

namespace turnbench {

/// Codes in a backend's memory: one row [stride] per part of each KV set.
class CodeBuffer {
 public:
  CodeBuffer() = default;
  CodeBuffer(const CodeBuffer&) {}  // copies start empty
  CodeBuffer& operator=(const CodeBuffer&) = delete;
  ~CodeBuffer() { wait(); }

  std::uint8_t* row(std::size_t r) {
    return bytes_.as<std::uint8_t>() + static_cast<std::int64_t>(r) * stride_;
  }
  std::int64_t stride() const { return stride_; }
  void clear() { filled_.clear(); }
  /// Waits for the transfer that `LayerCodes::move` started.
  void wait() {
    if (link_) link_->wait(ticket_);
  }

 private:
  friend class LayerCodes;
  Buffer bytes_;
  std::int64_t stride_ = 0;
  std::vector<std::size_t> filled_;  // number of codes in each row
  std::shared_ptr<Link> link_;
  Link::Ticket ticket_ = 0;
};

/// The codes of a layer's keys from some slot on, in host memory: one row per part of each KV set.
/// There are one or more codebooks; each codes the tokens from its first one up to the first one of
/// the next codebook.
class LayerCodes {
 public:
  explicit LayerCodes(const CodeSettings& settings) : settings_(settings) {}

  bool empty() const { return books_.empty(); }
  /// Starts to compute a codebook of the slots from first[s] on of each set s.  Except for the
  /// first codebook, all earlier tokens must have codes.
  void add_book(const LayerView& view, int iterations, std::span<const int> first);
  /// Assigns codes of the last codebook (nearest centroids) to the slots below end[s] of each set s
  /// that have none.
  void code_until(const LayerView& view, std::span<const int> end);
  /// The largest number of k-means iterations over all parts and codebooks.
  int iterations() const;

  /// Starts the transfer of all codes over a link; `CodeBuffer::wait` completes it.
  void move(CodeBuffer& buffer, const IndexPath& path);
  /// Copies the codes that a buffer lacks.
  void copy_to(CodeBuffer& buffer, const std::shared_ptr<Memory>& memory);
  /// Adds the jobs that score slots first() + 0, 1, ... of a set with the codes of a buffer.  q:
  /// [heads, head_dim]; out: [heads, slots].
  void add_score_jobs(const LayerView& view, std::size_t set, MatrixView<const float> q,
                      CodeBuffer& buffer, MatrixView<float> out, std::vector<CodeScoreJob>& jobs);
  /// The first slot of a set with a code.
  int first(std::size_t set) const { return books_.front().first[set]; }

 private:
  struct Book {
    std::vector<int> first;  ///< slot of each set
    std::shared_ptr<const CodeIndex> index;
    std::shared_ptr<const Buffer> centroids;  ///< of all sets, in the backend's memory
    bool is_read = false;                     ///< its codes are in `codes_`
  };

  std::size_t parts() const { return static_cast<std::size_t>(settings_.parts); }
  /// Waits for all codebooks and stores their codes.
  void read_books();
  void make_room(CodeBuffer& buffer, const std::shared_ptr<Memory>& memory);
  /// The copies of the codes that a buffer lacks; marks them as filled.
  std::vector<Copy> missing(CodeBuffer& buffer) const;
  /// The centroids of a set: [parts * 2^bits, head_dim / parts], in the backend's memory.
  MatrixView<const float> centroids(Book& book, const LayerView& view, std::size_t set);

  CodeSettings settings_;
  std::vector<Book> books_;
  std::vector<std::vector<std::uint8_t>> codes_;  ///< [sets * parts][tokens]
};

}  // namespace turnbench
