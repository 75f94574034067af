#pragma once

#include <string>

namespace turnbench::python {

/// Unicode data that utf8proc lacks: derived case properties (DerivedCoreProperties.txt) and
/// upper-case mappings to several code points (SpecialCasing.txt).

bool is_cased(char32_t c);           ///< the property `Cased`
bool is_case_ignorable(char32_t c);  ///< the property `Case_Ignorable`

/// The upper case of `c` if it has several code points, otherwise "".
std::u32string special_upper(char32_t c);

}  // namespace turnbench::python
