#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "common/file.h"
#include "inference/model/dtype.h"

namespace turnbench {

/// One tensor of a checkpoint, in the memory of the file.  Its address may be unaligned.
struct TensorView {
  DType dtype = DType::kF32;
  std::vector<std::int64_t> shape;
  std::span<const std::byte> bytes;
};

/// The tensors of one safetensors file, or of a sharded set.  Files are mapped, not copied. Headers
/// are checked against the size of their files.
class Safetensors {
 public:
  /// Opens model.safetensors in `directory`, or model.safetensors.index.json and its shards.
  /// wanted: names of the tensors to be read; others may have any type.  Empty: all tensors.
  /// @throws Error (input) if the files are missing or invalid.
  static Safetensors open(const std::filesystem::path& directory,
                          std::function<bool(const std::string& name)> wanted = {});
  /// Reads a safetensors file in memory, which must outlive the object.  `source` names it in
  /// messages.
  static Safetensors from_memory(std::span<const std::byte> bytes, const std::string& source);

  bool has(const std::string& name) const { return tensors_.contains(name); }
  /// The tensor of a name.
  /// @throws Error (input) if it is missing or has another shape.
  const TensorView& at(const std::string& name, const std::vector<std::int64_t>& shape) const;
  const std::map<std::string, TensorView>& all() const { return tensors_; }
  /// Releases the pages of a part of a tensor's bytes from resident memory if they are mapped from
  /// a file.  A later access reads them from the file again.
  void release_pages(std::span<const std::byte> bytes) const;

 private:
  void add_file(std::span<const std::byte> bytes, const std::string& source);

  std::string source_;
  std::function<bool(const std::string&)> wanted_;
  std::vector<std::shared_ptr<MappedFile>> files_;
  std::map<std::string, TensorView> tensors_;
};

}  // namespace turnbench
