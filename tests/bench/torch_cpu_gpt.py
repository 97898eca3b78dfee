"""A strong PyTorch baseline for GPT pre-training steps on the CPU: what `make bench` holds Trireme against.

    python tests/bench/torch_cpu_gpt.py --layers 6 --hidden 384 --heads 6 --seq 256 --vocab 8192 --micro-batch 8 --threads 2

fp32, scaled_dot_product_attention, fused AdamW with weight decay on matrices only, gradient clipping, dropout 0, tied
embeddings; the work of a step is the same as Trireme's. Measured as it stands (eager) and compiled block by block (which
needs a C++ compiler); the fastest step of each kind counts, because other work on the machine only ever slows one down. The
better kind is reported, or the one kind that --kind names. Prints one JSON line.

--kind onednn is no PyTorch that users meet, but a yardstick: linear layers sent to oneDNN by hand. PyTorch gives fp32
products to MKL, which keeps AMD processors on AVX2; where they have AVX-512, oneDNN is twice as fast.

tokens_per_cpu_second divides by the processor time of the whole process: with --threads 1 a figure that hardly suffers from
other work on the machine. With more threads waiting counts as work, so only tokens_per_second means anything.
"""
import argparse
import json
import sys
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

PLAIN_LINEAR = F.linear


class Block(nn.Module):
    def __init__(self, hidden, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(hidden), nn.LayerNorm(hidden)
        self.qkv, self.projection = nn.Linear(hidden, 3 * hidden), nn.Linear(hidden, hidden)
        self.up, self.down = nn.Linear(hidden, 4 * hidden), nn.Linear(4 * hidden, hidden)

    def forward(self, x):  # [B, T, C]
        B, T, C = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(B, T, 3, self.heads, C // self.heads).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.projection(y.transpose(1, 2).reshape(B, T, C))
        return x + self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh"))


class GPT(nn.Module):
    def __init__(self, a):
        super().__init__()
        self.word, self.position = nn.Embedding(a.vocab, a.hidden), nn.Embedding(a.seq, a.hidden)
        self.blocks = nn.ModuleList(Block(a.hidden, a.heads) for _ in range(a.layers))
        self.norm = nn.LayerNorm(a.hidden)
        for parameter in self.parameters():
            if parameter.dim() > 1:
                nn.init.normal_(parameter, std=0.02)

    def head(self, x, targets):
        return F.cross_entropy(F.linear(self.norm(x), self.word.weight).flatten(0, 1), targets.flatten())

    def forward(self, tokens, targets):  # [B, T]
        x = self.word(tokens) + self.position.weight[: tokens.shape[1]]
        for block in self.blocks:
            x = block(x)
        return self.head(x, targets)


class OneDnnLinear(torch.autograd.Function):
    """y = x W^T + b with all three products done by oneDNN."""

    @staticmethod
    def product(x, y, bias=None):  # x y^T + bias
        return torch.ops.mkldnn._linear_pointwise(x, y, bias, "none", [], "")

    @staticmethod
    def forward(context, x, weight, bias):
        context.save_for_backward(x, weight)
        context.has_bias = bias is not None
        return OneDnnLinear.product(x, weight, bias)

    @staticmethod
    def backward(context, grad_y):
        x, weight = context.saved_tensors
        rows = grad_y.flatten(0, -2)
        grad_weight = OneDnnLinear.product(rows.t(), x.flatten(0, -2).t())
        return OneDnnLinear.product(grad_y, weight.t()), grad_weight, rows.sum(0) if context.has_bias else None


def fastest_step(a, kind):
    """Wall seconds and processor seconds of the fastest step, and the last loss."""
    torch.manual_seed(a.seed)
    F.linear = (lambda x, weight, bias=None: OneDnnLinear.apply(x, weight, bias)) if kind == "onednn" else PLAIN_LINEAR
    model = GPT(a)
    parameters = list(model.parameters())
    groups = [{"params": [p for p in parameters if (p.dim() > 1) == yes], "weight_decay": 0.1 * yes} for yes in (True, False)]
    optimizer = torch.optim.AdamW(groups, lr=1e-4, fused=True)
    if kind == "compiled":
        for block in model.blocks:
            block.compile()
        model.head = torch.compile(model.head)
    wall, processor = [], []
    for _ in range(a.warm_up + a.steps):
        batch = torch.randint(0, a.vocab, (a.micro_batch, a.seq + 1))
        start, start_processor = time.perf_counter(), time.process_time()
        loss = model(batch[:, :-1], batch[:, 1:])
        loss.backward()
        torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        wall.append(time.perf_counter() - start)
        processor.append(time.process_time() - start_processor)
    return min(wall[a.warm_up:]), min(processor[a.warm_up:]), loss.item()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in dict(layers=6, hidden=384, heads=6, seq=256, vocab=8192, micro_batch=8, threads=2, steps=8, warm_up=2,
                              seed=0).items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=int, default=default)
    parser.add_argument("--kind", choices=("best", "eager", "compiled", "onednn"), default="best")
    a = parser.parse_args()
    torch.set_num_threads(a.threads)
    torch.set_num_interop_threads(1)

    tokens_per_second, per_cpu_second, failures, loss = {}, {}, {}, {}
    for kind in ("eager", "compiled") if a.kind == "best" else (a.kind,):
        try:
            wall, processor, loss[kind] = fastest_step(a, kind)
            tokens_per_second[kind] = a.micro_batch * a.seq / wall
            per_cpu_second[kind] = a.micro_batch * a.seq / processor
        except Exception as error:  # a machine without a compiler still has the eager figure; the line says what failed
            if kind != "compiled" or kind == a.kind:
                raise
            failures[kind] = (str(error).strip() or type(error).__name__).splitlines()[0]
    best = max(tokens_per_second, key=tokens_per_second.get)
    print(json.dumps({
        "program": f"PyTorch {torch.__version__}", "tokens_per_second": tokens_per_second[best], "kind": best,
        "all_kinds": tokens_per_second, "tokens_per_cpu_second": per_cpu_second, "failed": failures, "threads": a.threads,
        "loss": loss[best], "config": vars(a)}))


if __name__ == "__main__":
    sys.exit(main())
