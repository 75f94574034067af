#include "methods/prefill/minference_config.h"

#include <charconv>
#include <nlohmann/json.hpp>

#include "common/error.h"
#include "common/file.h"
#include "common/json.h"

namespace turnbench {
namespace {

constexpr int kMaxSize = 1 << 24, kMaxHeads = 4096;

MInferenceConfig::Kind kind_of(const JsonView& json) {
  using Kind = MInferenceConfig::Kind;
  for (Kind kind : {Kind::kVerticalSlash, Kind::kStream, Kind::kBlockSparse}) {
    if (json.as_string() == name_of(kind)) return kind;
  }
  json.fail("vertical_and_slash, stream_llm or block_sparse");
}

int head_index(const std::string& key, const JsonView& layer) {
  int index = -1;
  const char* end = key.data() + key.size();
  const auto result = std::from_chars(key.data(), end, index);
  if (key.empty() || result.ec != std::errc() || result.ptr != end || index < 0 ||
      index >= kMaxHeads) {
    layer.at(key).fail("a query head's number as key");
  }
  return index;
}

}  // namespace

std::string_view name_of(MInferenceConfig::Kind kind) {
  constexpr std::string_view kNames[] = {"vertical_and_slash", "stream_llm", "block_sparse"};
  return kNames[static_cast<std::size_t>(kind)];
}

MInferenceConfig::MInferenceConfig(int vertical, int slash, double ratio)
    : other_(scaled({Kind::kVerticalSlash, vertical, slash}, ratio, "minference")) {}

MInferenceConfig MInferenceConfig::load(const std::filesystem::path& path, double ratio) {
  const Json json = parse_json(read_file(path), path.string());
  const JsonView file(json, path.string());
  MInferenceConfig out;
  out.source_ = path.string();
  out.other_ = scaled({}, ratio, out.source_);
  if (!file.is_array() || file.size() == 0) file.fail("an array with one object per layer");
  for (const JsonView& layer : file.items()) {
    if (!layer.is_object()) layer.fail("an object of heads");
    std::vector<Head> heads;
    for (const std::string& key : layer.keys()) {
      const auto index = static_cast<std::size_t>(head_index(key, layer));
      const JsonView entry = layer.at(key);
      if (!entry.is_array() || entry.size() < 3 || entry.size() > 4)
        entry.fail("[type, vertical_size, slash_size, score]");
      const Head head{kind_of(entry[0]), static_cast<int>(entry[1].as_integer(0, kMaxSize)),
                      static_cast<int>(entry[2].as_integer(0, kMaxSize))};
      if (heads.size() <= index) heads.resize(index + 1, out.other_);
      heads[index] = scaled(head, ratio, entry.source() + ": " + entry.path());
    }
    out.layers_.push_back(std::move(heads));
  }
  return out;
}

MInferenceConfig::Head MInferenceConfig::scaled(Head head, double ratio, const std::string& where) {
  const auto times = [ratio](int size) {
    return static_cast<int>(std::min<double>(size * ratio, kMaxSize));
  };
  head.vertical = times(head.vertical);
  head.slash = times(head.slash);
  if (head.kind == Kind::kVerticalSlash && head.slash < 100) {
    throw input_error("{}: found a slash size of {} (times the ratio), expected at least 100",
                      where, head.slash);
  }
  if (head.kind == Kind::kStream && head.slash < 1) {
    throw input_error("{}: found a window of {} tokens (times the ratio), expected at least 1",
                      where, head.slash);
  }
  return head;
}

const MInferenceConfig::Head& MInferenceConfig::head(int layer, int head) const {
  if (layers_.empty()) return other_;
  const auto& heads = layers_[layer];
  return static_cast<std::size_t>(head) < heads.size() ? heads[head] : other_;
}

void MInferenceConfig::check_shape(const ModelShape& shape) const {
  if (layers_.empty()) return;
  if (layers_.size() != static_cast<std::size_t>(shape.layers)) {
    throw input_error("{}: found {} layers, expected the model's {}", source_, layers_.size(),
                      shape.layers);
  }
  for (std::size_t l = 0; l < layers_.size(); ++l) {
    if (layers_[l].size() <= static_cast<std::size_t>(shape.heads)) continue;
    throw input_error("{}: [{}]: found head {}, expected the model's {} heads (0 to {})", source_,
                      l, layers_[l].size() - 1, shape.heads, shape.heads - 1);
  }
}

}  // namespace turnbench
