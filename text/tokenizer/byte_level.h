#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace turnbench {

/// The character of a byte in the byte-level alphabet of GPT-2 (encoder.py, `bytes_to_unicode`),
/// which has one printable character for each of the 256 bytes.  Vocabularies of byte-level
/// tokenizers are written in it.
char32_t byte_level_character(unsigned char byte);

/// Writes bytes in the byte-level alphabet.
std::string to_byte_level(std::string_view bytes);

/// Reads bytes written in the byte-level alphabet; empty if a character is not in it.
std::optional<std::string> from_byte_level(std::string_view text);

/// The byte of a byte-fallback token <0x00> to <0xFF>; empty for other tokens.
std::optional<char> byte_of_fallback(std::string_view token);

}  // namespace turnbench
