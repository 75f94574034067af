#include "methods/parts/episodes.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>

#include "methods/parts/kmeans.h"
#include "methods/parts/kmeans_plus_plus.h"
#include "methods/parts/segments.h"

namespace turnbench {
namespace {

constexpr int kRuns = 10;  // scikit-learn's KMeans(n_init=10)
constexpr int kMaxIterations = 300;

/// Ranges of a text that belong to the conversation; one range if its spans are unknown.
std::vector<Utterance> conversation_ranges(const DialogueView& dialogue) {
  const auto tokens = static_cast<std::int32_t>(compressed_text(dialogue).size());
  const auto spans = dialogue.prompt.empty() ? dialogue.spans : dialogue.prompt_spans;
  if (spans.empty()) return {{0, tokens}};
  std::vector<Utterance> out;
  for (const Span& span : spans) {
    if (span.begin >= tokens) break;
    const bool earlier = span.turn < dialogue.turn;
    if (span.kind == SpanKind::kContext || (span.kind == SpanKind::kQuestion && earlier) ||
        (span.kind == SpanKind::kAnswer && earlier))
      out.push_back({span.begin, std::min(span.end, tokens)});
  }
  return out;
}

/// Appends parts of at most kLongUtterance tokens that end where `ends` holds for their last token.
template <typename Ends>
void divide(Utterance range, const Ends& ends, std::vector<Utterance>& out) {
  std::int32_t begin = range.begin;
  for (std::int32_t i = range.begin; i < range.end; ++i) {
    if (!ends(i) && i + 1 < range.end && i + 1 - begin < kLongUtterance) continue;
    out.push_back({begin, i + 1});
    begin = i + 1;
  }
}

/// Adds the embeddings of tokens to `sum`.
void add_embeddings(const DialogueView& dialogue, std::span<const int> tokens,
                    std::vector<double>& sum) {
  for (const int token : tokens) {
    const std::vector<float> row = dialogue.embedding(token);
    sum.resize(row.size());
    for (std::size_t i = 0; i < row.size(); ++i) sum[i] += static_cast<double>(row[i]);
  }
}

/// The direction of a sum of embeddings, which is that of their mean.
std::vector<float> direction(const std::vector<double>& sum) {
  const double norm = std::sqrt(std::inner_product(sum.begin(), sum.end(), sum.begin(), 0.0));
  std::vector<float> out;
  for (const double x : sum) out.push_back(static_cast<float>(norm == 0 ? 0 : x / norm));
  return out;
}

double inner_product(const float* a, const float* b, std::size_t size) {
  double out = 0;
  for (std::size_t i = 0; i < size; ++i)
    out += static_cast<double>(a[i]) * static_cast<double>(b[i]);
  return out;
}

Clusters best_clusters(MatrixView<const float> rows, int clusters) {
  Clusters best;
  for (int run = 0; run < kRuns; ++run) {
    Random random = Random::from({seed_of("epicache"), static_cast<std::uint64_t>(run)});
    Clusters found = k_means(rows, k_means_plus_plus(rows, clusters, random), kMaxIterations);
    if (run == 0 || found.inertia < best.inertia) best = std::move(found);
  }
  return best;
}

}  // namespace

std::vector<Utterance> utterances(const DialogueView& dialogue) {
  const std::span<const int> tokens = compressed_text(dialogue);
  std::vector<Utterance> out;
  if (!dialogue.token_text) {
    for (const Utterance range : conversation_ranges(dialogue))
      divide(
          range, [](std::int32_t) { return false; }, out);
    return out;
  }
  const auto text = [&](std::int32_t i) { return dialogue.token_text(tokens[i]); };
  const auto add_line = [&](Utterance line) {
    bool blank = true;
    for (std::int32_t i = line.begin; i < line.end && blank; ++i)
      blank = text(i).find_first_not_of(" \t\r\n") == std::string::npos;
    if (blank) return;
    if (line.end - line.begin <= kLongUtterance) {
      out.push_back(line);
    } else {
      divide(
          line, [&](std::int32_t i) { return ends_segment(text(i), Cut::kSentence); }, out);
    }
  };
  for (const Utterance range : conversation_ranges(dialogue)) {
    std::int32_t begin = range.begin;
    for (std::int32_t i = range.begin; i < range.end; ++i) {
      if (text(i).find('\n') == std::string::npos && i + 1 < range.end) continue;
      add_line({begin, i + 1});
      begin = i + 1;
    }
  }
  return out;
}

std::vector<Episode> find_episodes(const DialogueView& dialogue, const EpisodeSettings& settings) {
  const std::span<const int> tokens = compressed_text(dialogue);
  const std::vector<Utterance> all = utterances(dialogue);
  std::vector<std::vector<Utterance>> windows;
  std::vector<float> embeddings;  // [windows][hidden]
  for (std::size_t first = 0; first < all.size(); first += settings.utterances) {
    const std::size_t end =
        std::min(all.size(), first + static_cast<std::size_t>(settings.utterances));
    windows.emplace_back(all.begin() + static_cast<std::ptrdiff_t>(first),
                         all.begin() + static_cast<std::ptrdiff_t>(end));
    std::vector<double> sum;
    for (const Utterance& u : windows.back())
      add_embeddings(dialogue, tokens.subspan(u.begin, u.end - u.begin), sum);
    const std::vector<float> embedding = direction(sum);
    embeddings.insert(embeddings.end(), embedding.begin(), embedding.end());
  }
  if (windows.empty()) return {};
  const std::size_t hidden = embeddings.size() / windows.size();
  const int clusters = std::min(settings.episodes, static_cast<int>(windows.size()));
  const Clusters found = best_clusters(
      {embeddings.data(), std::ssize(windows), static_cast<std::int64_t>(hidden)}, clusters);
  std::vector<Episode> out(static_cast<std::size_t>(clusters));
  for (std::size_t e = 0; e < out.size(); ++e) {
    const float* centroid = found.centroids.data() + e * hidden;
    out[e].centroid.assign(centroid, centroid + hidden);
    // All embeddings have length 1, so the inner product orders them as the cosine does.
    std::vector<std::pair<double, std::size_t>> own;
    for (std::size_t w = 0; w < windows.size(); ++w) {
      if (found.labels[w] == static_cast<std::int32_t>(e))
        own.emplace_back(-inner_product(&embeddings[w * hidden], centroid, hidden), w);
    }
    std::sort(own.begin(), own.end());
    own.resize(std::min(own.size(), static_cast<std::size_t>(settings.medoids)));
    std::sort(own.begin(), own.end(), [](auto& a, auto& b) { return a.second < b.second; });
    for (const auto& [product, w] : own) out[e].medoids.push_back(windows[w]);
  }
  return out;
}

std::size_t match_episode(const DialogueView& dialogue, const std::vector<Episode>& episodes) {
  std::vector<double> sum;
  add_embeddings(dialogue, dialogue.question, sum);
  const std::vector<float> question = direction(sum);
  std::size_t best = 0;
  double most = 0;
  for (std::size_t e = 0; e < episodes.size(); ++e) {
    const double product =
        question.empty()
            ? 0
            : inner_product(question.data(), episodes[e].centroid.data(), question.size());
    if (e > 0 && product <= most) continue;
    best = e;
    most = product;
  }
  return best;
}

}  // namespace turnbench
