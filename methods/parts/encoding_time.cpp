#include "methods/parts/encoding_time.h"

#include <utility>

namespace turnbench {
namespace {

/// Encodes single rows at the end of prompts and of decode steps.
class RowsAfterPrompt : public GroupCodec {
 public:
  explicit RowsAfterPrompt(std::shared_ptr<const RowCodec> rows) : rows_(std::move(rows)) {}
  std::unique_ptr<CacheCodec> clone() const override {
    return std::make_unique<RowsAfterPrompt>(*this);
  }
  std::size_t row_bytes(KvRow kind, int head_dim) const override {
    return rows_->row_bytes(kind, head_dim);
  }
  int group(KvRow) const override { return 1; }
  int encoded_rows(KvRow, int tokens) const override { return tokens; }
  void encode(KvRow kind, MatrixView<const float> rows, std::span<std::byte> out) const override {
    rows_->encode(kind, {rows.row(0), static_cast<std::size_t>(rows.columns)}, out);
  }
  void decode(KvRow kind, std::span<const std::byte> bytes, MatrixView<float> out) const override {
    rows_->decode(kind, bytes, {out.row(0), static_cast<std::size_t>(out.columns)});
  }

 private:
  std::shared_ptr<const RowCodec> rows_;
};

}  // namespace

ParameterInfo encoding_time_parameter() {
  return {"prefill", ParameterInfo::Kind::kChoice, "encoded", "encoded|exact",
          "what the rows of a prompt read of the same prompt: encoded keys and values, or exact "
          "ones, which are encoded at its end (placement=device only)"};
}

std::unique_ptr<CacheCodec> encoded_in_time(std::unique_ptr<RowCodec> rows,
                                            const Parameters& parameters) {
  if (parameters.choice("prefill") == "encoded") return rows;
  return std::make_unique<RowsAfterPrompt>(std::move(rows));
}

}  // namespace turnbench
