#include "inference/model/safetensors.h"

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <set>

#include "common/error.h"
#include "common/json.h"
#include "common/text.h"

namespace turnbench {
namespace {

constexpr std::uint64_t kMaxHeader = 100'000'000;  // limit of the format

DType parse_dtype(const JsonView& value) {
  const std::string name = value.as_string();
  if (name == "F32") return DType::kF32;
  if (name == "F16") return DType::kF16;
  if (name == "BF16") return DType::kBF16;
  value.fail("F32, F16 or BF16");
}

std::string shape_text(const std::vector<std::int64_t>& shape) {
  std::vector<std::string> parts;
  for (std::int64_t s : shape) parts.push_back(std::to_string(s));
  return "[" + join(parts, ", ") + "]";
}

/// Parses the header entry of a tensor, whose bytes are in `data`.
TensorView parse_tensor(const JsonView& entry, std::span<const std::byte> data) {
  constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 50;
  TensorView tensor;
  tensor.dtype = parse_dtype(entry.at("dtype"));
  std::uint64_t size = size_of(tensor.dtype);
  for (const JsonView& dim : entry.at("shape").items()) {
    tensor.shape.push_back(dim.as_integer(0, std::int64_t{1} << 40));
    const auto extent = static_cast<std::uint64_t>(tensor.shape.back());
    if (extent != 0 && size > kMostBytes / extent)
      entry.at("shape").fail("a tensor that fits in memory");
    size *= extent;
  }
  const JsonView offsets = entry.at("data_offsets");
  if (offsets.size() != 2) offsets.fail("[begin, end]");
  const auto begin = static_cast<std::uint64_t>(offsets[0].as_integer(0));
  const auto end = static_cast<std::uint64_t>(offsets[1].as_integer(0));
  if (end < begin || end > data.size())
    offsets.fail(fmt::format("a range within the {} bytes of data", data.size()));
  if (end - begin != size) {
    offsets.fail(
        fmt::format("{} bytes, as dtype and shape {} say", size, shape_text(tensor.shape)));
  }
  tensor.bytes = data.subspan(begin, end - begin);
  return tensor;
}

using NamedBytes = std::pair<std::string, std::span<const std::byte>>;

void check_overlaps(std::vector<NamedBytes> tensors, const std::string& source) {
  const auto end = [](const NamedBytes& t) { return t.second.data() + t.second.size(); };
  std::sort(tensors.begin(), tensors.end(), [&](const NamedBytes& a, const NamedBytes& b) {
    return std::pair(a.second.data(), end(a)) < std::pair(b.second.data(), end(b));
  });
  for (std::size_t i = 1; i < tensors.size(); ++i) {
    if (tensors[i].second.data() < end(tensors[i - 1])) {
      throw input_error("{}: /{}: found data that overlaps the tensor {}, expected none", source,
                        printable(tensors[i].first), printable(tensors[i - 1].first));
    }
  }
}

}  // namespace

void Safetensors::add_file(std::span<const std::byte> bytes, const std::string& source) {
  std::uint64_t header_size = 0;
  if (bytes.size() < sizeof(header_size)) {
    throw input_error("{}: found {} bytes, expected at least 8", source, bytes.size());
  }
  std::memcpy(&header_size, bytes.data(), sizeof(header_size));
  if (header_size > kMaxHeader || header_size > bytes.size() - 8) {
    throw input_error("{}: byte 0: found a header of {} bytes, expected at most {}", source,
                      header_size, std::min<std::uint64_t>(kMaxHeader, bytes.size() - 8));
  }
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()) + 8, header_size);
  const Json header = parse_json(text, source + ": header");
  const JsonView view(header, source);
  if (!view.is_object()) view.fail("an object of tensors");
  const std::span<const std::byte> data = bytes.subspan(8 + header_size);
  std::vector<NamedBytes> added;
  for (const std::string& name : view.keys()) {
    if (name == "__metadata__" || (wanted_ && !wanted_(name))) continue;
    const TensorView tensor = parse_tensor(view.at(name), data);
    added.emplace_back(name, tensor.bytes);
    if (!tensors_.emplace(name, tensor).second) {
      throw input_error("{}: /{}: found a tensor that another shard holds too, expected it once",
                        source, printable(name));
    }
  }
  check_overlaps(std::move(added), source);
}

Safetensors Safetensors::from_memory(std::span<const std::byte> bytes, const std::string& source) {
  Safetensors out;
  out.source_ = source;
  out.add_file(bytes, source);
  return out;
}

void Safetensors::release_pages(std::span<const std::byte> bytes) const {
  for (const auto& file : files_) {
    const std::span<const std::byte> all = file->bytes();
    if (bytes.data() >= all.data() && bytes.data() < all.data() + all.size())
      file->release_pages(bytes);
  }
}

Safetensors Safetensors::open(const std::filesystem::path& directory,
                              std::function<bool(const std::string& name)> wanted) {
  Safetensors out;
  out.wanted_ = std::move(wanted);
  const auto add = [&](const std::filesystem::path& path) {
    out.files_.push_back(std::make_shared<MappedFile>(path));
    out.add_file(out.files_.back()->bytes(), path.string());
  };
  const std::filesystem::path single = directory / "model.safetensors";
  const std::filesystem::path index = directory / "model.safetensors.index.json";
  if (path_exists(single)) {
    out.source_ = single.string();
    add(single);
    return out;
  }
  if (!path_exists(index)) {
    throw input_error(
        "{}: found neither model.safetensors nor model.safetensors.index.json, expected one",
        directory.string());
  }
  out.source_ = index.string();
  const Json json = parse_json(read_file(index), index.string());
  const JsonView map = JsonView(json, index.string()).at("weight_map");
  std::set<std::string> shards;
  for (const std::string& name : map.keys()) {
    const std::string shard = map.at(name).as_string();
    // A path ends at a NUL; text after it would be ignored.
    if (shard.empty() || shard.find_first_of(std::string_view("/\0", 2)) != std::string::npos ||
        shard == "..") {
      map.at(name).fail("the name of a file in the same directory");
    }
    shards.insert(shard);
  }
  for (const std::string& shard : shards) add(directory / shard);
  for (const std::string& name : map.keys()) {
    if (!out.has(name) && (!out.wanted_ || out.wanted_(name)))
      map.at(name).fail("a shard that holds the tensor " + printable(name));
  }
  return out;
}

const TensorView& Safetensors::at(const std::string& name,
                                  const std::vector<std::int64_t>& shape) const {
  const auto found = tensors_.find(name);
  if (found == tensors_.end())
    throw input_error("{}: found no tensor {}, expected one", source_, name);
  if (found->second.shape != shape) {
    throw input_error("{}: /{}: found the shape {}, expected {} as in config.json", source_, name,
                      shape_text(found->second.shape), shape_text(shape));
  }
  return found->second;
}

}  // namespace turnbench
