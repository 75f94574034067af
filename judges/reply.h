#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "harness/store/record.h"
#include "judges/rubric.h"

namespace turnbench {

/// The scores read from a reply.
struct ParsedReply {
  std::string error;                       ///< why there are no scores; empty if there are
  double value = 0;                        ///< the score, on the rubric's scale
  std::vector<Record::NamedValue> scores;  ///< one for each dimension, in the rubric's order
};

/// Reads a judge's reply.  Never throws, whatever the text.  Ignores everything before </think>.
/// - json: finds the object, anywhere in the text, that has a number on the scale (or a text with
///   one) for every dimension.  Case, spaces and dashes in keys do not matter; other keys are
///   ignored.  If there are several such objects, they must agree.
/// - yes-no: the first or the last word must be yes or no; if both are, they must agree.
ParsedReply parse_reply(const Rubric& rubric, std::string_view text);

}  // namespace turnbench
