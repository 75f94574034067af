#include "text/tokenizer/known_chat_templates.h"

namespace turnbench {
namespace {

/// Removes the system prompt from the messages: sets `system`, and `content` to its text if there
/// is one.
constexpr const char* kTakeSystem =
    "{% if messages[0].role == 'system' %}{% set content = messages[0].content %}"
    "{% set system = true %}{% set messages = messages[1:] %}{% endif %}";

ChatTemplate llama3(std::string name, const std::string& system) {
  return {.name = std::move(name),
          .text = "<|begin_of_text|>" + system +
                  "{% for m in messages %}<|start_header_id|>{{ m.role }}<|end_header_id|>\n\n"
                  "{{ m.content | trim }}<|eot_id|>{% endfor %}{% if add_generation_prompt %}"
                  "<|start_header_id|>assistant<|end_header_id|>\n\n{% endif %}",
          .stops = {"<|eot_id|>", "<|eom_id|>", "<|end_of_text|>"}};
}

ChatTemplate llama3_dated(std::string name) {
  return llama3(
      std::move(name),
      std::string(kTakeSystem) +
          "<|start_header_id|>system<|end_header_id|>\n\nCutting Knowledge Date: December "
          "2023\nToday Date: {{ strftime_now('%d %b %Y') }}\n\n"
          "{{ content | trim if system }}<|eot_id|>");
}

/// `begin`: text before messages without a system prompt.  `answer`: text of an answer.  `cue`:
/// text at the end of the generation prompt.
ChatTemplate chatml(std::string name, const std::string& begin,
                    const std::string& answer = "m.content", const std::string& cue = "") {
  return {.name = std::move(name),
          .text = "{% if messages[0].role != 'system' %}" + begin +
                  "{% endif %}{% for m in messages %}<|im_start|>{{ m.role }}\n"
                  "{{ " +
                  answer +
                  " if m.role == 'assistant' else m.content }}<|im_end|>\n"
                  "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n" +
                  cue + "{% endif %}",
          .stops = {"<|im_end|>", "<|endoftext|>"}};
}

ChatTemplate qwen2(std::string name, const std::string& default_system) {
  return chatml(std::move(name), "<|im_start|>system\n" + default_system + "<|im_end|>\n");
}

ChatTemplate qwen3(std::string name, const std::string& cue) {
  return chatml(std::move(name), "",
                "(m.content.split('</think>')[-1].lstrip('\\n') if '</think>' in m.content else "
                "m.content)",
                cue);
}

/// `before` and `after`: the text around a user message.  `answer`: text of an answer.
ChatTemplate mistral(std::string name, const std::string& before, const std::string& after,
                     const std::string& answer) {
  return {.name = std::move(name),
          .text = std::string("<s>") + kTakeSystem +
                  "{% for m in messages %}{% if m.role == 'user' %}" + before +
                  "{{ content + '\\n\\n' if system and loop.first }}{{ m.content }}" + after +
                  "{% else %}" + answer + "{% endif %}{% endfor %}",
          .stops = {"</s>"}};
}

ChatTemplate llama2() {
  return {.name = "llama2",
          .text = std::string(kTakeSystem) +
                  "{% for m in messages %}{% if m.role == 'user' %}<s>[INST] "
                  "{{ '<<SYS>>\\n' + content + '\\n<</SYS>>\\n\\n' if system and loop.first }}"
                  "{{ m.content.strip() }} [/INST]"
                  "{% else %} {{ m.content.strip() }} </s>{% endif %}{% endfor %}",
          .stops = {"</s>"}};
}

/// Questions and answers contain the number of the turn.
ChatTemplate tiny() {
  return {.name = "tiny",
          .text =
              "<bos>{% for m in messages %}{% if m.role == 'user' %}"
              "{{ m.content }}{{ '\\n' }}<a{{ loop.index0 // 2 % 16 + 1 }}>"
              "{% elif m.role == 'assistant' %} {{ m.content }}<eos>"
              "{% else %}{{ raise_exception('tiny knows no ' + m.role + ' messages') }}"
              "{% endif %}{% endfor %}",
          .stops = {"<eos>"},
          .paragraph_prefix = "\n ",
          .question_begin = "\n<q{n}> ",
          .prefixes_first_piece = true};
}

/// No markup: turns are paragraphs.
ChatTemplate none() {
  return {.name = "none",
          .text =
              "{% for m in messages %}{{ m.content }}{{ '\\n\\n' if m.role != 'user' }}"
              "{% endfor %}"};
}

}  // namespace

std::vector<ChatTemplate> known_chat_templates() {
  const std::string plain = "{{ m.content }}";
  std::vector<ChatTemplate> out = {
      none(),
      llama2(),
      llama3("llama3", ""),
      llama3_dated("llama3.1"),
      llama3_dated("llama3.2"),
      chatml("chatml", ""),
      qwen2("qwen2", "You are a helpful assistant."),
      qwen2("qwen2.5", "You are Qwen, created by Alibaba Cloud. You are a helpful assistant."),
      qwen3("qwen3", ""),
      qwen3("qwen3-no-thinking", "<think>\n\n</think>\n\n"),
      mistral("mistral-v0.1", "[INST] ", " [/INST]", plain + "</s> "),
      mistral("mistral", "[INST] ", " [/INST]", plain + "</s>"),
      mistral("mistral-v0.3", "[INST] ", "[/INST]", " {{ m.content.strip() }}</s>"),
      mistral("mistral-nemo", "[INST]", "[/INST]", plain + "</s>"),
      tiny()};
  for (ChatTemplate& chat : out) chat.source = "chat template " + chat.name;
  return out;
}

}  // namespace turnbench
