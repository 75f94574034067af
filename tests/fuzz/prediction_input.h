#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "common/file.h"
#include "common/text.h"
#include "metrics/segmenter.h"
#include "tests/fuzz/fuzz.h"

namespace turnbench::fuzz {

/// An input of a fuzzer of predictions: the words of its first line, and the rest as a file.
struct PredictionInput {
  std::vector<std::string> words;
  std::filesystem::path path;
  const Segmenter& segmenter;

  static PredictionInput from(const std::uint8_t* data, std::size_t size) {
    static const InputFile input("predictions.jsonl");
    static const Segmenter segmenter =
        Segmenter::from_jieba(TURNBENCH_SOURCE_DIR "/tests/data/metrics/jieba");
    std::string_view text = text_of(data, size);
    std::vector<std::string> words = split(take_line(text), " ");
    write_file(input.path(), text);
    return {std::move(words), input.path(), segmenter};
  }
};

}  // namespace turnbench::fuzz
