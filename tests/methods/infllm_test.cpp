// InfLLM against a reference in double precision that knows nothing of caches, and full attention.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "common/error.h"
#include "methods/method.h"
#include "tests/inference/conversation.h"
#include "tests/methods/plain_decoder.h"

namespace turnbench {
namespace {

using namespace test;
using Ints = std::vector<int>;

struct PlainSettings {
  int sinks, block, local, topk, representatives, rows;
  bool by_head;

  std::string spec() const {
    return fmt::format("infllm:init={},block={},local={},topk={},repr={},exc={},perhead={}", sinks,
                       block, local, topk, representatives, rows, by_head);
  }
};

/// The indices of the k greatest scores, of equal ones the first, ascending.  closest: how near the
/// best score that is left out comes to the worst that is not.
Ints greatest(const Row& scores, int k, double& closest) {
  Ints order(scores.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
    return scores[static_cast<std::size_t>(a)] > scores[static_cast<std::size_t>(b)];
  });
  const auto count = static_cast<std::size_t>(k);
  if (count < order.size()) {
    if (count > 0)
      closest = std::min(closest, scores[static_cast<std::size_t>(order[count - 1])] -
                                      scores[static_cast<std::size_t>(order[count])]);
    order.resize(count);
  }
  std::sort(order.begin(), order.end());
  return order;
}

/// A layer by the book: every token with its key before RoPE, and where it is.
class PlainInfLlm {
 public:
  PlainInfLlm(const PlainDecoder& decoder, const PlainSettings& s) : decoder_(decoder), s_(s) {}

  std::vector<Row> attend(const PlainRows& rows) {
    std::vector<Row> out;
    for (std::size_t at = 0; at < rows.queries.size(); at += static_cast<std::size_t>(s_.rows)) {
      const std::size_t end = std::min(rows.queries.size(), at + static_cast<std::size_t>(s_.rows));
      attend_block(rows, at, end, out);
    }
    return out;
  }

  double closest = INFINITY;  ///< see greatest
  std::size_t blocks() const { return representatives_.size(); }

 private:
  static double dot(const Row& a, const Row& b) {
    return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
  }
  Row head_of(const Row& x, int head) const {
    const auto at = x.begin() + std::ptrdiff_t{head} * decoder_.config.head_dim;
    return {at, at + decoder_.config.head_dim};
  }
  int heads() const { return decoder_.config.heads; }
  int set_of(int head) const { return head / decoder_.config.group(); }
  int first_loose() const { return sinks_ + static_cast<int>(representatives_.size()) * s_.block; }

  void attend_block(const PlainRows& rows, std::size_t from, std::size_t end,
                    std::vector<Row>& out) {
    const int first = rows.first + static_cast<int>(from), count = static_cast<int>(end - from);
    for (std::size_t r = from; r < end; ++r) {
      keys_.push_back(rows.keys[r]);
      values_.push_back(rows.values[r]);
      masses_.emplace_back(static_cast<std::size_t>(heads()), 0.0);
    }
    std::vector<std::vector<Row>> far(static_cast<std::size_t>(heads()));  // [head][row]
    std::vector<Row> means;
    for (int h = 0; h < heads(); ++h) {
      Row mean(static_cast<std::size_t>(decoder_.config.head_dim), 0.0);
      for (std::size_t r = from; r < end; ++r) {
        far[static_cast<std::size_t>(h)].push_back(
            decoder_.rotated(head_of(rows.queries[r], h), s_.local - 1));
        for (std::size_t d = 0; d < mean.size(); ++d)
          mean[d] += far[static_cast<std::size_t>(h)].back()[d] / count;
      }
      means.push_back(mean);
    }
    const std::vector<Ints> chosen = choose(means);
    for (int r = 0; r < count; ++r) {
      const int position = first + r;
      Row mixed;
      for (int h = 0; h < heads(); ++h) {
        const Row near = decoder_.rotated(
            head_of(rows.queries[from + static_cast<std::size_t>(r)], h), position);
        const Row value =
            attend_row(near, far[static_cast<std::size_t>(h)][static_cast<std::size_t>(r)],
                       position, h, chosen[static_cast<std::size_t>(h)]);
        mixed.insert(mixed.end(), value.begin(), value.end());
      }
      out.push_back(mixed);
    }
    leave();
  }

  std::vector<Ints> choose(const std::vector<Row>& means) {
    std::vector<Row> scores(static_cast<std::size_t>(heads()));
    for (std::size_t h = 0; h < scores.size(); ++h) {
      for (const std::vector<Row>& block : representatives_)
        scores[h].push_back(dot(means[h], block[h]));
    }
    std::vector<Ints> out;
    if (!s_.by_head) {
      Row sums(representatives_.size(), 0.0);
      for (const Row& of_head : scores) {
        for (std::size_t b = 0; b < sums.size(); ++b) sums[b] += of_head[b];
      }
      out.assign(scores.size(), greatest(sums, s_.topk, closest));
      return out;
    }
    for (const Row& of_head : scores) out.push_back(greatest(of_head, s_.topk, closest));
    return out;
  }

  Row attend_row(const Row& near, const Row& far, int position, int head, const Ints& chosen) {
    const double scale = 1 / std::sqrt(static_cast<double>(decoder_.config.head_dim));
    std::vector<std::pair<int, double>> seen;  // token, logit
    for (int j = 0; j <= position; ++j) {
      const Row key = head_of(keys_[static_cast<std::size_t>(j)], set_of(head));
      if (position - j < s_.local) {
        seen.emplace_back(j, scale * dot(near, decoder_.rotated(key, j)));
        continue;
      }
      const bool is_read = j < sinks_ || j >= first_loose() ||
                           std::count(chosen.begin(), chosen.end(), (j - sinks_) / s_.block) > 0;
      if (is_read) seen.emplace_back(j, scale * dot(far, key));
    }
    double top = -INFINITY, sum = 0;
    for (const auto& [j, logit] : seen) top = std::max(top, logit);
    for (auto& [j, logit] : seen) sum += logit = std::exp(logit - top);
    Row out(static_cast<std::size_t>(decoder_.config.head_dim), 0.0);
    for (const auto& [j, weight] : seen) {
      const auto token = static_cast<std::size_t>(j);
      const Row value = head_of(values_[token], set_of(head));
      for (std::size_t d = 0; d < out.size(); ++d) out[d] += weight / sum * value[d];
      if (position - j < s_.local) masses_[token][static_cast<std::size_t>(head)] += weight / sum;
    }
    return out;
  }

  /// Tokens that have left the window become sinks, then blocks.
  void leave() {
    const int tokens = static_cast<int>(keys_.size());
    while (sinks_ < s_.sinks && representatives_.empty() && tokens - sinks_ > s_.local) ++sinks_;
    while (tokens - first_loose() - s_.block >= s_.local) {
      std::vector<Row> block;
      for (int h = 0; h < heads(); ++h) {
        Row masses;
        for (int i = 0; i < s_.block; ++i)
          masses.push_back(
              masses_[static_cast<std::size_t>(first_loose() + i)][static_cast<std::size_t>(h)]);
        Row mean(static_cast<std::size_t>(decoder_.config.head_dim), 0.0);
        const Ints best = greatest(masses, s_.representatives, closest);
        for (int i : best) {
          const Row key = head_of(keys_[static_cast<std::size_t>(first_loose() + i)], set_of(h));
          for (std::size_t d = 0; d < mean.size(); ++d)
            mean[d] += key[d] / static_cast<double>(best.size());
        }
        block.push_back(mean);
      }
      representatives_.push_back(block);
    }
  }

  const PlainDecoder& decoder_;
  PlainSettings s_;
  std::vector<Row> keys_, values_, masses_;  // [tokens]
  int sinks_ = 0;
  std::vector<std::vector<Row>> representatives_;  // [blocks][heads]
};

// Two turns and their answers: window, sinks, blocks that are chosen and that are not, tokens on
// their way, blocks that fill within an answer.
TEST(InfLlm, IsWhatItsStepsSay) {
  Machine machine("llama3");
  PlainDecoder decoder((kModels / "llama3").string());
  decoder.config.layers = machine.model.config().layers;
  const int first = is_emulated() ? 40 : 90;
  std::vector<PlainSettings> all = {{3, 8, 16, 2, 2, 8, false}};
  if (!is_emulated()) {
    all = {{3, 8, 16, 2, 2, 8, false}, {3, 8, 16, 2, 8, 16, true},  {0, 4, 10, 3, 1, 7, false},
           {5, 6, 7, 1, 3, 1, false},  {2, 5, 30, 1, 2, 30, false}, {8, 16, 4, 100, 4, 4, false},
           {4, 3, 12, 4, 2, 5, true},  {0, 1, 2, 8, 1, 2, false}};
  }
  for (const PlainSettings& s : all) {
    SCOPED_TRACE(s.spec());
    std::vector<PlainInfLlm> layers(static_cast<std::size_t>(decoder.config.layers),
                                    PlainInfLlm(decoder, s));
    decoder.attention = [&](const PlainRows& rows) {
      return layers[static_cast<std::size_t>(rows.layer)].attend(rows);
    };
    std::vector<PlainSets> unused(layers.size(), PlainSets(2));
    int tokens = 0;
    const auto want = [&](std::span<const int> said) {
      const Row logits =
          decoder.forward(unused, said, tokens, [](int, PlainSets&, const Attention&) {});
      tokens += static_cast<int>(said.size());
      return Logits(logits.begin(), logits.end());
    };
    Conversation c(machine.engine, Method::parse(s.spec()).make());
    const auto closest = [&] {
      double out = INFINITY;
      for (const PlainInfLlm& layer : layers) out = std::min(out, layer.closest);
      return out;
    };
    for (int turn = 0; turn < 2; ++turn) {
      const std::vector<int> prompt =
          made_up_tokens(turn == 0 ? first : 21, static_cast<std::uint64_t>(turn));
      const Logits wanted = want(prompt);
      ASSERT_LE(test::distance(c.turn(prompt), wanted), 2e-5)
          << "turn " << turn << ", closest scores " << closest();
      int step = 0;
      for (const int token : made_up_tokens(is_emulated() ? 10 : 20, 7)) {
        const std::array said = {token};
        const Logits next = want(said);
        ASSERT_LE(test::distance(c.answer(token), next), 2e-5)
            << "turn " << turn << ", step " << step << ", closest scores " << closest();
        ++step;
      }
    }
    EXPECT_GT(layers[0].blocks(), 1u);
  }
}

}  // namespace
}  // namespace turnbench
