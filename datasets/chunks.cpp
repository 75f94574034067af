#include "datasets/chunks.h"

#include <algorithm>

#include "common/error.h"
#include "common/text.h"

namespace turnbench {

std::vector<SourceDocument> split_documents(const LongBenchTask& task,
                                            std::span<const LongBenchRecord> records) {
  std::vector<SourceDocument> out;
  for (const LongBenchRecord& record : records) {
    SourceDocument document{&record, split_context(record.context, task.layout), {}};
    for (const std::string& text : document.paragraphs) {
      document.lengths.push_back(task.language == "zh" ? to_code_points(text).size()
                                                       : count_words(text));
    }
    out.push_back(std::move(document));
  }
  return out;
}

std::string Chunk::source() const {
  return fmt::format("{}#{}-{}", document->record->id, first + 1, last);
}

std::vector<Chunk> cut_at_random(const SourceDocument& document, std::size_t parts,
                                 Random& random) {
  const std::size_t n = document.paragraphs.size();
  const std::size_t least = std::max<std::size_t>(1, n / (2 * parts));
  std::vector<std::size_t> shares;  // cuts, ascending, of the paragraphs beyond the minimum shares
  for (std::size_t i = 1; i < parts; ++i) shares.push_back(random.below(n - least * parts + 1));
  std::sort(shares.begin(), shares.end());
  std::vector<Chunk> out;
  std::size_t first = 0;
  for (std::size_t part = 1; part <= parts; ++part) {
    const std::size_t last = part == parts ? n : shares[part - 1] + least * part;
    out.push_back({&document, first, last, part, parts});
    first = last;
  }
  return out;
}

void append_chunk(std::vector<Paragraph>& contexts, const Chunk& chunk, std::string_view heading) {
  const std::string source = chunk.source();
  for (std::size_t i = chunk.first; i < chunk.last; ++i) {
    std::string text = chunk.document->paragraphs[i];
    if (i == chunk.first && !heading.empty()) text = fmt::format("{}\n{}", heading, text);
    contexts.push_back({source, std::move(text)});
  }
}

}  // namespace turnbench
