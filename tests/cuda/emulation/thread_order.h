#pragma once

// Informs the thread sanitizer of the order of emulated threads: the order by __syncthreads,
// __syncwarp and the ends of blocks and grids, but not the order that results from running one
// thread at a time.  Other builds compile none of it.

#include "sanitizers.h"

#ifdef EMULATION_THREAD_SANITIZER
#include <sanitizer/tsan_interface.h>

extern "C" {  // of the runtime library, which declares them in no header
void __tsan_ignore_thread_begin();
void __tsan_ignore_thread_end();
void __tsan_read16(void* at);
void __tsan_write16(void* at);
}
#endif

namespace emulation {

#ifdef EMULATION_THREAD_SANITIZER

/// All previous operations of the running thread happen before the operations of a thread after its
/// happens_after() with the same address.
inline void happens_before(const void* at) {
  __tsan_release(const_cast<void*>(at));
}
inline void happens_after(const void* at) {
  __tsan_acquire(const_cast<void*>(at));
}

/// The running thread's accesses are ignored while an object exists: accesses to the emulation's
/// own data by library functions, which are instrumented or intercepted.
class Unseen {
 public:
  Unseen() { __tsan_ignore_thread_begin(); }
  ~Unseen() { __tsan_ignore_thread_end(); }
  Unseen(const Unseen&) = delete;
  Unseen& operator=(const Unseen&) = delete;
};

/// A copy of 16 bytes, of zeros if the source is null.  It may happen at any time from its start to
/// the wait for it, so both are accesses.
inline void see_copy(void* to, const void* from) {
  __tsan_write16(to);
  if (from != nullptr) __tsan_read16(const_cast<void*>(from));
}

#else

inline void happens_before(const void*) {}
inline void happens_after(const void*) {}
class [[maybe_unused]] Unseen {
 public:
  Unseen() {}
};
inline void see_copy(void*, const void*) {}

#endif

}  // namespace emulation
