#pragma once

#include <map>
#include <memory>
#include <string>
#include <typeinfo>
#include <utility>

namespace turnbench {

/// What methods computed from the cached tokens of a layer at the end of a prompt, for all that
/// would compute the same.  Whoever asks owns the result with the others.
class LayerMemo {
 public:
  /// The result of `build()`, a T, which is called only if nobody asked for `key` before.  The key
  /// names the method's computation and every setting that it depends on.
  template <typename T, typename Build>
  std::shared_ptr<const T> get(const std::string& key, const Build& build) {
    std::shared_ptr<const void>& entry = entries_[{typeid(T).name(), key}];
    if (entry == nullptr) entry = std::shared_ptr<const T>(build());
    return std::static_pointer_cast<const T>(entry);
  }

 private:
  std::map<std::pair<std::string, std::string>, std::shared_ptr<const void>> entries_;
};

}  // namespace turnbench
