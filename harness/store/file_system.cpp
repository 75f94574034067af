#include "harness/store/file_system.h"

#include <sys/vfs.h>

#include <algorithm>
#include <array>
#include <utility>

namespace turnbench {

std::string_view shared_file_system(std::uint32_t magic) {
  using Named = std::pair<std::uint32_t, std::string_view>;
  constexpr std::array kShared = {
      Named{0x6969, "NFS"},        Named{0x0BD00BD0, "Lustre"}, Named{0x47504653, "GPFS"},
      Named{0x517B, "SMB"},        Named{0xFF534D42, "CIFS"},   Named{0xFE534D42, "SMB"},
      Named{0x65735546, "FUSE"},   Named{0x01021997, "9p"},     Named{0x19830326, "BeeGFS"},
      Named{0x00C36400, "CephFS"}, Named{0x5346414F, "AFS"},    Named{0xAAD7AAEA, "PanFS"},
  };
  const auto found = std::find_if(kShared.begin(), kShared.end(),
                                  [&](const Named& named) { return named.first == magic; });
  return found == kShared.end() ? std::string_view() : found->second;
}

std::string_view shared_file_system_of(const std::filesystem::path& file) {
  struct statfs about {};
  const std::filesystem::path folder = file.has_parent_path() ? file.parent_path() : ".";
  // The file itself may be a link to another file system.
  if (statfs(file.c_str(), &about) != 0 && statfs(folder.c_str(), &about) != 0) return "";
  return shared_file_system(static_cast<std::uint32_t>(about.f_type));
}

}  // namespace turnbench
