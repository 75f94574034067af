#include "datasets/filler.h"

#include <algorithm>
#include <cctype>

#include "common/error.h"
#include "common/file.h"
#include "common/text.h"
#include "datasets/paragraphs.h"
#include "datasets/source_file.h"
#include "datasets/vocabulary.h"

namespace turnbench {
namespace {

namespace fs = std::filesystem;

// {} is a word of the list in the same place.
struct Template {
  std::string_view text;
  std::vector<std::span<const std::string_view>> slots;
};

const std::vector<Template>& templates() {
  using namespace vocabulary;
  static const std::vector<Template> all = {
      {"The {} walked past the {} and thought about {}.", {roles(), sites(), topics()}},
      {"Near the {} a {} {} was {}.", {sites(), adjectives(), roles(), activities()}},
      {"The {} and the {} talked {} about {}.", {roles(), roles(), adverbs(), topics()}},
      {"Nobody at the {} knew why the {} {} stood beside the {} {}.",
       {sites(), adjectives(), nouns(), adjectives(), nouns()}},
      {"After {}, the {} went {} to the {}.", {activities(), roles(), adverbs(), sites()}},
      {"It was a {} morning, and the {} had been {} since dawn.",
       {adjectives(), roles(), activities()}},
      {"A {} {} hung over the {}, as it had done for years.", {adjectives(), nouns(), sites()}},
      {"The {} sold a {} {} and bought a {} {} instead.",
       {roles(), adjectives(), nouns(), adjectives(), nouns()}},
      {"Whenever {} came up, the {} began {}.", {topics(), roles(), activities()}},
      {"There was little to say about {}, so the {} spoke {} of {}.",
       {topics(), roles(), adverbs(), topics()}},
      {"Two children painted a {} {} on the wall of the {}.", {adjectives(), nouns(), sites()}},
      {"The {} remembered a {} evening at the {}.", {roles(), adjectives(), sites()}},
      {"By noon the {} was full, and the {} gave up {}.", {sites(), roles(), activities()}},
      {"Some said that the {} had lost a {} {} on the way to the {}.",
       {roles(), adjectives(), nouns(), sites()}},
      {"Behind the {} one could hear the {} {} {}.",
       {sites(), adjectives(), roles(), activities()}},
      {"In the afternoon the {} wrote {} about {}.", {roles(), adverbs(), topics()}},
      {"The {} {} was older than the {}, or so the {} believed.",
       {adjectives(), nouns(), sites(), roles()}},
      {"Every week the {} asked the {} about {}.", {roles(), roles(), topics()}},
      {"Rain fell {} on the {}, and the {} put the {} {} under a roof.",
       {adverbs(), sites(), roles(), adjectives(), nouns()}},
      {"A visitor took the {} for a {} and was {} corrected.", {roles(), roles(), adverbs()}},
  };
  return all;
}

/// The template with random distinct words.
std::string fill(const Template& t, Random& random) {
  std::string out;
  std::string_view rest = t.text;
  for (const auto& words : t.slots) {
    const std::size_t slot = rest.find("{}");
    out += rest.substr(0, slot);
    rest.remove_prefix(slot + 2);
    std::string_view word = random.choice(words);
    while (out.find(word) != std::string::npos) word = random.choice(words);
    const bool vowel = std::string_view("aeiou").find(word[0]) != std::string_view::npos;
    if (vowel && (out.ends_with(" a ") || out == "A ")) out.insert(out.size() - 1, "n");
    out += word;
  }
  return out.append(rest);
}

bool is_word_character(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '\'' || (c & 0x80) != 0;
}

void append_sentences(std::vector<std::string>& out, const std::string& text) {
  std::size_t begin = 0;
  for (std::size_t i = 1; i <= text.size(); ++i) {
    const std::string_view before = std::string_view(text).substr(begin, i - begin);
    const bool ends = i == text.size() || before.ends_with("\n\n") ||
                      is_sentence_break(before, std::string_view(text).substr(i));
    if (!ends) continue;
    begin = i;
    std::vector<std::string> words = split(replace_all(std::string(before), "\n", " "), " ");
    std::erase(words, "");
    if (!words.empty()) out.push_back(join(words, " "));
  }
}

}  // namespace

std::size_t count_words_and_marks(std::string_view text) {
  std::size_t count = 0;
  bool in_word = false;
  for (char c : text) {
    const bool word = is_word_character(c);
    const bool mark = !word && std::isspace(static_cast<unsigned char>(c)) == 0;
    count += mark || (word && !in_word);
    in_word = word;
  }
  return count;
}

std::string random_uuid(Random& random) {
  const std::uint64_t high = (random.next() & ~0xF000ull) | 0x4000ull;
  const std::uint64_t low = (random.next() >> 2) | (1ull << 63);
  return fmt::format("{:08x}-{:04x}-{:04x}-{:04x}-{:012x}", high >> 32, (high >> 16) & 0xFFFF,
                     high & 0xFFFF, low >> 48, low & 0xFFFFFFFFFFFFull);
}

SentenceGenerator random_sentences(Random& random) {
  return [&random] { return fill(random.choice(templates()), random); };
}

SentenceGenerator random_uuid_pairs(Random& random) {
  return [&random] {
    const std::string key = random_uuid(random);
    return fmt::format("\"{}\": \"{}\",", key, random_uuid(random));
  };
}

std::vector<std::string> read_sentences(const fs::path& source) {
  std::vector<fs::path> files = {source};
  if (directory_exists(source)) {
    files = list_directory(source);
    std::erase_if(files, [](const fs::path& path) { return path.extension() != ".txt"; });
    if (files.empty()) {
      throw input_error("{}: found no .txt file, expected at least one", source.string());
    }
  }
  std::vector<std::string> out;
  for (const fs::path& file : files) {
    const std::string text = replace_all(replace_all(read_utf8_file(file), "\r", ""), "\t", " ");
    const std::size_t before = out.size();
    append_sentences(out, text);
    if (out.size() == before) {
      throw input_error("{}: found no text, expected sentences", file.string());
    }
  }
  return out;
}

SentenceGenerator cyclic_sentences(std::span<const std::string> sentences, Random& random) {
  return [sentences, next = random.below(sentences.size())]() mutable {
    return sentences[next++ % sentences.size()];
  };
}

}  // namespace turnbench
