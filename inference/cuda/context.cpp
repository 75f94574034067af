#include "inference/cuda/context.h"

#include <algorithm>

namespace turnbench::cuda {
namespace {

constexpr std::size_t kAlignment = 256;
constexpr std::size_t kReservedShare = 32;  // one part in so many of a device's memory stays free

std::size_t mib(std::size_t bytes) {
  return (bytes + (std::size_t{1} << 20) - 1) >> 20;
}

std::size_t rounded(std::size_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

struct FreeMemory {
  std::size_t usable = 0, total = 0;  ///< bytes; the reserve is not usable
};
FreeMemory free_memory(int device) {
  check(cudaSetDevice(device), "choosing the device");
  std::size_t free = 0, total = 0;
  check(cudaMemGetInfo(&free, &total), "asking for free memory");
  const std::size_t reserve = total / kReservedShare;
  return {free > reserve ? free - reserve : 0, total};
}

}  // namespace

void check(cudaError_t status, const char* what) {
  if (status == cudaSuccess) return;
  cudaGetLastError();  // so that the next call does not report it again
  if (status == cudaErrorMemoryAllocation)
    throw memory_error("CUDA, {}: {}", what, cudaGetErrorString(status));
  if (cudaPeekAtLastError() !=
      cudaSuccess) {  // a sticky error, which persists until the process ends
    throw Error(ErrorKind::kDevice, fmt::format("CUDA, {}: {}; the device is lost to this process",
                                                what, cudaGetErrorString(status)));
  }
  throw runtime_error("CUDA, {}: {}", what, cudaGetErrorString(status));
}

bool is_device_memory(const void* data) {
  cudaPointerAttributes found = {};
  check(cudaPointerGetAttributes(&found, data), "asking where memory is");
  return found.type == cudaMemoryTypeDevice;
}

bool has_free_memory(int device, std::size_t bytes) {
  return bytes <= free_memory(device).usable;
}

Error out_of_memory(int device, std::size_t bytes, const char* what) {
  const FreeMemory free = free_memory(device);
  return memory_error("cuda:{}: {} need {} MiB; {} of {} MiB are free (1/{} is kept free)", device,
                      what, mib(bytes), mib(free.usable), mib(free.total), kReservedShare);
}

std::byte* try_allocate_device(int device, std::size_t bytes) {
  if (!has_free_memory(device, bytes)) return nullptr;
  void* data = nullptr;
  const cudaError_t status = cudaMalloc(&data, bytes);
  if (status ==
      cudaErrorMemoryAllocation) {  // fragmented, or allocated by another program meanwhile
    cudaGetLastError();
    return nullptr;
  }
  check(status, "allocating memory");
  return static_cast<std::byte*>(data);
}

std::byte* allocate_device(int device, std::size_t bytes, const char* what) {
  if (std::byte* out = try_allocate_device(device, bytes)) return out;
  throw out_of_memory(device, bytes, what);
}

Arena::~Arena() {
  for (const Piece& p : pieces_) {
    if (kind_ == Kind::kDevice) {
      cudaFree(p.data);
    } else {
      cudaFreeHost(p.data);
    }
  }
}

bool Arena::has_room(std::size_t bytes) const {
  return !pieces_.empty() && pieces_.back().size - pieces_.back().used >= rounded(bytes);
}

std::byte* Arena::allocate(std::size_t bytes) {
  if (!has_room(bytes)) {
    const std::size_t size = std::max({rounded(bytes), this->bytes(), kSmallestPiece});
    void* data = nullptr;
    if (kind_ == Kind::kDevice) {
      data = allocate_device(device_, size, "scratch");
    } else {
      check(cudaMallocHost(&data, size), "allocating pinned memory");
    }
    pieces_.push_back({static_cast<std::byte*>(data), size, 0});
  }
  Piece& p = pieces_.back();
  std::byte* out = p.data + p.used;
  p.used += rounded(bytes);
  return out;
}

void Arena::release() {
  for (const Piece& p : pieces_) {
    if (kind_ == Kind::kDevice) {
      check(cudaFree(p.data), "freeing scratch");
    } else {
      check(cudaFreeHost(p.data), "freeing pinned memory");
    }
  }
  pieces_.clear();
  ++generation_;
}

void Arena::clear() {
  if (pieces_.size() > 1) {  // replaced by one piece
    const std::size_t all = bytes();
    release();
    allocate(all);
  }
  for (Piece& p : pieces_) p.used = 0;
}

std::size_t Arena::bytes() const {
  std::size_t total = 0;
  for (const Piece& p : pieces_) total += p.size;
  return total;
}

Context::Context(int device) : device_(device), transfers_(device) {
  check(cudaSetDevice(device), "choosing the device");
  check(cudaGetDeviceProperties(&properties_, device), "asking for the device's properties");
  check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "making a stream");
}

Context::~Context() {
  cudaSetDevice(device_);
  cudaStreamSynchronize(stream_);
  cudaStreamDestroy(stream_);
}

void Context::begin() {
  check(cudaSetDevice(device_), "choosing the device");
  // Device memory can be reused immediately, because the stream executes in order.  Pinned memory
  // that the host writes cannot, so staging is only cleared when it is full.
  if (!scratch_.in_one_piece() || !uploads_.in_one_piece()) synchronize();
  scratch_.clear();
  uploads_.clear();
}

void Context::refuse_uncapturable(const char* what) const {
  if (only_capturable_)
    throw runtime_error("CUDA, {}: found among operations that are repeated as they are", what);
}

std::byte* Context::stage(std::size_t bytes) {
  if (!staging_.has_room(bytes)) {
    synchronize();
    staging_.clear();
  }
  return staging_.allocate(bytes);
}

const std::byte* Context::upload_pieces(std::span<const std::span<const std::byte>> pieces) {
  refuse_uncapturable("uploading");
  std::size_t bytes = 0;
  for (const auto piece : pieces) bytes += piece.size();
  if (bytes == 0) return nullptr;
  std::byte* staged = stage(bytes);
  for (std::byte* to = staged; const auto piece : pieces) {
    if (!piece.empty()) std::memcpy(to, piece.data(), piece.size());
    to += piece.size();
  }
  std::byte* out = uploads_.allocate(bytes);
  check(cudaMemcpyAsync(out, staged, bytes, cudaMemcpyHostToDevice, stream_), "uploading");
  return out;
}

void check_on_device(const KvHeadCache& set) {
  if (!set.pool()->memory().is_host()) return;
  throw runtime_error("CUDA: found a KV set of {} tokens in host memory, expected device memory",
                      set.size());
}

SetView Context::view(const KvHeadCache& set) {
  check_on_device(set);
  return {PageTable::of(set, upload(set.page_indices())), set.layout(), set.size(),
          set.is_contiguous()};
}

void Context::copy_from_host(void* to, std::span<const std::byte> from) {
  refuse_uncapturable("copying");
  if (from.empty()) return;
  std::byte* staged = stage(from.size());
  std::memcpy(staged, from.data(), from.size());
  check(cudaMemcpyAsync(to, staged, from.size(), cudaMemcpyHostToDevice, stream_), "copying");
}

void Context::copy(void* to, const void* from, std::size_t bytes) {
  refuse_uncapturable("copying");
  check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream_), "copying");
}

void Context::zero(void* to, std::size_t bytes) {
  check(cudaMemsetAsync(to, 0, bytes, stream_), "clearing");
}

void Context::release_scratch() {
  check(cudaSetDevice(device_), "choosing the device");
  synchronize();
  scratch_.release();
  uploads_.release();
  staging_.release();
}

void Context::synchronize() {
  check(cudaStreamSynchronize(stream_), "waiting for the device");
  transfers_.synchronize();
}

}  // namespace turnbench::cuda
