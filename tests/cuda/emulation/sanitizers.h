#pragma once

// Defines EMULATION_ADDRESS_SANITIZER or EMULATION_THREAD_SANITIZER if this compilation uses one of
// them. Files that the build does not instrument for the thread sanitizer are compiled with the
// latter defined.

#ifdef __has_feature  // as reported by Clang
#if __has_feature(address_sanitizer)
#define EMULATION_ADDRESS_SANITIZER
#elif __has_feature(thread_sanitizer) && !defined(EMULATION_THREAD_SANITIZER)
#define EMULATION_THREAD_SANITIZER
#endif
#endif
#ifdef __SANITIZE_ADDRESS__
#define EMULATION_ADDRESS_SANITIZER
#endif
#if defined(__SANITIZE_THREAD__) && !defined(EMULATION_THREAD_SANITIZER)
#define EMULATION_THREAD_SANITIZER
#endif
