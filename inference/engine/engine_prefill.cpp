// The part of the engine that prefills prompts of any length: in chunks, or layer by layer.

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "common/error.h"
#include "inference/engine/engine.h"

namespace turnbench {

std::vector<std::vector<float>> Engine::prefill(std::span<const Pass> passes) {
  std::vector<std::vector<float>> logits(passes.size());
  std::vector<std::int64_t> done(passes.size(), 0);
  for (;;) {
    std::vector<Pass> chunk;
    std::vector<std::size_t> of;
    std::int64_t rows = 0;
    bool by_layers = false;
    for (std::size_t i = 0; i < passes.size() && !by_layers; ++i) {
      const std::int64_t left = std::ssize(passes[i].tokens) - done[i];
      if (left == 0) continue;
      const std::int64_t take = rows_together(passes[i], left);
      const PromptSelection* prompts = passes[i].sequence->policies.prompt_selection();
      by_layers = take > core_.options.prefill_chunk && prompts != nullptr && prompts->chunkable();
      if (!chunk.empty() && (by_layers || rows + take > core_.options.max_rows)) {
        by_layers = false;
        continue;
      }
      Pass part = passes[i];
      part.tokens = part.tokens.subspan(done[i], take);
      part.prompt_end = passes[i].prompt_end && take == left;
      chunk.push_back(std::move(part));
      of.push_back(i);
      rows += take;
      done[i] += take;
    }
    if (chunk.empty()) return logits;
    std::vector<std::vector<float>> part;
    if (by_layers) {
      part.push_back(forward_by_layers(chunk.front()));
    } else {
      part = forward(chunk);
    }
    for (std::size_t i = 0; i < of.size(); ++i) {
      auto& out = logits[of[i]];
      if (chunk[i].all_logits) {
        out.insert(out.end(), part[i].begin(), part[i].end());
      } else {
        out = std::move(part[i]);
      }
    }
  }
}

std::int64_t Engine::rows_together(const Pass& pass, std::int64_t left) const {
  const Policies& policies = pass.sequence->policies;
  if (PromptSelection* prompts = policies.prompt_selection()) {
    const DialogueView dialogue = pass.dialogue != nullptr ? *pass.dialogue : DialogueView{};
    const int rows =
        prompts->segment_rows(dialogue, pass.sequence->next_position, static_cast<int>(left));
    return std::clamp<std::int64_t>(rows, 1, left);
  }
  if (policies.prefill) return left;
  return std::min<std::int64_t>(left, core_.options.prefill_chunk);
}

std::vector<float> Engine::forward_by_layers(const Pass& pass) {
  const auto has_retriever = [](const Sequence* s) { return s->retriever != nullptr; };
  if (has_retriever(pass.sequence) ||
      std::any_of(pass.forks.begin(), pass.forks.end(), has_retriever)) {
    throw runtime_error(
        "engine: found a method with a retriever and with prompts that are computed layer by "
        "layer, expected one of the two");
  }
  const std::int64_t at_once = core_.options.prefill_chunk;
  const ForwardBatch whole = begin({&pass, 1}, at_once);
  std::vector<Pass> parts;
  std::vector<ForwardBatch> layouts;
  for (std::int64_t first = 0; first < whole.rows; first += at_once) {
    const std::int64_t rows = std::min(at_once, whole.rows - first);
    Pass& part = parts.emplace_back(pass);
    part.tokens = pass.tokens.subspan(first, rows);
    ForwardBatch& batch = layouts.emplace_back(whole);
    batch.positions.assign(whole.positions.begin() + first, whole.positions.begin() + first + rows);
    batch.rows = rows;
    batch.block = std::min(rows, whole.block);
    batch.layer_ends = first + rows == whole.rows;
    batch.logit_rows.clear();
    if (pass.all_logits || batch.layer_ends) batch.add_logit_rows(pass.all_logits ? rows : 1);
    part.prompt_end = pass.prompt_end && batch.layer_ends;
  }
  const Stages& stages = core_.model.stages();
  for (std::size_t s = 0; s < stages.count(); ++s) {
    Stage& stage = core_.stages[s];
    decoder_.make_room(stage, layouts.front());
    for (Stage::Rows* rows : {&stage.cos, &stage.sin})
      rows->make_room(whole.rows, core_.shape.head_dim / 2);
    stage.hidden.make_room(whole.rows, whole.hidden);
    if (s == 0) {
      decoder_.embed({&pass, 1}, whole);
    } else {
      decoder_.copy_to_next_stage(core_.stages[s - 1], stage, whole);
    }
    const MatrixView<float> hidden = stage.hidden.view, cos = stage.cos.view, sin = stage.sin.view;
    for (int l = stages.first_layer(s); l < stages.first_layer(s + 1); ++l) {
      std::int64_t first = 0;
      for (std::size_t i = 0; i < parts.size(); ++i) {
        const std::int64_t rows = layouts[i].rows;
        stage.hidden.view = hidden.rows_at(first, rows);
        stage.cos.view = cos.rows_at(first, rows);
        stage.sin.view = sin.rows_at(first, rows);
        decoder_.qkv_rope(l, layouts[i]);
        transfers_.append_keys(l, {&parts[i], 1}, layouts[i]);
        attention_.run(l, {&parts[i], 1}, layouts[i]);
        decoder_.output_and_ffn(l, layouts[i]);
        first += rows;
      }
    }
    stage.hidden.view = hidden;
    stage.cos.view = cos;
    stage.sin.view = sin;
  }
  end({&pass, 1});
  Stage& last = core_.stages.back();
  last.normed.make_room(whole.block, whole.hidden);
  if (!pass.all_logits)  // the last layer has moved the row to the front of its part
    last.hidden.view = last.hidden.view.rows_at(whole.rows - layouts.back().rows, 1);
  return decoder_.read_logits({&pass, 1}, whole).front();
}

}  // namespace turnbench
