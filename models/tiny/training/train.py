"""Trains the tiny model on two CPU cores.

    python train.py --plan plan.json --out run        # checkpoints in run/, log on stdout
    python train.py --plan plan.json --out run        # the same command resumes
    python train.py --out run --stages 11 --export ..  # writes config.json and model.safetensors

What is exported is the mean of the weights at the ends of the given stages.  Muon on the hidden matrices, AdamW on embeddings and norms.  A plan is a list of stages; a stage
ends after `steps`, or earlier when the answer accuracy of its last 40 batches reaches `until`.
Within a stage the learning rate falls linearly from `lr` to `lr_end` (factors of the base rates).
"""
import argparse
import json
import pathlib
import time

import numpy as np
import torch
from torch.nn import functional as F

from data import ANSWER, LEAD, OTHER, REPEAT, VOCAB_SIZE, Generator
from model import Config, Decoder, export, start_as_previous_token_heads


class Muon:
    """Momentum, then the orthogonal factor of the update by five Newton-Schulz steps."""

    def __init__(self, params, lr, momentum=.95):
        self.params, self.lr, self.momentum = params, lr, momentum
        self.buffers = [torch.zeros_like(p) for p in params]

    @torch.no_grad()
    def step(self, factor):
        for p, b in zip(self.params, self.buffers):
            b.mul_(self.momentum).add_(p.grad)
            x = p.grad + self.momentum * b
            tall = x.shape[0] > x.shape[1]
            x = x.T if tall else x
            x = x / (x.norm() + 1e-7)
            for _ in range(5):
                a = x @ x.T
                x = 3.4445 * x + (-4.7750 * a + 2.0315 * (a @ a)) @ x
            x = x.T if tall else x
            p.add_(x, alpha=-self.lr * factor * max(1, p.shape[0] / p.shape[1]) ** .5)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--plan", default="plan.json")
    parser.add_argument("--out", default="run")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--muon-lr", type=float, default=.02)
    parser.add_argument("--adam-lr", type=float, default=3e-3)
    parser.add_argument("--export", help="write the model to this directory and stop")
    parser.add_argument("--stages", type=int, nargs="+", help="whose ends are averaged for --export")
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    torch.set_num_threads(args.threads)
    out = pathlib.Path(args.out)
    out.mkdir(exist_ok=True)
    newest = out / "checkpoint.pt"

    plan = json.loads(pathlib.Path(args.plan).read_text())
    model = Decoder(Config(vocab=VOCAB_SIZE, **plan.get("model", {})))
    start_as_previous_token_heads(model)
    if args.export:
        ends = [torch.load(out / f"stage-{i}.pt") for i in args.stages]
        model.load_state_dict({k: sum(e[k] for e in ends) / len(ends) for k in ends[0]})
        return export(model, args.export)

    hidden = [p for n, p in model.named_parameters() if p.dim() == 2 and "embedding" not in n]
    others = [p for n, p in model.named_parameters() if p.dim() != 2 or "embedding" in n]
    muon = Muon(hidden, args.muon_lr)
    adam = torch.optim.AdamW(others, lr=args.adam_lr, betas=(.9, .98), weight_decay=0)
    first, begin, step, tokens, seconds = 0, 0, 0, 0, 0.
    if newest.exists():
        state = torch.load(newest)
        model.load_state_dict(state["model"])
        adam.load_state_dict(state["adam"])
        muon.buffers = state["muon"]
        first, begin, step, tokens, seconds = (
            state[k] for k in ("stage", "iteration", "step", "tokens", "seconds"))
    print(f"# {sum(p.numel() for p in model.parameters())} parameters, torch {torch.__version__}", flush=True)

    def save(stage, iteration):
        torch.save({"model": model.state_dict(), "adam": adam.state_dict(), "muon": muon.buffers,
                    "stage": stage, "iteration": iteration, "step": step, "tokens": tokens,
                    "seconds": seconds}, newest)

    for index in range(first, len(plan["stages"])):
        stage = plan["stages"][index]
        generator = Generator(1_000_000 * (args.seed + 1) + 1000 * index + step)
        rng = np.random.default_rng([args.seed, index, step])
        recent = []
        for it in range(begin if index == first else 0, stage["steps"]):
            t0 = time.time()
            shape = stage["shapes"][rng.integers(len(stage["shapes"]))]
            length, size = shape["length"], shape["batch"]
            x, pos, cls = generator.batch(
                size, length, max_position=stage.get("max_position", 0),
                gap_share=stage.get("gap_share", .5), repeat_share=stage.get("repeat_share", 0.),
                kinds=stage["kinds"], **shape["sequence"])
            target_class = np.concatenate([cls[:, 1:], np.full((size, 1), OTHER, np.int8)], 1)
            wanted = (target_class != OTHER) | (rng.random(cls.shape) < .1)
            wanted[:, -1] = False
            mask = torch.from_numpy(wanted)
            target = torch.from_numpy(np.roll(x, -1, 1))[mask]
            kind = torch.from_numpy(target_class)[mask]
            logits = model(torch.from_numpy(x), torch.from_numpy(pos), mask)
            losses = F.cross_entropy(logits, target, reduction="none")
            weights = torch.empty(4)
            weights[[OTHER, ANSWER, REPEAT]] = torch.tensor([.05, 1., .5])
            weights[LEAD] = stage.get("lead_weight", 1.)
            weight = weights[kind.long()]
            loss = (losses * weight).sum() / weight.sum()
            model.zero_grad(set_to_none=True)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.)
            part = it / stage["steps"]
            factor = stage.get("lr", 1.) * (1 - part) + stage.get("lr_end", stage.get("lr", 1.)) * part
            factor *= min(1, (step + 1) / 30)
            for group in adam.param_groups:
                group["lr"] = args.adam_lr * factor
            adam.step()
            muon.step(factor)
            step += 1
            tokens += x.size
            seconds += time.time() - t0
            with torch.no_grad():
                hit = (logits.argmax(-1) == target).float()
                answered = (kind == ANSWER) | (kind == LEAD)
                recent.append((loss.item(), hit[answered].mean().item(),
                               losses[kind == OTHER].mean().item()))
            if step % 20 == 0:
                mean = np.nanmean(np.array(recent[-40:]), 0)
                print(f"step {step} stage {index} length {length} loss {mean[0]:.4f} "
                      f"answer_accuracy {mean[1]:.4f} other_loss {mean[2]:.3f} "
                      f"tokens {tokens / 1e6:.2f}M seconds {seconds:.0f}", flush=True)
            if step % 200 == 0:
                save(index, it + 1)
            if "until" in stage and len(recent) >= 40 and np.nanmean([r[1] for r in recent[-40:]]) >= stage["until"]:
                print(f"# stage {index} reached {stage['until']} at step {step}", flush=True)
                break
        save(index + 1, 0)
        torch.save(model.state_dict(), out / f"stage-{index}.pt")


if __name__ == "__main__":
    main()
