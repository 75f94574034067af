#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>

#include "common/json.h"

namespace turnbench {

/// One end of a connection between two processes, which sends JSON values.  Numbers and bytes
/// arrive unchanged.
class Channel {
 public:
  explicit Channel(int descriptor = -1) : descriptor_(descriptor) {}
  ~Channel() { close(); }
  Channel(Channel&& other) noexcept;
  Channel& operator=(Channel&& other) noexcept;

  /// Two connected ends.
  /// @throws Error (runtime) if the system has no more descriptors.
  static std::pair<Channel, Channel> connected();

  int descriptor() const { return descriptor_; }
  void close();

  /// Sends a value.  Returns false if the other end is closed.
  bool send(const Json& value);
  /// Waits for a value; nullopt if the other end is closed.
  std::optional<Json> receive();
  /// Reads what has arrived, without waiting.  Returns false if the other end is closed.
  bool read_available();
  /// The next value that has arrived completely.
  std::optional<Json> take();

 private:
  int descriptor_ = -1;
  std::string received_;
};

}  // namespace turnbench
