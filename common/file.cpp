#include "common/file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>

#include "common/error.h"
#include "common/text.h"
#include "common/zip.h"

namespace turnbench {
namespace {

constexpr std::size_t kBlock = 1 << 16;             // bytes read at a time
constexpr std::size_t kMaxUnpackedLine = 64 << 20;  // a small archive may hold lines of any length

[[noreturn]] void cannot_read(const std::filesystem::path& path) {
  throw input_error("{}: found no readable file ({}), expected one", path.string(),
                    std::strerror(errno));
}

/// A file descriptor that is closed on destruction.
class Descriptor {
 public:
  explicit Descriptor(const std::filesystem::path& path) : fd_(open(path.c_str(), O_RDONLY)) {
    if (fd_ < 0) cannot_read(path);
    struct stat info {};
    if (fstat(fd_, &info) != 0) cannot_read(path);
    if (S_ISDIR(info.st_mode)) {
      close(fd_);
      throw input_error("{}: found a directory, expected a file", path.string());
    }
    size_ = static_cast<std::size_t>(info.st_size);
  }
  ~Descriptor() { close(fd_); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  int fd() const { return fd_; }
  std::size_t size() const { return size_; }

  /// Reads up to `size` bytes; 0 at the end.
  std::size_t read_some(char* data, std::size_t size, const std::filesystem::path& path) const {
    for (;;) {
      const ssize_t got = ::read(fd_, data, size);
      if (got >= 0) return static_cast<std::size_t>(got);
      if (errno != EINTR) cannot_read(path);
    }
  }

 private:
  int fd_;
  std::size_t size_ = 0;
};

[[noreturn]] void cannot_write(const std::filesystem::path& path) {
  throw runtime_error("{}: cannot be written: {}", path.string(), std::strerror(errno));
}

struct Closing {
  int fd;
  ~Closing() { close(fd); }
};

void write_all(int fd, std::string_view content, const std::filesystem::path& path) {
  while (!content.empty()) {
    const ssize_t written = write(fd, content.data(), content.size());
    if (written > 0) content.remove_prefix(static_cast<std::size_t>(written));
    if (written < 0 && errno != EINTR) cannot_write(path);
  }
}

/// The descriptor of stdout or stderr if the file is one of them; otherwise -1.
int standard_stream(const struct stat& file) {
  for (const int stream : {STDOUT_FILENO, STDERR_FILENO}) {
    struct stat info {};
    if (fstat(stream, &info) == 0 && info.st_dev == file.st_dev && info.st_ino == file.st_ino)
      return stream;
  }
  return -1;
}

/// The target of a chain of symbolic links, even if it does not exist yet.
std::filesystem::path followed(const std::filesystem::path& path) {
  constexpr int kLongest = 40;  // the kernel's limit
  std::filesystem::path out = path;
  std::error_code ignored;
  for (int i = 0; std::filesystem::is_symlink(out, ignored); ++i) {
    if (i == kLongest) {
      errno = ELOOP;
      cannot_write(path);
    }
    out = out.parent_path() / std::filesystem::read_symlink(out, ignored);
  }
  return out;
}

/// Splits the output of `read_some(data, size)` into lines, until it returns nothing.  `keep(size,
/// number)` may reject a line that has no end yet after `size` bytes.
template <typename ReadSome, typename Keep>
void cut_lines(ReadSome read_some, Keep keep,
               const std::function<void(std::string_view, std::size_t)>& line) {
  std::string buffer;  // [0, used) is text not yet passed to `line`
  std::size_t used = 0, number = 0;
  for (;;) {
    buffer.resize(used + kBlock);
    const std::size_t got = read_some(buffer.data() + used, kBlock);
    const std::size_t end = used + got;
    std::size_t start = 0;
    while (const void* found = std::memchr(buffer.data() + std::max(start, used), '\n',
                                           end - std::max(start, used))) {
      const std::size_t stop = static_cast<const char*>(found) - buffer.data();
      const std::size_t cut = stop > start && buffer[stop - 1] == '\r' ? stop - 1 : stop;
      line(std::string_view(buffer).substr(start, cut - start), ++number);
      start = stop + 1;
      used = start;
    }
    if (got == 0) {
      if (end > start) line(std::string_view(buffer).substr(start, end - start), ++number);
      return;
    }
    if (start > 0) std::memmove(buffer.data(), buffer.data() + start, end - start);
    used = end - start;
    keep(used, number + 1);
  }
}

}  // namespace

std::string read_file(const std::filesystem::path& path) {
  if (const auto place = ZipMember::find(path)) {
    throw input_error("{}: found a file, expected a directory: only lines are read from archives",
                      place->archive.string());
  }
  const Descriptor file(path);
  std::string out;
  out.reserve(file.size());
  for (;;) {
    const std::size_t old = out.size();
    out.resize(old + kBlock);
    const std::size_t got = file.read_some(out.data() + old, kBlock, path);
    out.resize(old + got);
    if (got == 0) return out;
  }
}

void require_own_file(const std::filesystem::path& path, std::string_view kind,
                      const std::function<bool()>& is_own, std::string_view expected) {
  struct stat info {};
  const bool is_file = stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode);
  if (!is_file || info.st_size == 0 || standard_stream(info) >= 0 || is_own()) return;
  throw input_error("{}: found a file that is no {}, expected {}", printable(path.string()), kind,
                    expected);
}

void write_file(const std::filesystem::path& path, std::string_view content) {
  struct stat info {};
  const bool exists = stat(path.c_str(), &info) == 0;
  if (exists && S_ISDIR(info.st_mode))
    throw input_error("{}: found a directory, expected a file", path.string());
  if (const int stream = exists ? standard_stream(info) : -1; stream >= 0) {
    std::fflush(nullptr);  // earlier output comes first
    return write_all(stream, content, path);
  }
  if (exists && !S_ISREG(info.st_mode)) {
    const int fd = open(path.c_str(), O_WRONLY | O_CLOEXEC);
    if (fd < 0) cannot_write(path);
    const Closing closing{fd};
    return write_all(fd, content, path);
  }
  const std::filesystem::path target = followed(path);
  const std::string partial = fmt::format("{}.{}.partial", target.string(), getpid());
  const int fd = open(partial.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (fd < 0) cannot_write(path);
  try {
    {
      const Closing closing{fd};
      if (exists && fchmod(fd, info.st_mode & 0777) != 0) cannot_write(path);
      write_all(fd, content, path);
    }
    if (rename(partial.c_str(), target.c_str()) != 0) cannot_write(path);
  } catch (...) {
    unlink(partial.c_str());
    throw;
  }
}

void for_each_line(const std::filesystem::path& path,
                   const std::function<void(std::string_view, std::size_t)>& visit) {
  if (const auto place = ZipMember::find(path)) {
    ZipMember member(*place);
    cut_lines([&](char* data, std::size_t size) { return member.read_some(data, size); },
              [&](std::size_t size, std::size_t number) {
                if (size <= kMaxUnpackedLine) return;
                throw input_error("{}:{}: found a line of more than {} MiB, expected shorter ones",
                                  path.string(), number, kMaxUnpackedLine >> 20);
              },
              visit);
    return;
  }
  const Descriptor file(path);
  cut_lines([&](char* data, std::size_t size) { return file.read_some(data, size, path); },
            [](std::size_t, std::size_t) {}, visit);
}

bool path_exists(const std::filesystem::path& path) {
  std::error_code ignored;
  return std::filesystem::exists(path, ignored);
}

bool directory_exists(const std::filesystem::path& path) {
  std::error_code ignored;
  return std::filesystem::is_directory(path, ignored);
}

bool regular_file_exists(const std::filesystem::path& path) {
  std::error_code ignored;
  return std::filesystem::is_regular_file(path, ignored);
}

std::vector<std::filesystem::path> list_directory(const std::filesystem::path& directory) {
  std::error_code error;
  std::vector<std::filesystem::path> out;
  for (std::filesystem::directory_iterator at(directory, error), end; !error && at != end;
       at.increment(error))
    out.push_back(at->path());
  if (error) {
    throw input_error("{}: found no readable directory ({}), expected one", directory.string(),
                      error.message());
  }
  std::sort(out.begin(), out.end());
  return out;
}

std::vector<std::filesystem::path> project_directories(const std::filesystem::path& name) {
  std::vector<std::filesystem::path> out;
  std::error_code ignored;
  const auto add = [&](const std::filesystem::path& directory) {
    if (!directory_exists(directory)) return;
    for (const auto& known : out) {
      if (std::filesystem::equivalent(known, directory, ignored)) return;
    }
    out.push_back(directory);
  };
  add(name);
  const auto program = std::filesystem::read_symlink("/proc/self/exe", ignored);
  if (program.empty()) return out;
  const auto parent = program.parent_path().parent_path();
  add(parent / name);
  add(parent / "share" / "turnbench" / name);
  return out;
}

std::filesystem::path project_directory(const std::filesystem::path& name) {
  const auto found = project_directories(name);
  return found.empty() ? "" : found.front();
}

MappedFile::MappedFile(const std::filesystem::path& path) {
  const Descriptor file(path);
  size_ = file.size();
  if (size_ == 0) return;
  void* map = mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, file.fd(), 0);
  if (map == MAP_FAILED) cannot_read(path);
  data_ = static_cast<const std::byte*>(map);
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) munmap(const_cast<std::byte*>(data_), size_);
}

void MappedFile::release_pages(std::span<const std::byte> part) const {
  const auto page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
  const auto begin = (reinterpret_cast<std::uintptr_t>(part.data()) + page - 1) / page * page,
             end = reinterpret_cast<std::uintptr_t>(part.data() + part.size()) / page * page;
  if (begin < end) madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
}

std::string hash_bytes(std::span<const std::byte> bytes) {
  const XXH128_hash_t hash = XXH3_128bits(bytes.data(), bytes.size());
  return fmt::format("{:016x}{:016x}", hash.high64, hash.low64);
}

std::string hash_text(std::string_view text) {
  return hash_bytes(std::as_bytes(std::span(text.data(), text.size())));
}

}  // namespace turnbench
