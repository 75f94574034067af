#include <algorithm>
#include <climits>
#include <numeric>
#include <utility>

#include "common/error.h"
#include "methods/eviction/snapkv.h"
#include "methods/parts/budgeted_eviction.h"
#include "methods/parts/cached_keys.h"
#include "methods/parts/segments.h"

namespace turnbench {
namespace {

// Rows of the official implementation have room for twice the pool's mean sentence length plus a
// margin.
constexpr int kLeastRow = 100, kRowMargin = 50;  // tokens

class SentenceSelection : public Cloned<SentenceSelection, SelectionPolicy> {
 public:
  struct Settings {
    Budget budget;           ///< tokens read
    double semantic_factor;  ///< tokens cached per token read
    int sinks, recent, length_threshold;
    bool cuts_long;  ///< truncates sentences, as in the official implementation
  };
  explicit SentenceSelection(const Settings& s) : s_(s) {}

  /// Splits the kept tokens of the prompt (the pool) into sentences, each with its mean key.  The
  /// official implementation indexes them in rows of equal length.
  void after_prefill(const LayerView& view) override {
    layers_.resize(static_cast<std::size_t>(view.shape.layers));
    if (view.layer == 0) begin_prompt(view);
    Layer& layer = layers_[view.layer];
    layer = {};
    const int sentences = sentence_of_.back() + 1;
    for (const KvHeadCache& set : view.sets) {
      const int n = set.size();
      const auto head_dim = static_cast<std::size_t>(view.shape.head_dim);
      Pool& pool = layer.pools.emplace_back();
      pool.query_sum.assign(head_dim, 0.0f);
      if (s_.cuts_long) pool.longest = std::max(kLeastRow, 2 * (n / sentences) + kRowMargin);
      pool.budget = budget(n);
      const std::vector<float> keys = keys_on_host(*view.backend, set, 0, n);
      for (const auto& sentence : slots_by_segment(sentence_of_, set, n)) {
        const std::int32_t end = sentence.back() + 1;
        add_sentence(std::span(keys).first(static_cast<std::size_t>(end) * head_dim), end,
                     pool.longest, pool);
      }
    }
  }

  /// Queries of the current sentence of the answer, summed -> dot products with the mean keys ->
  /// the nearest sentences, up to the budget.
  Selection select(const LayerView& view) override {
    Layer& layer = layers_[view.layer];
    add_query(view, layer);
    // As in the official implementation, a sentence ends before its last step selects: in this step
    // the current sentence has no tokens, in the next one it has one token.
    const int token = view.dialogue.tokens.back();
    if (ends_segment(view.dialogue.token_text(token), Cut::kSentence)) end_sentence(view, layer);
    Selection out;
    for (std::size_t i = 0; i < view.sets.size(); ++i) {
      const Pool& pool = layer.pools[i];
      const int n = view.sets[i].size();
      const bool whole = layer.length <= s_.length_threshold || n <= pool.budget;
      out.slots.push_back(whole ? all_slots(n) : nearest_sentences(pool, n));
    }
    return out;
  }

 private:
  struct Sentence {
    int begin, end;               // slots
    int retrieved_end;            // end of the slots that can be retrieved
    std::vector<float> mean_key;  // [head_dim], after RoPE
  };
  /// The sentences of one set, and the current sentence after them.
  struct Pool {
    int budget = 0;                   // tokens read per step
    int longest = INT_MAX;            // tokens of a retrievable sentence, at most
    std::vector<Sentence> sentences;  // in order, without gaps
    std::vector<float> query_sum;     // [head_dim]: of the current sentence, all heads
    int end() const { return sentences.empty() ? 0 : sentences.back().end; }
  };
  struct Layer {
    std::vector<Pool> pools;  // [sets]
    int length = 0;           // tokens of the current sentence
  };

  /// With compress=before_question, a prompt ends at the question and again behind it.
  void begin_prompt(const LayerView& view) {
    sentence_of_ = segments(view.dialogue, Cut::kSentence, "sentencekv");
    const bool goes_on =
        turn_ == view.dialogue.turn && view.first_position > 0 && end_ == view.first_position;
    if (!goes_on) shared_ = view.prompt_tokens;
    turn_ = view.dialogue.turn;
    end_ = view.first_position + view.rows;
  }

  /// B for a dialogue of which `pool` prompt tokens are cached.
  int budget(int pool) const {
    const int out = s_.budget.tokens(shared_), least = s_.sinks + s_.recent;
    if (out < least && out < pool && shared_ > least) {
      throw input_error(
          "sentencekv: found a budget of {} tokens, expected at least sinks + recent = {}", out,
          least);
    }
    return out;
  }

  /// Adds the slots after the last sentence, up to `end`, as a sentence with their mean key.  Its
  /// first `retrieved` slots can be retrieved.  keys: [slots, head_dim], whose last rows are those
  /// of these slots.
  static void add_sentence(std::span<const float> keys, int end, int retrieved, Pool& pool) {
    const int begin = pool.end();
    const std::size_t head_dim = pool.query_sum.size(),
                      floats = static_cast<std::size_t>(end - begin) * head_dim;
    std::vector<float> mean(head_dim, 0.0f);
    for (const float* key = keys.data() + keys.size() - floats; key != keys.data() + keys.size();
         key += head_dim) {
      for (std::size_t d = 0; d < head_dim; ++d) mean[d] += key[d];
    }
    for (float& x : mean) x /= static_cast<float>(end - begin);
    pool.sentences.push_back(
        {begin, end, begin + std::min(end - begin, retrieved), std::move(mean)});
  }

  /// Adds the step's queries to the sums of their sets.  Sums rank sentences in the same order as
  /// means.
  static void add_query(const LayerView& view, Layer& layer) {
    ++layer.length;
    for (int h = 0; h < view.shape.heads; ++h) {
      Pool& pool = layer.pools[h / view.heads_per_set()];
      const std::vector<float> q = view.stats.queries(h, 0, 1);  // [head_dim]
      for (std::size_t d = 0; d < q.size(); ++d) pool.query_sum[d] += q[d];
    }
  }

  /// Makes the current sentence retrievable, unless it is too long for the index of the official
  /// implementation.
  static void end_sentence(const LayerView& view, Layer& layer) {
    layer.length = 0;
    for (std::size_t i = 0; i < layer.pools.size(); ++i) {
      Pool& pool = layer.pools[i];
      const int end = view.sets[i].size();
      add_sentence(keys_on_host(*view.backend, view.sets[i], pool.end(), end), end,
                   end - pool.end() > pool.longest ? 0 : pool.longest, pool);
      std::fill(pool.query_sum.begin(), pool.query_sum.end(), 0.0f);
    }
  }

  /// The first and the last tokens, and between them those of the nearest sentences, until the
  /// budget is full.  A ratio budget of a short prompt may be smaller than the first and last
  /// tokens together, which may overlap.
  std::vector<std::int32_t> nearest_sentences(const Pool& pool, int n) const {
    const int sinks = std::min(s_.sinks, n), recent_begin = std::max(sinks, n - s_.recent);
    std::vector<float> nearness;  // [sentences]
    for (const Sentence& sentence : pool.sentences) {
      nearness.push_back(std::inner_product(pool.query_sum.begin(), pool.query_sum.end(),
                                            sentence.mean_key.begin(), 0.0f));
    }
    std::vector<std::int32_t> out = all_slots(sinks);
    int room = pool.budget - s_.sinks - s_.recent;  // tokens left to retrieve
    for (std::int32_t k : ranking(nearness)) {
      const Sentence& sentence = pool.sentences[k];
      // The official implementation compares strictly: the slot right after the first tokens is not
      // retrieved.
      const int begin = std::max(sentence.begin, sinks + 1);
      for (int j = begin; j < std::min(sentence.retrieved_end, recent_begin) && room > 0; ++j) {
        out.push_back(j);
        --room;
      }
    }
    std::sort(out.begin(), out.end());
    return with_tail(std::move(out), recent_begin, n);
  }

  Settings s_;
  int turn_ = -1, end_ = 0, shared_ = 0;  // of a prompt; a ratio budget is a share of `shared_`
  std::vector<int> sentence_of_;          // of each token of the dialogue
  std::vector<Layer> layers_;
};

}  // namespace

/// SnapKV (snapkv.cpp) keeps a pool of semantic_factor times the budget.  From this pool, each
/// decode step reads the first and the last tokens, and the sentences whose mean key has the
/// largest dot product with the mean query of the current sentence (Zhu et al., 2025; details as in
/// the official implementation).
MethodInfo sentencekv() {
  using Kind = ParameterInfo::Kind;
  std::vector<ParameterInfo> pool = window_parameters("1024", "32", "7");
  pool.front().description =
      "tokens read per set and step; semantic_factor times as many are cached";
  return {
      .name = "sentencekv",
      .summary =
          "keeps a part of the prompt (the pool) and reads the sentences most similar to the one "
          "being generated",
      .paper =
          "Zhu et al., SentenceKV: Efficient LLM Inference via Sentence-Level Semantic KV Caching, "
          "2025",
      .budget_unit =
          "tokens read per set and step, first and recent ones included; semantic_factor times as "
          "many prompt tokens are cached, and all generated ones",
      .deviations =
          "a sentence ends after any token whose text ends in . ! ? or an empty line, merged "
          "tokens included; a set of a KV head ranks sentences by the mean query of its heads (the "
          "official code has sets per query head: gran=query_head); of a sentence that is longer "
          "than a row of the official index only the tokens in the row can be read, and none if it "
          "is generated; the paper has no such rule (long=whole: all tokens can be read); a "
          "sentence excludes the token directly after the first ones, as in the official code; the "
          "pool of a ratio budget is floor(semantic_factor times the share times the tokens)",
      .parameters = and_also(
          std::move(pool),
          {{"semantic_factor", Kind::kNumber, "3", "", "cached tokens per token read", 1, 1000},
           {"sinks", Kind::kInteger, "32", "tokens", "first tokens, always read"},
           {"recent", Kind::kInteger, "32", "tokens", "most recent tokens, always read", 1},
           {"length_threshold", Kind::kInteger, "1", "tokens",
            "the whole pool is read while the sentence being generated has at most this many "
            "tokens"},
           {"long", Kind::kChoice, "cut", "cut|whole",
            "sentences of more than max(100, 2 (pool / sentences) + 50) tokens; cut: only that "
            "many first tokens can be read, and none of a generated sentence; whole: all tokens"}}),
      .make = [](const Parameters& p) {
        WindowSettings pool = window_settings("sentencekv", p);
        const SentenceSelection::Settings settings{
            p.budget("budget"),  p.number("semantic_factor"),   p.integer("sinks"),
            p.integer("recent"), p.integer("length_threshold"), p.choice("long") == "cut"};
        if (!settings.budget.is_ratio && settings.budget.value < settings.sinks + settings.recent) {
          throw input_error(
              "sentencekv: found a budget of {}, {} first and {} recent tokens, expected a larger "
              "budget",
              settings.budget.value, settings.sinks, settings.recent);
        }
        double& cached = pool.budget.mean.value;  // at most the largest budget: converted to int
        cached = std::min(cached * settings.semantic_factor, 1e9);
        Policies out;
        out.eviction = std::make_unique<BudgetedEviction>(
            BudgetedEviction::Settings{.window = pool, .scorer = snapkv_scorer(p)});
        out.selection = std::make_unique<SentenceSelection>(settings);
        return out;
      }};
}

}  // namespace turnbench
