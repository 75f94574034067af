#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace turnbench {

/// The byte-level alphabet of GPT-2 (encoder.py, `bytes_to_unicode`): one printable character for
/// each of the 256 bytes.  Byte-level tokenizers write their tokens in it.
char32_t byte_level_character(unsigned char byte);

/// Every byte as its character.
std::string to_byte_level(std::string_view bytes);

/// The bytes that `text` stands for, or nothing if a character is not of the alphabet.
std::optional<std::string> from_byte_level(std::string_view text);

/// The byte that a fallback token <0x00> to <0xFF> stands for, or nothing if it is another token.
std::optional<char> byte_of_fallback(std::string_view token);

}  // namespace turnbench
