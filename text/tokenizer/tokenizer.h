#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace turnbench {

/// Converts between text and token ids, with the same results as the model's own tokenizer: the
/// `tokenizers` package, SentencePiece or tiktoken, depending on the files.  Immutable; threads may
/// share it.
class Tokenizer {
 public:
  struct Options {
    /// If true, the text of a special token ("<|im_end|>") becomes this token; else it is ordinary
    /// text.  Added tokens that are not special are always recognised.
    bool parse_special = false;
    bool add_special = false;  ///< add the tokens of the post-processor (BOS, EOS)
  };

  /// Opens a Hugging Face directory: tokenizer.json, else vocab.json + merges.txt, else
  /// tokenizer.model (SentencePiece or tiktoken), with tokenizer_config.json and
  /// chat_template.jinja.
  /// @throws Error (input), with file and place, for damaged files and unsupported features.
  static Tokenizer open(const std::filesystem::path& directory);
  /// Reads the texts of tokenizer.json and tokenizer_config.json (may be empty).
  static Tokenizer from_json(std::string_view tokenizer, std::string_view config,
                             const std::string& source);

  Tokenizer(Tokenizer&&) noexcept;
  Tokenizer& operator=(Tokenizer&&) noexcept;
  ~Tokenizer();

  /// Encodes a text.  O(n log n) in the length of a word, linear in the number of words.
  /// @throws Error (input) for ill-formed UTF-8.
  std::vector<int> encode(std::string_view text, const Options& options) const;
  /// As above.  `ends` receives for each token the byte offset in `text` at which it ends,
  /// ascending.  If several tokens form one character, or characters that normalization replaces
  /// together, all but the last of them end where these characters begin.
  std::vector<int> encode(std::string_view text, const Options& options,
                          std::vector<std::size_t>& ends) const;

  /// Decodes tokens.  Always returns well-formed UTF-8, with U+FFFD for ill-formed bytes.  Inverts
  /// `encode` for byte-level models, and for SentencePiece's except for U+2581 in the text.
  /// @throws Error (input) for ids outside of the vocabulary.
  std::string decode(std::span<const int> ids, bool skip_special) const;
  /// The bytes of a token in the middle of a text; possibly only a part of a character.
  std::string token_text(int id) const;

  int vocab_size() const;  ///< the largest id + 1
  /// The id of an added token, special or not, by its content.
  std::optional<int> id_of(std::string_view token) const;
  bool is_special(int id) const;
  std::optional<int> bos() const;
  std::optional<int> eos() const;
  /// bos_token, eos_token, unk_token, ... of tokenizer_config.json, as chat templates see them.
  const std::map<std::string, std::string>& named_tokens() const;
  /// The text of chat_template.jinja, else the `chat_template` of tokenizer_config.json (of
  /// several, the one named "default"), else "".
  const std::string& chat_template() const;

 private:
  struct Impl;
  explicit Tokenizer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace turnbench
