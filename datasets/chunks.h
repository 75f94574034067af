#pragma once

#include <span>
#include <string>
#include <vector>

#include "common/random.h"
#include "datasets/longbench.h"

namespace turnbench {

/// A record whose context is split into paragraphs.
struct SourceDocument {
  const LongBenchRecord* record = nullptr;
  std::vector<std::string> paragraphs;
  std::vector<std::size_t> lengths;  ///< of the paragraphs, in words (characters for Chinese)
};

std::vector<SourceDocument> split_documents(const LongBenchTask& task,
                                            std::span<const LongBenchRecord> records);

/// Consecutive paragraphs [first, last) of a document.
struct Chunk {
  const SourceDocument* document = nullptr;
  std::size_t first = 0, last = 0;
  std::size_t part = 1, parts = 1;  ///< number of this chunk among the document's, from 1

  /// "RECORD#FIRST-LAST"; paragraphs are numbered from 1.
  std::string source() const;
};

/// Cuts the whole document into `parts` chunks at random places.  Each has at least half of the
/// paragraphs of an even split.  The document must have at least `parts` paragraphs.
std::vector<Chunk> cut_at_random(const SourceDocument& document, std::size_t parts, Random& random);

/// Appends the paragraphs of a chunk to `contexts`.  `heading`, unless empty, becomes a line before
/// the first paragraph.
void append_chunk(std::vector<Paragraph>& contexts, const Chunk& chunk, std::string_view heading);

}  // namespace turnbench
