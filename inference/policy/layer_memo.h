#pragma once

#include <map>
#include <memory>
#include <string>
#include <typeinfo>
#include <utility>

namespace turnbench {

/// Cache of results that several sequences share: computations on the cached tokens of a layer at
/// the end of a prompt (LayerView::memo), and data of retrievers (RetrieverPass::resources).  Equal
/// keys share a result.  Results have shared ownership.
class LayerMemo {
 public:
  /// The result of `build()`, of type T.  `build` is called only for the first request with this
  /// `key`.  The key must name the computation and all settings on which it depends.
  template <typename T, typename Build>
  std::shared_ptr<const T> get(const std::string& key, const Build& build) {
    std::shared_ptr<const void>& entry = entries_[{typeid(T).name(), key}];
    if (entry == nullptr) entry = std::shared_ptr<const T>(build());
    return std::static_pointer_cast<const T>(entry);
  }

 private:
  std::map<std::pair<std::string, std::string>, std::shared_ptr<const void>> entries_;
};

/// As `memo->get`; without a memo, the result of `build()`.
template <typename T, typename Build>
std::shared_ptr<const T> shared_result(LayerMemo* memo, const std::string& key,
                                       const Build& build) {
  return memo == nullptr ? std::shared_ptr<const T>(build()) : memo->get<T>(key, build);
}

}  // namespace turnbench
