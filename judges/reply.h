#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "harness/store/record.h"
#include "judges/rubric.h"

namespace turnbench {

/// What a reply says, if it is a judgement.
struct ParsedReply {
  std::string error;                  ///< why it is none; then there are no numbers
  double value = 0;                   ///< the score, on the rubric's scale
  std::vector<Record::Named> scores;  ///< of the dimensions, in the rubric's order
};

/// Reads a judge's reply; never throws on any text.  What stands in front of </think> is passed
/// over.
/// - json: the one object, anywhere in the text, that has a number on the scale (or a text that is
///   one) for every dimension; case, spaces and dashes of keys do not matter, and other keys are
///   passed over.  Several such objects must agree.
/// - yes-no: the first or the last word is yes or no.  Where both are, they must agree.
ParsedReply parse_reply(const Rubric& rubric, std::string_view text);

}  // namespace turnbench
