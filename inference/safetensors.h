#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "common/file.h"
#include "inference/dtype.h"

namespace turnbench {

/// One tensor of a checkpoint, where it lies in the file (not necessarily aligned).
struct TensorView {
  DType dtype = DType::kF32;
  std::vector<std::int64_t> shape;
  std::span<const std::byte> bytes;
};

/// The tensors of one safetensors file or of a sharded set, mapped, never copied.  Everything that
/// the header claims is checked against the file.
class Safetensors {
 public:
  /// `directory` holds model.safetensors, or model.safetensors.index.json and its shards.
  static Safetensors open(const std::filesystem::path& directory);
  /// From memory that outlives the object; `source` names it in messages.
  static Safetensors from_memory(std::span<const std::byte> bytes, const std::string& source);

  bool has(const std::string& name) const { return tensors_.contains(name); }
  /// Refuses a missing tensor and any shape but `shape`.
  const TensorView& at(const std::string& name, const std::vector<std::int64_t>& shape) const;
  const std::map<std::string, TensorView>& all() const { return tensors_; }
  /// Says that a part of a tensor's bytes will not be read again soon: if they are mapped from a
  /// file, they stop counting as this process's memory.
  void forget(std::span<const std::byte> bytes) const;

 private:
  void add_file(std::span<const std::byte> bytes, const std::string& source);

  std::string source_;
  std::vector<std::shared_ptr<MappedFile>> files_;
  std::map<std::string, TensorView> tensors_;
};

}  // namespace turnbench
