#pragma once

#include <memory>

#include "methods/method.h"

namespace turnbench {

/// When rows are encoded one by one: as they enter the cache, so that the rest of a prompt reads
/// encoded rows, or after the prompt.
ParameterInfo encoding_time_parameter();
/// A codec that encodes as `rows` does, at the time that `encoding_time_parameter` selects.
std::unique_ptr<CacheCodec> encoded_in_time(std::unique_ptr<RowCodec> rows,
                                            const Parameters& parameters);

}  // namespace turnbench
