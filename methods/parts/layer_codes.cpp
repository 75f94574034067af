#include "methods/parts/layer_codes.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "methods/parts/cached_keys.h"

namespace turnbench {
namespace {

constexpr std::int64_t kRoom = 256;  // spare codes per row of a buffer

std::byte* bytes_of(std::uint8_t* codes) {
  return reinterpret_cast<std::byte*>(codes);
}
const std::byte* bytes_of(const std::uint8_t* codes) {
  return reinterpret_cast<const std::byte*>(codes);
}

}  // namespace

void LayerCodes::add_book(const LayerView& view, int iterations, std::span<const int> first) {
  read_books();
  CodeSettings settings = settings_;
  settings.iterations = iterations;
  const std::string key = fmt::format("codes {} {} {} {}", settings.parts, settings.bits,
                                      settings.iterations, fmt::join(first, " "));
  Book& book = books_.emplace_back();
  book.first.assign(first.begin(), first.end());
  book.index = view.memo->get<CodeIndex>(
      key, [&] { return std::make_shared<CodeIndex>(view, settings, first); });
  codes_.resize(view.sets.size() * parts());
}

void LayerCodes::read_books() {
  for (Book& book : books_) {
    if (book.is_read) continue;
    book.index->wait();
    for (std::size_t r = 0; r < codes_.size(); ++r) {
      const auto codes = book.index->codes(r / parts(), static_cast<int>(r % parts()));
      codes_[r].insert(codes_[r].end(), codes.begin(), codes.end());
    }
    book.is_read = true;
  }
}

int LayerCodes::iterations() const {
  int out = 0;
  for (const Book& book : books_) {
    book.index->wait();
    out = std::max(out, book.index->iterations());
  }
  return out;
}

MatrixView<const float> LayerCodes::centroids(Book& book, const LayerView& view, std::size_t set) {
  const MatrixView<const float> host = book.index->centroids(set);
  const std::int64_t floats = host.rows * host.columns;
  if (book.centroids == nullptr) {  // stored set by set
    const std::size_t all = view.sets.size() * static_cast<std::size_t>(floats);
    auto buffer = std::make_shared<Buffer>(all * sizeof(float), view.backend->memory());
    view.backend->memory()->copy(
        std::array{copy_of(book.index->centroids(0).data, buffer->as<float>(), all)});
    book.centroids = std::move(buffer);
  }
  return {book.centroids->as<float>() + static_cast<std::int64_t>(set) * floats, host.rows,
          host.columns};
}

void LayerCodes::code_until(const LayerView& view, std::span<const int> end) {
  read_books();
  Book& book = books_.back();
  const std::int64_t dim = view.shape.head_dim, part_dim = dim / settings_.parts;
  const auto missing_of = [&](std::size_t s) {
    return std::max<std::int64_t>(0, end[s] - first(s) - std::ssize(codes_[s * parts()]));
  };
  std::int64_t rows = 0;
  for (std::size_t s = 0; s < view.sets.size(); ++s) rows += missing_of(s);
  if (rows == 0) return;
  // Scratch: keys, then codes.
  float* keys_at = view.scratch->floats(static_cast<std::size_t>(rows * (dim + settings_.parts)));
  auto* codes_at = reinterpret_cast<std::uint8_t*>(keys_at + rows * dim);
  std::vector<ReadRowsJob> reads;
  std::vector<NearestJob> nearest;
  std::vector<Copy> copies;
  for (std::size_t s = 0; s < view.sets.size(); ++s) {
    const std::int64_t count = missing_of(s);
    if (count == 0) continue;
    const MatrixView<float> keys(keys_at, count, dim);
    keys_at += count * dim;
    reads.push_back({&view.sets[s], end[s] - static_cast<int>(count), KvRow::kKey, keys});
    for (std::size_t p = 0; p < parts(); ++p) {
      const std::int64_t part = static_cast<std::int64_t>(p), all = settings_.count();
      nearest.push_back({keys.columns_at(part * part_dim, part_dim),
                         centroids(book, view, s).rows_at(part * all, all), codes_at});
      std::vector<std::uint8_t>& row = codes_[s * parts() + p];
      row.resize(row.size() + static_cast<std::size_t>(count));
      copies.push_back({bytes_of(row.data() + (std::ssize(row) - count)), bytes_of(codes_at),
                        static_cast<std::size_t>(count)});
      codes_at += count;
    }
  }
  read_keys_of_any_set(*view.backend, reads);
  view.backend->assign_nearest(nearest);
  view.backend->memory()->copy(copies);
  view.backend->memory()->synchronize();
}

void LayerCodes::make_room(CodeBuffer& buffer, const std::shared_ptr<Memory>& memory) {
  std::int64_t most = 0;
  for (const auto& row : codes_) most = std::max(most, std::ssize(row));
  if (most <= buffer.stride_ && buffer.filled_.size() == codes_.size()) return;
  buffer.wait();
  buffer.stride_ = (most / kRoom + 2) * kRoom;
  buffer.bytes_ = Buffer(codes_.size() * static_cast<std::size_t>(buffer.stride_), memory);
  buffer.filled_.assign(codes_.size(), 0);
}

std::vector<Copy> LayerCodes::missing(CodeBuffer& buffer) const {
  std::vector<Copy> out;
  for (std::size_t r = 0; r < codes_.size(); ++r) {
    const std::size_t have = buffer.filled_[r], all = codes_[r].size();
    if (have < all)
      out.push_back(
          {bytes_of(buffer.row(r) + have), bytes_of(codes_[r].data() + have), all - have});
    buffer.filled_[r] = all;
  }
  return out;
}

void LayerCodes::move(CodeBuffer& buffer, const IndexPath& path) {
  read_books();
  make_room(buffer, path.memory);
  std::fill(buffer.filled_.begin(), buffer.filled_.end(), 0);  // contained codes of another layer
  const std::vector<Copy> copies = missing(buffer);
  std::int64_t codes = 0;
  for (const Copy& c : copies) codes += static_cast<std::int64_t>(c.bytes);
  buffer.ticket_ = path.submit(copies, codes * settings_.bits);
  buffer.link_ = path.link;
}

void LayerCodes::copy_to(CodeBuffer& buffer, const std::shared_ptr<Memory>& memory) {
  read_books();
  make_room(buffer, memory);
  memory->copy(missing(buffer));
}

void LayerCodes::add_score_jobs(const LayerView& view, std::size_t set, MatrixView<const float> q,
                                CodeBuffer& buffer, MatrixView<float> out,
                                std::vector<CodeScoreJob>& jobs) {
  for (std::size_t b = 0; b < books_.size(); ++b) {
    const std::int64_t begin = books_[b].first[set] - first(set);
    const std::int64_t next =
        b + 1 < books_.size() ? books_[b + 1].first[set] - first(set) : out.columns;
    const std::int64_t count = std::min(next, out.columns) - begin;
    if (count <= 0) continue;
    jobs.push_back({.q = q,
                    .centroids = centroids(books_[b], view, set),
                    .parts = settings_.parts,
                    .codes = buffer.row(set * parts()) + begin,
                    .code_stride = buffer.stride(),
                    .out = out.columns_at(begin, count)});
  }
}

}  // namespace turnbench
