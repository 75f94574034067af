#pragma once

namespace turnbench {

/// From now on, SIGINT and SIGTERM end the program at once, with exit code 0: for commands that
/// only read, and that run until they are stopped.
void exit_at_signals();

}  // namespace turnbench
