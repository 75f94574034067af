#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace turnbench {

/// Text <-> token ids, exactly as the model's own tokenizer does it (the `tokenizers` package,
/// SentencePiece or tiktoken, whichever the files are for).  Immutable: any number of threads may
/// use one object.
class Tokenizer {
 public:
  struct Options {
    /// Text of special tokens ("<|im_end|>") becomes these tokens; otherwise it is ordinary text.
    /// Added tokens that are not special are always recognised.
    bool parse_special = false;
    bool add_special = false;  ///< add what the post-processor adds (BOS, EOS)
  };

  /// From a Hugging Face directory: tokenizer.json, else vocab.json + merges.txt, else
  /// tokenizer.model (SentencePiece or tiktoken), with tokenizer_config.json and
  /// chat_template.jinja beside it.  Refuses damaged files and what is not supported with a line
  /// that names the file and the place.
  static Tokenizer open(const std::filesystem::path& directory);
  /// From the texts of tokenizer.json and tokenizer_config.json (may be empty).
  static Tokenizer from_json(std::string_view tokenizer, std::string_view config,
                             const std::string& source);

  Tokenizer(Tokenizer&&) noexcept;
  Tokenizer& operator=(Tokenizer&&) noexcept;
  ~Tokenizer();

  /// O(n log n) in the longest word, linear in the number of words.  Ill-formed UTF-8 is refused.
  std::vector<int> encode(std::string_view text, const Options& options) const;
  /// The same, with the byte offset in `text` just behind each token's part of it in `ends`
  /// (ascending; a token that is only part of a character, or of characters that normalization
  /// replaces as one, ends where they start, unless it is their last).
  std::vector<int> encode(std::string_view text, const Options& options,
                          std::vector<std::size_t>& ends) const;

  /// The text that the model's decoder makes of the tokens: always well-formed UTF-8, with U+FFFD
  /// where the tokens' bytes are not.  Ids outside the vocabulary are refused.  Inverts `encode`
  /// for byte-level models and, but for a U+2581 in the text, for SentencePiece's.
  std::string decode(std::span<const int> ids, bool skip_special) const;
  /// The bytes of one token as it stands inside a text, perhaps only part of a character.
  std::string token_text(int id) const;

  int vocab_size() const;  ///< one more than the largest id
  std::optional<int> id_of(
      std::string_view token) const;  ///< of a special or added token's content
  bool is_special(int id) const;
  std::optional<int> bos() const;
  std::optional<int> eos() const;
  /// The `chat_template` of tokenizer_config.json (the one named "default" of several), or the
  /// text of chat_template.jinja, or "".
  const std::string& chat_template() const;

 private:
  struct Impl;
  explicit Tokenizer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace turnbench
