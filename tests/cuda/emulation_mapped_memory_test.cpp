// The emulated driver's virtual memory management: its operations, and uses that its documentation
// forbids.

#include <cuda.h>

#include <vector>

#include "tests/cuda/emulated.h"
#include "tests/cuda/emulation/counters.h"

namespace turnbench::cuda {
namespace {

constexpr std::size_t kPiece = std::size_t{2} << 20, kReserved = std::size_t{64} << 20;

__global__ void fill_mapped(int* out, int value) {
  *out = value;
}

/// Memory of device `id`.
CUmemAllocationProp memory_of(int id) {
  CUmemAllocationProp out = {};
  out.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  out.location = {CU_MEM_LOCATION_TYPE_DEVICE, id};
  return out;
}

std::size_t free_bytes() {
  std::size_t free = 0, total = 0;
  cudaMemGetInfo(&free, &total);
  return free;
}

class MappedMemoryTest : public Emulated {
 protected:
  MappedMemoryTest() { EXPECT_EQ(cuMemAddressReserve(&begin_, kReserved, 0, 0, 0), CUDA_SUCCESS); }
  ~MappedMemoryTest() override { EXPECT_EQ(cuMemAddressFree(begin_, kReserved), CUDA_SUCCESS); }

  static CUmemGenericAllocationHandle create(std::size_t bytes) {
    const CUmemAllocationProp of = memory_of(0);
    CUmemGenericAllocationHandle out = 0;
    EXPECT_EQ(cuMemCreate(&out, bytes, &of, 0), CUDA_SUCCESS);
    return out;
  }
  static CUresult allow(CUdeviceptr address, std::size_t bytes, int id = 0) {
    const CUmemAccessDesc access = {{CU_MEM_LOCATION_TYPE_DEVICE, id},
                                    CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    return cuMemSetAccess(address, bytes, &access, 1);
  }
  /// Maps memory at `offset`; the memory is freed when it is unmapped.
  void map(std::size_t offset, std::size_t bytes) const {
    const CUmemGenericAllocationHandle handle = create(bytes);
    EXPECT_EQ(cuMemMap(begin_ + offset, bytes, 0, handle, 0), CUDA_SUCCESS);
    EXPECT_EQ(cuMemRelease(handle), CUDA_SUCCESS);
    EXPECT_EQ(allow(begin_ + offset, bytes), CUDA_SUCCESS);
  }
  CUresult unmap(std::size_t offset, std::size_t bytes) const {
    return cuMemUnmap(begin_ + offset, bytes);
  }
  int* at(std::size_t offset) const { return reinterpret_cast<int*>(begin_ + offset); }

  CUdeviceptr begin_ = 0;
};

TEST_F(MappedMemoryTest, FunctionsAreFoundByNameAndVersion) {
  void* found = nullptr;
  cudaDriverEntryPointQueryResult result = {};
  const auto find = [&](const char* name, unsigned version) {
    return cudaGetDriverEntryPointByVersion(name, &found, version, cudaEnableDefault, &result);
  };
  EXPECT_EQ(find("cuMemMap", 10020), cudaSuccess);
  EXPECT_EQ(result, cudaDriverEntryPointSuccess);
  EXPECT_EQ(found, reinterpret_cast<void*>(&cuMemMap));
  EXPECT_EQ(find("cuMemMap", 10010), cudaSuccess);
  EXPECT_EQ(result, cudaDriverEntryPointVersionNotSufficent);
  EXPECT_EQ(found, nullptr);
  EXPECT_EQ(find("cuMemNone", 10020), cudaSuccess);
  EXPECT_EQ(result, cudaDriverEntryPointSymbolNotFound);
  EXPECT_EQ(found, nullptr);
  EXPECT_EQ(find("cuMemMap", 99000), cudaErrorInvalidValue);
}

TEST_F(MappedMemoryTest, PiecesAreOneRangeOfDeviceMemory) {
  const std::size_t before = free_bytes();
  const std::size_t allocations = emulation::counters().allocations;
  map(0, kPiece);
  map(kPiece, 2 * kPiece);
  EXPECT_EQ(free_bytes(), before - 3 * kPiece);
  EXPECT_EQ(emulation::counters().allocations, allocations + 2);
  EXPECT_TRUE(is_device_memory(at(2 * kPiece)));
  EXPECT_FALSE(is_device_memory(at(3 * kPiece)));
  // A copy across the end of a piece.
  std::vector<std::byte> bytes(2 * kPiece), found(2 * kPiece);
  EXPECT_EQ(cudaMemcpy(found.data(), at(100), found.size(), cudaMemcpyDefault), cudaSuccess);
  for (const std::byte x : found) ASSERT_EQ(x, std::byte{0xFF});
  EXPECT_EQ(cudaMemcpy(at(100), bytes.data(), bytes.size(), cudaMemcpyDefault), cudaSuccess);
  EXPECT_EQ(cudaMemcpy(found.data(), at(100), found.size(), cudaMemcpyDefault), cudaSuccess);
  EXPECT_EQ(found, bytes);
  // And not beyond the last piece.
  EXPECT_EQ(cudaMemcpy(found.data(), at(kPiece + 4), found.size(), cudaMemcpyDefault),
            cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemcpy(found.data(), at(3 * kPiece), 4, cudaMemcpyDefault), cudaErrorInvalidValue);
  EXPECT_EQ(cudaFree(at(0)), cudaErrorInvalidValue);
  // Removes the middle of the accessible memory; its neighbours remain.
  map(3 * kPiece, kPiece);
  EXPECT_EQ(unmap(kPiece, 2 * kPiece), CUDA_SUCCESS);
  EXPECT_EQ(free_bytes(), before - 2 * kPiece);
  EXPECT_FALSE(is_device_memory(at(kPiece)));
  for (const std::size_t offset : {std::size_t{0}, 3 * kPiece})
    EXPECT_EQ(cudaMemset(at(offset), 0, kPiece), cudaSuccess);
  EXPECT_EQ(unmap(0, kPiece), CUDA_SUCCESS);
  EXPECT_EQ(unmap(3 * kPiece, kPiece), CUDA_SUCCESS);
  EXPECT_EQ(free_bytes(), before);
}

TEST_F(MappedMemoryTest, MemoryIsFreeWhenItIsNeitherHeldNorMapped) {
  const std::size_t before = free_bytes();
  const CUmemGenericAllocationHandle handle = create(kPiece);
  EXPECT_EQ(cuMemMap(begin_, kPiece, 0, handle, 0), CUDA_SUCCESS);
  EXPECT_EQ(unmap(0, kPiece), CUDA_SUCCESS);
  EXPECT_EQ(free_bytes(), before - kPiece);
  EXPECT_EQ(cuMemMap(begin_ + kPiece, kPiece, 0, handle, 0), CUDA_SUCCESS);
  EXPECT_EQ(cuMemRelease(handle), CUDA_SUCCESS);
  EXPECT_EQ(free_bytes(), before - kPiece);
  EXPECT_EQ(unmap(kPiece, kPiece), CUDA_SUCCESS);
  EXPECT_EQ(free_bytes(), before);
  EXPECT_EQ(cuMemRelease(handle), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(MappedMemoryTest, MisuseIsRejected) {
  CUdeviceptr address = 0;
  EXPECT_EQ(cuMemAddressReserve(&address, 0, 0, 0, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemAddressReserve(&address, kPiece + 1, 0, 0, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemAddressReserve(&address, kPiece, 3, 0, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemAddressReserve(&address, kPiece, 0, 0, 1), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemAddressFree(begin_, kReserved / 2), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemAddressFree(begin_ + kPiece, kReserved - kPiece), CUDA_ERROR_INVALID_VALUE);

  CUmemGenericAllocationHandle handle = 0;
  const CUmemAllocationProp here = memory_of(0), nowhere = memory_of(2), none = {};
  EXPECT_EQ(cuMemCreate(&handle, kPiece + 4096, &here, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemCreate(&handle, 0, &here, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemCreate(&handle, kPiece, &none, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemCreate(&handle, kPiece, &nowhere, 0), CUDA_ERROR_INVALID_DEVICE);

  handle = create(2 * kPiece);
  const auto refused = [&](CUdeviceptr to, std::size_t bytes, std::size_t offset) {
    EXPECT_EQ(cuMemMap(to, bytes, offset, handle, 0), CUDA_ERROR_INVALID_VALUE);
  };
  refused(begin_, kPiece, 0);                           // only a part
  refused(begin_, kPiece, kPiece);                      // from an offset
  refused(begin_ + 4096, 2 * kPiece, 0);                // between two granules
  refused(begin_ + kReserved - kPiece, 2 * kPiece, 0);  // beyond the reserved addresses
  EXPECT_EQ(cuMemMap(begin_, 2 * kPiece, 0, handle + 1, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(allow(begin_, kPiece), CUDA_ERROR_INVALID_VALUE);  // nothing is mapped there
  EXPECT_EQ(unmap(0, kPiece), CUDA_ERROR_INVALID_VALUE);

  EXPECT_EQ(cuMemMap(begin_ + kPiece, 2 * kPiece, 0, handle, 0), CUDA_SUCCESS);
  refused(begin_ + 3 * kPiece, 2 * kPiece, 0);  // the memory is mapped
  const CUmemGenericAllocationHandle other = create(2 * kPiece);
  for (const std::size_t offset : {std::size_t{0}, kPiece, 2 * kPiece}) {  // the addresses are
    EXPECT_EQ(cuMemMap(begin_ + offset, 2 * kPiece, 0, other, 0), CUDA_ERROR_INVALID_VALUE);
  }
  EXPECT_EQ(cuMemRelease(other), CUDA_SUCCESS);
  EXPECT_EQ(cuMemMap(begin_ + 3 * kPiece, 2 * kPiece, 0, other, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(allow(begin_ + kPiece, kPiece), CUDA_ERROR_INVALID_VALUE);      // a part
  EXPECT_EQ(allow(begin_ + kPiece, 3 * kPiece), CUDA_ERROR_INVALID_VALUE);  // more than was mapped
  EXPECT_EQ(allow(begin_ + kPiece, 2 * kPiece, 1), CUDA_ERROR_INVALID_DEVICE);
  EXPECT_EQ(unmap(kPiece, kPiece), CUDA_ERROR_INVALID_VALUE);                // a part
  EXPECT_EQ(cuMemAddressFree(begin_, kReserved), CUDA_ERROR_INVALID_VALUE);  // while mapped
  EXPECT_EQ(unmap(kPiece, 2 * kPiece), CUDA_SUCCESS);
  EXPECT_EQ(cuMemRelease(handle), CUDA_SUCCESS);
}

TEST_F(MappedMemoryTest, AllocationsFailWhenAsked) {
  const CUmemAllocationProp of = memory_of(0);
  CUmemGenericAllocationHandle handle = 0;
  emulation::fail_allocation(2);
  EXPECT_EQ(cuMemCreate(&handle, kPiece, &of, 0), CUDA_SUCCESS);
  EXPECT_EQ(cuMemRelease(handle), CUDA_SUCCESS);
  EXPECT_EQ(cuMemCreate(&handle, kPiece, &of, 0), CUDA_ERROR_OUT_OF_MEMORY);
  emulation::fail_allocation(0);
  emulation::limit_memory(kPiece);
  EXPECT_EQ(cuMemCreate(&handle, 2 * kPiece, &of, 0), CUDA_ERROR_OUT_OF_MEMORY);
  emulation::limit_memory(0);
}

using MappedMemoryDeathTest = MappedMemoryTest;

TEST_F(MappedMemoryDeathTest, OnlyDeviceCodeAccessesWhatIsMapped) {
  map(0, kPiece);
  EXPECT_DEATH(*at(0) = 1, "");
  run(fill_mapped, 1, 1, 0, at(kPiece - 4), 3);
  int found = 0;
  EXPECT_EQ(cudaMemcpy(&found, at(kPiece - 4), sizeof(found), cudaMemcpyDefault), cudaSuccess);
  EXPECT_EQ(found, 3);
  EXPECT_EQ(unmap(0, kPiece), CUDA_SUCCESS);
}

TEST_F(MappedMemoryDeathTest, KernelsFaultWhereNothingIsAccessible) {
  map(0, kPiece);
  const CUmemGenericAllocationHandle handle = create(kPiece);
  EXPECT_EQ(cuMemMap(begin_ + kPiece, kPiece, 0, handle, 0), CUDA_SUCCESS);
  EXPECT_DEATH(run(fill_mapped, 1, 1, 0, at(kPiece), 1), "");  // mapped, but without access
  EXPECT_DEATH(run(fill_mapped, 1, 1, 0, at(2 * kPiece), 1), "");
  EXPECT_EQ(unmap(kPiece, kPiece), CUDA_SUCCESS);
  EXPECT_EQ(cuMemRelease(handle), CUDA_SUCCESS);
  EXPECT_DEATH(
      {
        emulation::set_order(emulation::Order::kForward);
        Context context(0);
        context.launch(fill_mapped, 1, 1, 0, at(0), 1);
        cuMemUnmap(begin_, kPiece);  // while a stream has yet to use it
        context.synchronize();
      },
      "");
  EXPECT_EQ(unmap(0, kPiece), CUDA_SUCCESS);
}

}  // namespace
}  // namespace turnbench::cuda
