#pragma once

#include <span>
#include <string>
#include <vector>

#include "common/random.h"
#include "datasets/longbench.h"

namespace turnbench {

/// A record with its context in paragraphs.
struct SourceDocument {
  const LongBenchRecord* record = nullptr;
  std::vector<std::string> paragraphs;
  std::vector<std::size_t> lengths;  ///< of the paragraphs: words, for Chinese characters
};

std::vector<SourceDocument> split_documents(const LongBenchTask& task,
                                            std::span<const LongBenchRecord> records);

/// A stretch of consecutive paragraphs [first, last) of a document.
struct Chunk {
  const SourceDocument* document = nullptr;
  std::size_t first = 0, last = 0;
  std::size_t part = 1, parts = 1;  ///< which of the document's chunks, from 1

  /// "RECORD#FIRST-LAST", paragraphs from 1.
  std::string source() const;
};

/// Cuts the whole document into `parts` chunks at random, none shorter than half of its fair share.
/// The document has at least `parts` paragraphs.
std::vector<Chunk> cut_at_random(const SourceDocument& document, std::size_t parts, Random& random);

/// Appends the paragraphs of a chunk, with `heading` on a line before the first unless it is empty.
void append_chunk(std::vector<Paragraph>& contexts, const Chunk& chunk, std::string_view heading);

}  // namespace turnbench
