"""A strong PyTorch baseline for GPT pre-training steps on one GPU (torch.compile, SDPA, fused AdamW).

Usage: python torch_gpt.py --layers 32 --hidden 4096 --heads 32 --seq 2048 --vocab 50304 --mbs 4 --accum 1 [--recompute] [--steps 25]
Prints: median step seconds, tokens/s, model TFLOP/s and MFU against 989.5 TFLOP/s, peak memory.
"""
import argparse, math, time, torch, torch.nn as nn, torch.nn.functional as F
from torch.utils.checkpoint import checkpoint

p = argparse.ArgumentParser()
for n, d in dict(layers=12, hidden=768, heads=12, seq=1024, vocab=50304, mbs=32, accum=1, steps=25).items():
    p.add_argument(f'--{n}', type=int, default=d)
p.add_argument('--recompute', action='store_true')
p.add_argument('--attn', default='auto')
p.add_argument('--no-compile', action='store_true')
a = p.parse_args()
torch.manual_seed(0)
dev = 'cuda'
torch.set_float32_matmul_precision('high')

class Block(nn.Module):
    def __init__(s):
        super().__init__()
        h = a.hidden
        s.ln1, s.ln2 = nn.LayerNorm(h), nn.LayerNorm(h)
        s.qkv, s.proj = nn.Linear(h, 3*h), nn.Linear(h, h)
        s.fc1, s.fc2 = nn.Linear(h, 4*h), nn.Linear(4*h, h)
    def forward(s, x):
        B, T, H = x.shape
        q, k, v = s.qkv(s.ln1(x)).view(B, T, 3, a.heads, H // a.heads).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + s.proj(y.transpose(1, 2).reshape(B, T, H))
        return x + s.fc2(F.gelu(s.fc1(s.ln2(x)), approximate='tanh'))

class GPT(nn.Module):
    def __init__(s):
        super().__init__()
        s.wte, s.wpe = nn.Embedding(a.vocab, a.hidden), nn.Embedding(a.seq, a.hidden)
        s.blocks = nn.ModuleList(Block() for _ in range(a.layers))
        s.lnf = nn.LayerNorm(a.hidden)
        s.head = nn.Linear(a.hidden, a.vocab, bias=False); s.head.weight = s.wte.weight
    def forward(s, idx, tgt):
        x = s.wte(idx) + s.wpe(torch.arange(idx.size(1), device=idx.device))
        for b in s.blocks:
            x = checkpoint(b, x, use_reentrant=False) if a.recompute else b(x)
        return s.loss(x, tgt)
    def loss(s, x, tgt):
        return F.cross_entropy(s.head(s.lnf(x)).view(-1, a.vocab).float(), tgt.view(-1))

with torch.device(dev):
    torch.set_default_dtype(torch.bfloat16)
    m = GPT()
    torch.set_default_dtype(torch.float32)
for q in m.parameters():
    if q.dim() > 1: nn.init.normal_(q, std=0.02)
N = sum(q.numel() for q in m.parameters())
# fp32 master weights and fp32 moments, bf16 model weights, bf16 gradients: 16 bytes a parameter
master = [q.detach().float().requires_grad_() for q in m.parameters()]
opt = torch.optim.AdamW(master, lr=1e-4, fused=True, weight_decay=0.1)
f = m
if not a.no_compile:  # block by block, so compile time does not grow with depth
    for b in m.blocks: b.compile()
    m.loss = torch.compile(m.loss)
def step():
    for _ in range(a.accum):
        idx = torch.randint(0, 50257, (a.mbs, a.seq), device=dev)
        loss = f(idx, idx.roll(-1, 1)) / a.accum
        loss.backward()
    ps = list(m.parameters())
    torch.nn.utils.clip_grad_norm_(ps, 1.0)
    for i, (w, q) in enumerate(zip(master, ps)):
        w.grad = q.grad.float(); q.grad = None
        if N > 3e9:  # update group by group so the fp32 gradients never stand all at once
            pass
    opt.step()
    with torch.no_grad():
        torch._foreach_copy_(ps, master)
    for w in master: w.grad = None
    return loss
def step_big():
    """the optimizer walks parameter by parameter, so fp32 gradients are transient"""
    for _ in range(a.accum):
        idx = torch.randint(0, 50257, (a.mbs, a.seq), device=dev)
        loss = f(idx, idx.roll(-1, 1)) / a.accum
        loss.backward()
    torch.nn.utils.clip_grad_norm_(m.parameters(), 1.0)
    for w, q in zip(master, m.parameters()):
        w.grad = q.grad.float(); q.grad = None
        opts[w].step(); w.grad = None
        with torch.no_grad(): q.copy_(w)
    return loss
if N > 3e9:
    opts = {w: torch.optim.AdamW([w], lr=1e-4, fused=True, weight_decay=0.1) for w in master}
    step = step_big
ts = []
for i in range(a.steps):
    torch.cuda.synchronize(); t = time.time()
    loss = step(); torch.cuda.synchronize(); ts.append(time.time() - t)
ts = sorted(ts[5:]); t = ts[len(ts)//2]
tok = a.mbs * a.accum * a.seq
# Narayanan 2021 eq. 3 without recompute (model FLOPs, full attention counted): 72 s l h^2 (1 + s/6h + V/12lh) tokens
fl = 72 * a.layers * a.hidden**2 * tok * (1 + a.seq/(6*a.hidden) + a.vocab/(12*a.layers*a.hidden))
print(f'TORCH layers={a.layers} hidden={a.hidden} seq={a.seq} mbs={a.mbs} accum={a.accum} recompute={a.recompute} params={N/1e6:.1f}M step={t:.4f}s tok/s={tok/t:.0f} TFLOP/s={fl/t/1e12:.1f} MFU={fl/t/989.5e12*100:.1f}% mem={torch.cuda.max_memory_allocated()/2**30:.1f}GiB loss={loss.item()*a.accum:.3f}', flush=True)
