#include "harness/store/packed_ledger.h"

#include <cstdint>

#include "common/error.h"

namespace turnbench {
namespace {

constexpr std::uint64_t kMostEntries = 1 << 22;  // maximum for a ledger, far above real ones
constexpr unsigned kBits = 7;                    // bits of a number in each byte, lowest first
constexpr unsigned kMore = 1U << kBits;          // flag: another byte follows

void append_number(std::string& out, std::uint64_t x) {
  for (; x >= kMore; x >>= kBits) out += static_cast<char>((x & (kMore - 1)) | kMore);
  out += static_cast<char>(x);
}

/// Maps small numbers of either sign to small numbers: 0, -1, 1, -2, ... to 0, 1, 2, 3, ...
/// Arithmetic is modulo 2^64, so that any bytes are valid numbers.
std::uint64_t folded(std::uint64_t x) {
  return x << 1 ^ (~(x >> 63) + 1);
}
std::uint64_t unfolded(std::uint64_t x) {
  return x >> 1 ^ (~(x & 1) + 1);
}

class Reader {
 public:
  Reader(std::string_view bytes, std::string_view where) : bytes_(bytes), where_(where) {}

  std::uint64_t number() {
    std::uint64_t out = 0;
    for (unsigned shift = 0;; shift += kBits) {
      if (at_ == bytes_.size() || shift > 63) refuse();
      const auto byte = static_cast<unsigned char>(bytes_[at_++]);
      out |= std::uint64_t{byte & (kMore - 1)} << shift;
      if (byte < kMore) return out;
    }
  }
  bool ended() const { return at_ == bytes_.size(); }
  [[noreturn]] void refuse() const {
    throw input_error("{}: found {} bytes that are invalid at byte {}, expected a ledger", where_,
                      bytes_.size(), at_);
  }

 private:
  std::string_view bytes_, where_;
  std::size_t at_ = 0;
};

}  // namespace

// Steps, layers; then for each field, layer by layer, the differences from step to step.  A zero is
// followed by the number of further zeros.
std::string pack(const Ledger& ledger) {
  std::string out;
  append_number(out, ledger.steps());
  append_number(out, ledger.layers());
  std::uint64_t zeros = 0;
  const auto end_run = [&] {
    if (zeros == 0) return;
    append_number(out, 0);
    append_number(out, zeros - 1);
    zeros = 0;
  };
  for (const LedgerField& field : kLedgerFields) {
    for (std::size_t l = 0; l < ledger.layers(); ++l) {
      std::uint64_t before = 0;
      for (std::size_t s = 0; s < ledger.steps(); ++s) {
        const auto value =
            static_cast<std::uint64_t>(ledger.at(s, static_cast<int>(l)).*field.value);
        const std::uint64_t change = folded(value - before);
        before = value;
        if (change == 0) {
          ++zeros;
          continue;
        }
        end_run();
        append_number(out, change);
      }
    }
  }
  end_run();
  return out;
}

Ledger unpack_ledger(std::string_view bytes, std::string_view where) {
  Reader in(bytes, where);
  const std::uint64_t steps = in.number(), layers = in.number();
  if (steps > kMostEntries || layers > kMostEntries || steps * layers > kMostEntries) in.refuse();
  Ledger out;
  for (std::uint64_t s = 0; s < steps; ++s) out.begin_step(static_cast<int>(layers));
  std::uint64_t zeros = 0;
  for (const LedgerField& field : kLedgerFields) {
    for (std::size_t l = 0; l < layers; ++l) {
      std::uint64_t value = 0;
      for (std::size_t s = 0; s < steps; ++s) {
        if (zeros > 0) {
          --zeros;
        } else if (const std::uint64_t change = in.number(); change != 0) {
          value += unfolded(change);
        } else {
          zeros = in.number();
        }
        out.at(s, static_cast<int>(l)).*field.value = static_cast<std::int64_t>(value);
      }
    }
  }
  if (zeros > 0 || !in.ended()) in.refuse();
  return out;
}

BoundedLedger bound(std::string packed, std::size_t most) {
  if (packed.size() <= most) return {std::move(packed), ""};
  const Ledger all = unpack_ledger(packed, "ledger");
  BoundedLedger out{"", "layers"};
  for (std::size_t steps = all.steps();; steps /= 2) {
    Ledger totals;
    for (std::size_t s = 0; s < steps; ++s) {
      totals.begin_step(1);
      totals.at(s, 0) = all.total_of_step(s);
    }
    out.data = pack(totals);
    if (out.data.size() <= most || steps == 0) break;
    out.dropped = "layers, steps";
  }
  return out;
}

}  // namespace turnbench
