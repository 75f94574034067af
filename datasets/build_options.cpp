#include "datasets/build_options.h"

#include "common/error.h"

namespace turnbench {

void check_generated(const std::string& name, const BuildOptions& options, int max_turns,
                     int min_length) {
  if (options.turns < 1 || options.turns > max_turns) {
    throw input_error("{}: found {} turns, expected from 1 to {}", name, options.turns, max_turns);
  }
  if (options.length / options.turns < min_length) {
    throw input_error("{}: found the length {} for {} turns, expected at least {}", name,
                      options.length, options.turns, min_length * options.turns);
  }
  if (options.limit > kMaxGeneratedWords / static_cast<std::size_t>(options.length)) {
    throw input_error("{}: found {} dialogues of the length {}, expected at most {} of them", name,
                      options.limit, options.length,
                      kMaxGeneratedWords / static_cast<std::size_t>(options.length));
  }
  if (options.depth && !(*options.depth >= 0 && *options.depth <= 100)) {
    throw input_error("{}: found the depth {}, expected a number from 0 to 100", name,
                      *options.depth);
  }
}

}  // namespace turnbench
