#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/file.h"
#include "common/json.h"
#include "common/random.h"
#include "common/text.h"

namespace turnbench {

inline const std::filesystem::path kTokenizerData = TURNBENCH_SOURCE_DIR "/tests/data/tokenizers";
inline const std::filesystem::path kRealTokenizers =
    TURNBENCH_SOURCE_DIR "/../shared/data/tokenizers";

inline Json load_json(const std::filesystem::path& path) {
  return parse_json(read_file(path), path.string());
}

/// Generates the texts of tests/golden/make_tokenizer_golden.py.
class FuzzTexts {
 public:
  FuzzTexts() : spec_(load_json(kTokenizerData / "fuzz.json")) {
    for (const Json& json : spec_["pools"]) {
      Pool pool;
      pool.max = json["max"];
      pool.same = json.value("same", false);
      for (const Json& range : json.value("ranges", Json::array())) {
        for (char32_t c = range[0]; c <= char32_t{range[1]}; ++c) {
          pool.members.push_back(to_utf8(std::u32string(1, c)));
        }
      }
      for (const std::string member : json.value("items", Json::array())) {
        pool.members.push_back(member);
      }
      pools_.push_back(std::move(pool));
    }
  }

  std::string text(std::uint64_t seed, std::uint64_t index) const {
    Random random = Random::from({seed, index});
    std::string out;
    const std::uint64_t pieces = 1 + random.below(10);
    for (std::uint64_t i = 0; i < pieces; ++i) {
      const Pool& pool = pools_[random.below(pools_.size())];
      const std::uint64_t count = 1 + random.below(pool.max);
      std::size_t member = 0;
      for (std::uint64_t k = 0; k < count; ++k) {
        if (k == 0 || !pool.same) member = random.below(pool.members.size());
        out += pool.members[member];
      }
    }
    return out;
  }

  std::uint64_t number(const char* key) const { return spec_[key]; }
  std::string text(std::uint64_t index) const { return text(number("seed"), index); }

 private:
  struct Pool {
    std::uint64_t max = 0;
    bool same = false;
    std::vector<std::string> members;
  };
  Json spec_;
  std::vector<Pool> pools_;
};

inline const FuzzTexts& fuzz_texts() {
  static const FuzzTexts texts;
  return texts;
}

/// FNV-1a, as in the Python script.
class FuzzHash {
 public:
  void add(std::string_view bytes) {
    for (unsigned char b : bytes) state_ = (state_ ^ b) * 0x100000001B3ull;
  }
  template <typename Numbers>
  void add_numbers(const Numbers& numbers) {
    add_number(numbers.size());
    for (auto n : numbers) add_number(static_cast<std::uint64_t>(n));
  }
  std::string hex() const { return fmt::format("{:016x}", state_); }

 private:
  void add_number(std::uint64_t n) {
    for (int shift = 0; shift < 32; shift += 8) {
      state_ = (state_ ^ (n >> shift & 0xFF)) * 0x100000001B3ull;
    }
  }
  std::uint64_t state_ = 0xCBF29CE484222325ull;
};

}  // namespace turnbench
