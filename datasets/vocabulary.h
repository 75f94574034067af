#pragma once

#include <span>
#include <string_view>

namespace turnbench::vocabulary {

// The vocabulary of generated texts.  The lists for needles (materials, objects, people, rooms)
// share no word with the lists for filler, so filler never answers a question.

std::span<const std::string_view> adjectives();
std::span<const std::string_view> nouns();
std::span<const std::string_view> roles();       ///< "gardener"
std::span<const std::string_view> sites();       ///< "market square"
std::span<const std::string_view> topics();      ///< "the price of flour"
std::span<const std::string_view> activities();  ///< "mending a fence"
std::span<const std::string_view> adverbs();
std::span<const std::string_view> materials();
std::span<const std::string_view> objects();
std::span<const std::string_view> people();
std::span<const std::string_view> rooms();  ///< "boathouse"; no name is part of another

}  // namespace turnbench::vocabulary
