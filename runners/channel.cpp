#include "runners/channel.h"

#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <utility>

#include "common/error.h"

namespace turnbench {
namespace {

using Size = std::uint64_t;  // bytes of a value, in front of it

}  // namespace

Channel::Channel(Channel&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)), received_(std::move(other.received_)) {}

Channel& Channel::operator=(Channel&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  std::swap(received_, other.received_);
  return *this;
}

std::pair<Channel, Channel> Channel::connected() {
  std::array<int, 2> ends{};
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0)
    throw runtime_error("no connection to a worker process: {}", std::strerror(errno));
  return {Channel(ends[0]), Channel(ends[1])};
}

void Channel::close() {
  if (descriptor_ >= 0) ::close(descriptor_);
  descriptor_ = -1;
}

bool Channel::send(const Json& value) {
  const std::vector<std::uint8_t> bytes = Json::to_msgpack(value);
  const Size size = bytes.size();
  std::string frame(sizeof(size), '\0');
  std::memcpy(frame.data(), &size, sizeof(size));
  frame.append(bytes.begin(), bytes.end());
  std::string_view left = frame;
  while (!left.empty()) {
    const ssize_t sent = ::send(descriptor_, left.data(), left.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return false;
    left.remove_prefix(static_cast<std::size_t>(sent));
  }
  return true;
}

std::optional<Json> Channel::take() {
  Size size = 0;
  if (received_.size() < sizeof(size)) return std::nullopt;
  std::memcpy(&size, received_.data(), sizeof(size));
  if (received_.size() - sizeof(size) < size) return std::nullopt;
  const auto* begin = reinterpret_cast<const std::uint8_t*>(received_.data() + sizeof(size));
  Json out = Json::from_msgpack(begin, begin + size);
  received_.erase(0, sizeof(size) + size);
  return out;
}

bool Channel::read_available() {
  std::array<char, 65536> block;
  for (;;) {
    const ssize_t got = recv(descriptor_, block.data(), block.size(), MSG_DONTWAIT);
    if (got > 0) {
      received_.append(block.data(), static_cast<std::size_t>(got));
    } else if (got < 0 && errno == EINTR) {
      continue;
    } else {
      return got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK);
    }
  }
}

std::optional<Json> Channel::receive() {
  std::array<char, 65536> block;
  for (;;) {
    if (std::optional<Json> value = take()) return value;
    const ssize_t got = recv(descriptor_, block.data(), block.size(), 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return std::nullopt;
    received_.append(block.data(), static_cast<std::size_t>(got));
  }
}

}  // namespace turnbench
