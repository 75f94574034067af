#include "harness/store/dialogue_hashes.h"

#include <algorithm>

#include "common/error.h"
#include "common/file.h"
#include "common/text.h"
#include "datasets/dialogue_io.h"
#include "harness/store/dialogue_writer.h"

namespace turnbench {
namespace {

constexpr std::size_t kDigits = 16;

/// Texts with a mark between them, so that other texts do not give the same bytes.
class Joined {
 public:
  void add(std::string_view text) { text_.append(text) += '\0'; }
  std::string hash() const { return hash_text(text_).substr(0, kDigits); }

 private:
  std::string text_;
};

bool is_blank(const Paragraph& paragraph) {
  return trim(paragraph.text).empty();
}

}  // namespace

std::vector<std::string> text_hashes(const Dialogue& dialogue) {
  std::vector<std::string> out;
  Joined questions;
  questions.add("questions");
  questions.add(dialogue.id);
  for (const Turn& turn : dialogue.turns) {
    questions.add(turn.question);
    for (const std::string& reference : turn.references) questions.add(reference);
    if (std::all_of(turn.contexts.begin(), turn.contexts.end(), is_blank)) continue;
    Joined context;
    context.add("context");
    for (const Paragraph& paragraph : turn.contexts) context.add(paragraph.text);
    out.push_back(context.hash());
  }
  out.push_back(questions.hash());
  std::sort(out.begin(), out.end());
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

DialogueHashes hashes_of(std::string_view json) {
  if (json.empty()) return {};
  DialogueHashes out{hash_text(json), ""};
  try {
    const Dialogue dialogue = parse_dialogue(json, "dialogue");
    if (std::all_of(dialogue.turns.begin(), dialogue.turns.end(), lacks_text)) return {};
    out.texts = join(text_hashes(dialogue), " ");
  } catch (const Error&) {  // no dialogue of this program
  }
  return out;
}

}  // namespace turnbench
