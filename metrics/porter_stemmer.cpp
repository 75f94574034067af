#include "metrics/porter_stemmer.h"

#include <algorithm>
#include <span>
#include <utility>
#include <vector>

#include "common/text.h"

namespace turnbench {
namespace {

using Word = std::u32string_view;

constexpr std::pair<std::string_view, std::string_view> kIrregular[] = {
    {"sky", "sky"},        {"skies", "sky"},       {"dying", "die"},        {"lying", "lie"},
    {"tying", "tie"},      {"news", "news"},       {"innings", "inning"},   {"inning", "inning"},
    {"outings", "outing"}, {"outing", "outing"},   {"cannings", "canning"}, {"canning", "canning"},
    {"howe", "howe"},      {"proceed", "proceed"}, {"exceed", "exceed"},    {"succeed", "succeed"},
};

/// For each character, whether it is a consonant.  A y is one unless it follows a consonant.
std::vector<bool> consonants(Word word) {
  std::vector<bool> out;
  for (const char32_t c : word) {
    const bool vowel = Word(U"aeiou").find(c) != Word::npos;
    out.push_back(c == U'y' ? out.empty() || !out.back() : !vowel);
  }
  return out;
}

/// The number of times that a consonant follows a vowel.
int measure(Word stem) {
  const std::vector<bool> consonant = consonants(stem);
  int out = 0;
  for (std::size_t i = 1; i < consonant.size(); ++i) out += !consonant[i - 1] && consonant[i];
  return out;
}

bool has_vowel(Word stem) {
  const std::vector<bool> consonant = consonants(stem);
  return std::find(consonant.begin(), consonant.end(), false) != consonant.end();
}

/// Consonant, vowel, consonant other than w, x and y; or a word of a vowel and a consonant.
bool ends_cvc(Word word) {
  const std::vector<bool> c = consonants(word);
  const std::size_t n = c.size();
  if (n == 2) return !c[0] && c[1];
  return n > 2 && c[n - 3] && !c[n - 2] && c[n - 1] && Word(U"wxy").find(word[n - 1]) == Word::npos;
}

struct SuffixRule {
  Word suffix, replacement;
};

/// Applies the first rule whose suffix the word has, if the stem before it fulfils the condition.
template <typename Condition>
std::u32string apply_first(Word word, std::span<const SuffixRule> rules, Condition condition) {
  for (const SuffixRule& rule : rules) {
    if (!word.ends_with(rule.suffix)) continue;
    const Word stem = word.substr(0, word.size() - rule.suffix.size());
    if (!condition(rule, stem)) break;
    return std::u32string(stem) + std::u32string(rule.replacement);
  }
  return std::u32string(word);
}

/// The same for stems with more than `least` measures.
std::u32string apply_measured(Word word, std::span<const SuffixRule> rules, int least) {
  return apply_first(word, rules,
                     [least](const SuffixRule&, Word stem) { return measure(stem) > least; });
}

std::u32string step_1a(Word word) {
  constexpr SuffixRule kRules[] = {{U"sses", U"ss"}, {U"ies", U"i"}, {U"ss", U"ss"}, {U"s", U""}};
  if (word.size() == 4 && word.ends_with(U"ies")) return std::u32string(word.substr(0, 3));
  return apply_first(word, kRules, [](const SuffixRule&, Word) { return true; });
}

/// Completes the stem of a word whose -ed or -ing was removed.
std::u32string restored(Word stem) {
  for (const Word suffix : {Word(U"at"), Word(U"bl"), Word(U"iz")}) {
    if (stem.ends_with(suffix)) return std::u32string(stem) + U'e';
  }
  const std::size_t n = stem.size();
  if (n > 1 && stem[n - 1] == stem[n - 2] && consonants(stem).back()) {
    const bool stays = Word(U"lsz").find(stem[n - 1]) != Word::npos;
    return std::u32string(stem.substr(0, stays ? n : n - 1));
  }
  return std::u32string(stem) + (measure(stem) == 1 && ends_cvc(stem) ? U"e" : U"");
}

std::u32string step_1b(Word word) {
  const std::size_t n = word.size();
  if (word.ends_with(U"ied")) return std::u32string(word.substr(0, n == 4 ? n - 1 : n - 2));
  if (word.ends_with(U"eed"))
    return std::u32string(word.substr(0, measure(word.substr(0, n - 3)) > 0 ? n - 1 : n));
  for (const Word suffix : {Word(U"ed"), Word(U"ing")}) {
    if (!word.ends_with(suffix)) continue;
    const Word stem = word.substr(0, n - suffix.size());
    if (has_vowel(stem)) return restored(stem);
  }
  return std::u32string(word);
}

std::u32string step_1c(Word word) {
  constexpr SuffixRule kRules[] = {{U"y", U"i"}};
  return apply_first(word, kRules, [](const SuffixRule&, Word stem) {
    return stem.size() > 1 && consonants(stem).back();
  });
}

std::u32string step_2(Word word) {
  constexpr SuffixRule kRules[] = {
      {U"ational", U"ate"}, {U"tional", U"tion"}, {U"enci", U"ence"},   {U"anci", U"ance"},
      {U"izer", U"ize"},    {U"bli", U"ble"},     {U"alli", U"al"},     {U"entli", U"ent"},
      {U"eli", U"e"},       {U"ousli", U"ous"},   {U"ization", U"ize"}, {U"ation", U"ate"},
      {U"ator", U"ate"},    {U"alism", U"al"},    {U"iveness", U"ive"}, {U"fulness", U"ful"},
      {U"ousness", U"ous"}, {U"aliti", U"al"},    {U"iviti", U"ive"},   {U"biliti", U"ble"},
      {U"fulli", U"ful"},   {U"logi", U"log"},
  };
  // A word on -alli is processed again without it.
  if (word.ends_with(U"alli") && measure(word.substr(0, word.size() - 4)) > 0)
    return step_2(word.substr(0, word.size() - 2));
  return apply_first(word, kRules, [word](const SuffixRule& rule, Word stem) {
    // The l of -logi belongs to the stem.
    return measure(rule.suffix == U"logi" ? word.substr(0, word.size() - 3) : stem) > 0;
  });
}

std::u32string step_3(Word word) {
  constexpr SuffixRule kRules[] = {
      {U"icate", U"ic"}, {U"ative", U""}, {U"alize", U"al"}, {U"iciti", U"ic"},
      {U"ical", U"ic"},  {U"ful", U""},   {U"ness", U""},
  };
  return apply_measured(word, kRules, 0);
}

std::u32string step_4(Word word) {
  constexpr SuffixRule kRules[] = {
      {U"al", U""},   {U"ance", U""}, {U"ence", U""}, {U"er", U""},    {U"ic", U""},
      {U"able", U""}, {U"ible", U""}, {U"ant", U""},  {U"ement", U""}, {U"ment", U""},
      {U"ent", U""},  {U"ion", U""},  {U"ou", U""},   {U"ism", U""},   {U"ate", U""},
      {U"iti", U""},  {U"ous", U""},  {U"ive", U""},  {U"ize", U""},
  };
  return apply_first(word, kRules, [](const SuffixRule& rule, Word stem) {
    return measure(stem) > 1 &&
           (rule.suffix != U"ion" || stem.back() == U's' || stem.back() == U't');
  });
}

std::u32string step_5(std::u32string word) {
  if (word.ends_with(U'e')) {
    const Word stem = Word(word).substr(0, word.size() - 1);
    const int m = measure(stem);
    if (m > 1 || (m == 1 && !ends_cvc(stem))) word.pop_back();
  }
  if (word.ends_with(U"ll") && measure(Word(word).substr(0, word.size() - 1)) > 1) word.pop_back();
  return word;
}

}  // namespace

std::string porter_stem(std::string_view word) {
  for (const auto& [form, stem] : kIrregular) {
    if (form == word) return std::string(stem);
  }
  const std::u32string text = to_code_points(word);
  if (text.size() <= 2) return std::string(word);
  return to_utf8(step_5(step_4(step_3(step_2(step_1c(step_1b(step_1a(text))))))));
}

}  // namespace turnbench
