#pragma once

#include <vector>

#include "text/tokenizer/chat_template.h"

namespace turnbench {

/// The templates that have a name.  Each writes the same text as the official template of its
/// models, except that the text of a turn never depends on later messages, so that turns can be
/// appended to a KV cache:
/// - Mistral's own templates move the system prompt to the last user message.  Here it stays in the
///   first one, as in Mistral's own tokenizer V1.  The templates of v0.1 and v0.2 and `none` have
///   no system prompt; here it is in the first user message too.
/// - Llama 2's trims the first message together with the preceding system prompt, so that white
///   space between them remains.  Here the message is always trimmed.
std::vector<ChatTemplate> known_chat_templates();

}  // namespace turnbench
