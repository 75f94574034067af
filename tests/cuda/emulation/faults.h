#pragma once

// Faults of an emulated GPU, which tests request.

#include <cstddef>

namespace emulation {

/// The n-th allocation of device memory from now on and all later ones fail; 0: none fails.  A
/// program may also be started with EMULATED_FAIL_ALLOCATION=n.
void fail_allocation(std::size_t n);
/// The n-th kernel from now on that runs accesses an illegal address.  Its device is lost: from
/// then on, each call returns that error, and nothing runs on the device.  0: no kernel does.  A
/// program may also be started with EMULATED_FAIL_LAUNCH=n.
void fail_launch(std::size_t n);
/// All devices work again, as in a new process.
void restore_devices();

}  // namespace emulation
