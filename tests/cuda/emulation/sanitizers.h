#pragma once

// EMULATION_ADDRESS_SANITIZER or EMULATION_THREAD_SANITIZER, where this compile has one of them.

#ifdef __has_feature  // as Clang tells
#if __has_feature(address_sanitizer)
#define EMULATION_ADDRESS_SANITIZER
#elif __has_feature(thread_sanitizer)
#define EMULATION_THREAD_SANITIZER
#endif
#endif
#ifdef __SANITIZE_ADDRESS__
#define EMULATION_ADDRESS_SANITIZER
#endif
#ifdef __SANITIZE_THREAD__
#define EMULATION_THREAD_SANITIZER
#endif
