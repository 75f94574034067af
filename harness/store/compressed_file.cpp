#include "harness/store/compressed_file.h"

#include <zstd.h>

#include <memory>

#include "common/error.h"
#include "common/file.h"

namespace turnbench {
namespace {

constexpr int kHighLevel = 19;

}  // namespace

bool is_compressed(const std::filesystem::path& path) {
  return path.extension() == ".zst";
}

std::string compressed(std::string_view content) {
  const std::unique_ptr<ZSTD_CCtx, decltype(&ZSTD_freeCCtx)> context(ZSTD_createCCtx(),
                                                                     ZSTD_freeCCtx);
  ZSTD_CCtx_setParameter(context.get(), ZSTD_c_compressionLevel, kHighLevel);
  ZSTD_CCtx_setParameter(context.get(), ZSTD_c_checksumFlag, 1);
  std::string out(ZSTD_compressBound(content.size()), '\0');
  const std::size_t size =
      ZSTD_compress2(context.get(), out.data(), out.size(), content.data(), content.size());
  if (ZSTD_isError(size) != 0)
    throw runtime_error("a store cannot be compressed ({})", ZSTD_getErrorName(size));
  out.resize(size);
  return out;
}

std::string decompress_file(const std::filesystem::path& path) {
  const auto damaged = [&](const char* why) {
    return input_error("{}: found a damaged compressed file ({}), expected a whole one",
                       path.string(), why);
  };
  const std::string content = read_file(path);
  const std::unique_ptr<ZSTD_DStream, decltype(&ZSTD_freeDStream)> stream(ZSTD_createDStream(),
                                                                          ZSTD_freeDStream);
  std::string out, block(ZSTD_DStreamOutSize(), '\0');
  ZSTD_inBuffer input{content.data(), content.size(), 0};
  for (std::size_t missing = 1; input.pos < input.size || missing > 0;) {
    ZSTD_outBuffer output{block.data(), block.size(), 0};
    const std::size_t before = input.pos;
    missing = ZSTD_decompressStream(stream.get(), &output, &input);
    if (ZSTD_isError(missing) != 0) throw damaged(ZSTD_getErrorName(missing));
    out.append(block, 0, output.pos);
    if (out.size() > kLargestContent) {
      throw input_error(
          "{}: found more than {} bytes in a compressed file, expected at most so many",
          path.string(), kLargestContent);
    }
    if (missing > 0 && input.pos == before && output.pos == 0) throw damaged("its end is missing");
  }
  return out;
}

}  // namespace turnbench
