#include <algorithm>

#include "common/error.h"
#include "methods/segments.h"
#include "methods/snapkv.h"

namespace turnbench {
namespace {

class SentenceSelection : public SelectionPolicy {
 public:
  struct Settings {
    Budget budget;
    double factor;
    int sinks, recent, short_sentence;
  };
  explicit SentenceSelection(const Settings& s) : s_(s) {}
  std::unique_ptr<SelectionPolicy> clone() const override {
    return std::make_unique<SentenceSelection>(*this);
  }

  void after_prefill(const LayerView& view) override {
    layers_.resize(static_cast<std::size_t>(view.shape.layers));
    if (view.layer == 0) segments_ = segments(view.dialogue, Cut::kSentence, "sentencekv");
    Layer& layer = layers_[static_cast<std::size_t>(view.layer)];
    layer = {};
    for (const KvHeadCache& set : view.sets) {
      const int n = set.size();
      Index& index = layer.sets.emplace_back();
      index.budget = budget(view.prompt_tokens, n);
      const std::vector<int> of = slot_segments(segments_, set, n);
      for (int begin = 0, j = 1; j <= n; ++j) {
        const auto at = static_cast<std::size_t>(j);
        if (j < n && of[at] == of[at - 1]) continue;
        index.sentences.push_back(summary(set, begin, j));
        begin = j;
      }
      index.begin = n;
      index.query.assign(static_cast<std::size_t>(view.shape.head_dim), 0.0f);
    }
  }

  Selection select(const LayerView& view) override {
    Layer& layer = layers_[static_cast<std::size_t>(view.layer)];
    ++layer.length;
    for (std::size_t i = 0; i < view.sets.size(); ++i) {
      for (int h = 0; h < view.heads_per_set(); ++h) {
        const auto q = view.stats.query(static_cast<int>(i) * view.heads_per_set() + h, 0);
        for (std::size_t d = 0; d < q.size(); ++d) layer.sets[i].query[d] += q[d];
      }
    }
    // As in the official code, a sentence ends before its last step selects: that step has a
    // sentence of no tokens, the next one of one token.
    const int token = view.dialogue.tokens.back();
    if (ends_segment(view.dialogue.token_text(token), Cut::kSentence)) finish(layer, view);
    Selection out;
    for (std::size_t i = 0; i < view.sets.size(); ++i) {
      const Index& index = layer.sets[i];
      const int n = view.sets[i].size();
      const bool whole = layer.length <= s_.short_sentence || n <= index.budget;
      out.slots.push_back(whole ? all_slots(n) : read(index, n));
    }
    return out;
  }

 private:
  struct Sentence {
    int begin, end;           // slots
    std::vector<float> mean;  // key
  };
  struct Index {
    int budget = 0;
    std::vector<Sentence> sentences;
    int begin = 0;             // of the sentence that is being written
    std::vector<float> query;  // sum over its tokens: ranks as the mean does
  };
  struct Layer {
    std::vector<Index> sets;
    int length = 0;  // tokens of the sentence that is being written
  };

  /// B, for a dialogue of so many prompt tokens, of which the pool is what stayed.
  int budget(int prompt_tokens, int pool) const {
    const int out = s_.budget.tokens(prompt_tokens);
    if (out < s_.sinks + s_.recent && out < pool) {
      throw input_error(
          "sentencekv: found a budget of {} tokens, expected at least sinks + recent "
          "= {}",
          out, s_.sinks + s_.recent);
    }
    return out;
  }

  static Sentence summary(const KvHeadCache& set, int begin, int end) {
    const auto head_dim = static_cast<std::size_t>(set.layout().head_dim);
    std::vector<float> key(head_dim), mean(head_dim, 0.0f);
    for (int j = begin; j < end; ++j) {
      set.read_key(j, key.data());
      for (std::size_t d = 0; d < head_dim; ++d) mean[d] += key[d];
    }
    for (float& x : mean) x /= static_cast<float>(end - begin);
    return {begin, end, std::move(mean)};
  }

  /// First and last tokens, and between them the sentences nearest to the query, until B is full.
  /// A share of a short prompt may be less than the first and last tokens, which may overlap.
  std::vector<std::int32_t> read(const Index& index, int n) const {
    const int sinks = std::min(s_.sinks, n), end = std::max(sinks, n - s_.recent);
    std::vector<float> nearness;
    for (const Sentence& s : index.sentences) {
      float dot = 0;
      for (std::size_t d = 0; d < s.mean.size(); ++d) dot += index.query[d] * s.mean[d];
      nearness.push_back(dot);
    }
    std::vector<std::int32_t> out = all_slots(sinks);
    int room = index.budget - s_.sinks - s_.recent;
    for (std::int32_t k : ranking(nearness)) {
      const Sentence& s = index.sentences[static_cast<std::size_t>(k)];
      // The official code compares strictly: the slot behind the first tokens is not retrieved.
      for (int j = std::max(s.begin, sinks + 1); j < std::min(s.end, end) && room > 0; ++j) {
        out.push_back(j);
        --room;
      }
    }
    std::sort(out.begin(), out.end());
    return with_tail(std::move(out), end, n);
  }

  /// The sentence that was being written can be retrieved from now on.
  static void finish(Layer& layer, const LayerView& view) {
    layer.length = 0;
    for (std::size_t i = 0; i < layer.sets.size(); ++i) {
      Index& index = layer.sets[i];
      index.sentences.push_back(summary(view.sets[i], index.begin, view.sets[i].size()));
      index.begin = view.sets[i].size();
      std::fill(index.query.begin(), index.query.end(), 0.0f);
    }
  }

  Settings s_;
  std::vector<int> segments_;  // sentence of each token of the dialogue
  std::vector<Layer> layers_;
};

}  // namespace

/// SnapKV keeps a pool of r B tokens; each decode step reads the sentences of it whose mean key is
/// nearest to the mean query of the sentence that is being written.
MethodInfo sentencekv() {
  using Kind = ParameterInfo::Kind;
  return {
      .name = "sentencekv",
      .summary = "keeps a pool of the prompt and reads the sentences nearest to what is written",
      .paper =
          "Zhu et al., SentenceKV: Efficient LLM Inference via Sentence-Level Semantic KV Caching, "
          "2025",
      .budget_unit =
          "tokens read per set and step, first and recent ones included; semantic_factor times as "
          "many prompt tokens stay cached, generated ones on top",
      .deviations =
          "a sentence ends behind any token whose text ends in . ! ? or an empty line, merged "
          "tokens included; sets per KV head rank by the mean query of their heads "
          "(gran=query_head is the official code's)",
      .parameters = and_also(
          window_parameters("1024", "32", "7"),
          {{"semantic_factor", Kind::kNumber, "3", "", "cached tokens per token read", 1, 1000},
           {"sinks", Kind::kInteger, "32", "tokens", "first tokens that are always read"},
           {"recent", Kind::kInteger, "32", "tokens", "most recent tokens that are always read", 1},
           {"length_threshold", Kind::kInteger, "1", "tokens",
            "a sentence so short reads the whole pool"}}),
      .make = [](const Parameters& p) {
        WindowSettings pool = window_settings("sentencekv", p);
        const SentenceSelection::Settings settings{p.budget("budget"), p.number("semantic_factor"),
                                                   p.integer("sinks"), p.integer("recent"),
                                                   p.integer("length_threshold")};
        if (!settings.budget.is_ratio && settings.budget.value < settings.sinks + settings.recent) {
          throw input_error(
              "sentencekv: found a budget of {}, {} first and {} recent tokens, expected a larger "
              "budget",
              settings.budget.value, settings.sinks, settings.recent);
        }
        pool.budget.mean.value *= settings.factor;
        Policies out;
        out.eviction = make_snapkv(pool);
        out.selection = std::make_unique<SentenceSelection>(settings);
        return out;
      }};
}

}  // namespace turnbench
