#include "tests/cpu/emulated_amx.h"

#include <ucontext.h>
#include <unistd.h>
#include <xmmintrin.h>

#include <atomic>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "inference/model/dtype.h"

namespace turnbench::test {
namespace {

constexpr int kTiles = 8, kRows = 16, kBytes = 64;

struct Tile {
  int rows = 0, bytes = 0;
  std::uint8_t data[kRows][kBytes] = {};
};
thread_local Tile tiles[kTiles];
std::atomic<long> products{0};

/// An instruction with a three-byte VEX prefix.
class Instruction {
 public:
  explicit Instruction(const mcontext_t& state) : state_(state), at_(code(state)) {
    if (at_[0] != 0xC4) return;
    map_ = at_[1] & 0x1F;
    prefix_ = at_[2] & 3;
    other_ = ~(at_[2] >> 3) & 0xF;
    opcode_ = at_[3];
    mod_ = at_[4] >> 6;
    reg_ = (at_[4] >> 3 & 7) | (at_[1] & 0x80 ? 0 : 8);
    rm_ = (at_[4] & 7) | (at_[1] & 0x20 ? 0 : 8);
    length_ = 5;
    if (mod_ != 3) read_address();
  }

  enum Prefix { kNone, k66, kF3, kF2 };
  bool is(int opcode, Prefix prefix, bool memory) const {
    constexpr int kMap0F38 = 2;
    return map_ == kMap0F38 && opcode_ == opcode && prefix_ == prefix && (mod_ != 3) == memory;
  }
  Tile& first() const { return tiles[reg_ % kTiles]; }    ///< of ModRM.reg
  Tile& second() const { return tiles[rm_ % kTiles]; }    ///< of ModRM.rm
  Tile& third() const { return tiles[other_ % kTiles]; }  ///< of VEX.vvvv
  std::uint8_t* address() const { return reinterpret_cast<std::uint8_t*>(base_); }
  /// Of row `r` of a tile in memory.
  std::uint8_t* row(int r) const { return address() + r * stride_; }
  int length() const { return length_; }
  int reg() const { return reg_; }

 private:
  static const std::uint8_t* code(const mcontext_t& state) {
    return reinterpret_cast<const std::uint8_t*>(state.gregs[REG_RIP]);
  }
  std::int64_t value(int number) const {
    constexpr int kOrder[] = {REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP,
                              REG_RSI, REG_RDI, REG_R8,  REG_R9,  REG_R10, REG_R11,
                              REG_R12, REG_R13, REG_R14, REG_R15};
    return state_.gregs[kOrder[number]];
  }
  void read_address() {
    const int low = rm_ & 7;
    bool no_base = false;
    if (low == 4) {  // a SIB byte
      const int sib = at_[length_++];
      const int index = (sib >> 3 & 7) | (at_[1] & 0x40 ? 0 : 8);
      const int base = (sib & 7) | (at_[1] & 0x20 ? 0 : 8);
      no_base = (sib & 7) == 5 && mod_ == 0;
      if (index != 4) stride_ = value(index) << (sib >> 6);
      if (!no_base) base_ = value(base);
    } else if (low == 5 && mod_ == 0) {  // relative to the next instruction
      no_base = true;
      base_ = reinterpret_cast<std::int64_t>(at_) + length_ + 4;
    } else {
      base_ = value(rm_);
    }
    if (mod_ == 1) {
      base_ += static_cast<std::int8_t>(at_[length_++]);
    } else if (mod_ == 2 || no_base) {
      std::int32_t far = 0;
      std::memcpy(&far, at_ + length_, sizeof(far));
      base_ += far;
      length_ += 4;
    }
  }

  const mcontext_t& state_;
  const std::uint8_t* at_;
  int map_ = 0, prefix_ = 0, other_ = 0, opcode_ = 0, mod_ = 0, reg_ = 0, rm_ = 0, length_ = 0;
  std::int64_t base_ = 0, stride_ = 0;
};

void load_config(const std::uint8_t* from) {
  for (int t = 0; t < kTiles; ++t) {
    std::uint16_t bytes = 0;
    std::memcpy(&bytes, from + 16 + 2 * t, sizeof(bytes));
    if (bytes > kBytes || from[48 + t] > kRows) std::abort();  // a general protection fault
    tiles[t] = {from[48 + t], bytes, {}};
  }
}

float bf16(const std::uint8_t* from) {
  std::uint16_t bits = 0;
  std::memcpy(&bits, from, sizeof(bits));
  return bf16_to_float(bits);
}

/// TDPBF16PS.
void multiply(Tile& c, const Tile& a, const Tile& b) {
  const unsigned before = _mm_getcsr();
  _mm_setcsr(0x1F80 | 0x8040);  // to nearest, denormals as zeros
  for (int m = 0; m < c.rows; ++m) {
    for (int n = 0; n < c.bytes / 4; ++n) {
      volatile float even = 0, odd = 0;
      for (int k = 0; k < a.bytes / 4; ++k) {
        even = std::fma(bf16(a.data[m] + 4 * k), bf16(b.data[k] + 4 * n), even);
        odd = std::fma(bf16(a.data[m] + 4 * k + 2), bf16(b.data[k] + 4 * n + 2), odd);
      }
      float sum = 0;
      std::memcpy(&sum, c.data[m] + 4 * n, sizeof(sum));
      const volatile float both = even + odd;
      const float out = sum + both;
      std::memcpy(c.data[m] + 4 * n, &out, sizeof(out));
    }
  }
  _mm_setcsr(before);
}

/// Returns whether it is one of the instructions.
bool execute(const Instruction& i) {
  using enum Instruction::Prefix;
  if (i.is(0x49, kNone, true)) {  // LDTILECFG
    load_config(i.address());
  } else if (i.is(0x49, kNone, false)) {  // TILERELEASE
    for (Tile& tile : tiles) tile = {};
  } else if (i.is(0x49, kF2, false)) {  // TILEZERO
    std::memset(i.first().data, 0, sizeof(i.first().data));
  } else if (i.is(0x4B, kF2, true)) {  // TILELOADD
    for (int r = 0; r < i.first().rows; ++r)
      std::memcpy(i.first().data[r], i.row(r), i.first().bytes);
  } else if (i.is(0x4B, kF3, true)) {  // TILESTORED
    for (int r = 0; r < i.first().rows; ++r)
      std::memcpy(i.row(r), i.first().data[r], i.first().bytes);
  } else if (i.is(0x5C, kF3, false)) {  // TDPBF16PS
    multiply(i.first(), i.second(), i.third());
    ++products;
  } else {
    return false;
  }
  return true;
}

void handle(int number, siginfo_t*, void* context) {
  mcontext_t& state = static_cast<ucontext_t*>(context)->uc_mcontext;
  const Instruction instruction(state);
  if (execute(instruction)) {
    state.gregs[REG_RIP] += instruction.length();
    return;
  }
  std::signal(number, SIG_DFL);  // the instruction is executed again and ends the process
}

}  // namespace

EmulatedAmx::EmulatedAmx() {
  struct sigaction action {};
  action.sa_sigaction = handle;
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGILL, &action, &before_);
}

EmulatedAmx::~EmulatedAmx() {
  sigaction(SIGILL, &before_, nullptr);
}

long emulated_tile_products() {
  return products;
}

}  // namespace turnbench::test
