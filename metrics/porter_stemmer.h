#pragma once

#include <string>
#include <string_view>

namespace turnbench {

/// The stem of a lower-case word, as nltk's PorterStemmer gives it in its default mode
/// (NLTK_EXTENSIONS, `nltk/stem/porter.py`): Porter's algorithm (1980) with a list of irregular
/// forms and some changed rules.  Characters other than a, e, i, o, u and y are consonants.
std::string porter_stem(std::string_view word);

}  // namespace turnbench
