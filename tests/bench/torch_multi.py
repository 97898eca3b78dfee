"""What a user would pick instead on several GPUs: FSDP2, DDP or TP+SP in PyTorch (torchrun --nproc-per-node 2 torch_multi.py --mode fsdp ...)."""
import argparse, os, time, torch, torch.nn as nn, torch.nn.functional as F, torch.distributed as dist
from torch.utils.checkpoint import checkpoint
from torch.distributed.device_mesh import init_device_mesh
p = argparse.ArgumentParser()
for n, d in dict(layers=12, hidden=768, heads=12, seq=1024, vocab=50304, mbs=32, accum=1, steps=25).items(): p.add_argument(f'--{n}', type=int, default=d)
p.add_argument('--recompute', action='store_true'); p.add_argument('--mode', default='fsdp')
a = p.parse_args()
r = int(os.environ['LOCAL_RANK']); torch.cuda.set_device(r); dist.init_process_group('nccl', device_id=torch.device('cuda', r)); W = dist.get_world_size()
mesh = init_device_mesh('cuda', (W,)); torch.set_float32_matmul_precision('high'); torch.manual_seed(0)
tp = W if a.mode == 'tp' else 1
class Block(nn.Module):
    def __init__(s):
        super().__init__(); h = a.hidden
        s.ln1, s.ln2 = nn.LayerNorm(h), nn.LayerNorm(h)
        s.qkv, s.proj, s.fc1, s.fc2 = nn.Linear(h, 3*h), nn.Linear(h, h), nn.Linear(h, 4*h), nn.Linear(4*h, h)
    def forward(s, x):
        y = s.qkv(s.ln1(x)); B, T, _ = y.shape
        q, k, v = y.view(B, T, 3, a.heads // tp, a.hidden // a.heads).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(B, T, a.hidden // tp)
        x = x + s.proj(y)
        return x + s.fc2(F.gelu(s.fc1(s.ln2(x)), approximate='tanh'))
class GPT(nn.Module):
    def __init__(s):
        super().__init__()
        s.wte, s.wpe = nn.Embedding(a.vocab, a.hidden), nn.Embedding(a.seq, a.hidden)
        s.blocks = nn.ModuleList(Block() for _ in range(a.layers)); s.lnf = nn.LayerNorm(a.hidden)
        s.head = nn.Linear(a.hidden, a.vocab, bias=False)
        if a.mode != 'tp': s.head.weight = s.wte.weight
    def forward(s, idx, tgt):
        x = s.wte(idx) + s.wpe(torch.arange(idx.size(1), device=idx.device))
        for b in s.blocks: x = checkpoint(b, x, use_reentrant=False) if a.recompute else b(x)
        return s.loss(s.head(s.lnf(x)), tgt)
    def loss(s, y, tgt): return F.cross_entropy(y.view(-1, a.vocab).float(), tgt.view(-1))
dt = torch.bfloat16 if a.mode == 'tp' else torch.float32
torch.set_default_dtype(dt)
with torch.device('cuda'): m = GPT()
torch.set_default_dtype(torch.float32)
for q in m.parameters():
    if q.dim() > 1: nn.init.normal_(q, std=0.02)
N = sum(q.numel() for q in m.parameters())
for b in m.blocks: b.compile()
m.loss = torch.compile(m.loss)
scaler = torch.autocast('cuda', torch.bfloat16) if a.mode == 'ddp' else torch.autocast('cuda', enabled=False)
if a.mode == 'fsdp':
    from torch.distributed.fsdp import fully_shard, MixedPrecisionPolicy
    mp = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    for b in m.blocks: fully_shard(b, mesh=mesh, mp_policy=mp)
    fully_shard(m, mesh=mesh, mp_policy=mp)
elif a.mode == 'ddp':
    m = nn.parallel.DistributedDataParallel(m, device_ids=[r], gradient_as_bucket_view=True)
elif a.mode == 'tp':
    from torch.distributed.tensor.parallel import parallelize_module, ColwiseParallel, RowwiseParallel, SequenceParallel, PrepareModuleInput, PrepareModuleOutput
    from torch.distributed.tensor import Shard, Replicate
    parallelize_module(m, mesh, {'wte': RowwiseParallel(input_layouts=Replicate(), output_layouts=Replicate()), 'lnf': SequenceParallel(),
        'head': ColwiseParallel(input_layouts=Shard(1), output_layouts=Replicate())})
    for b in m.blocks:
        parallelize_module(b, mesh, {'ln1': SequenceParallel(), 'qkv': ColwiseParallel(input_layouts=Shard(1)), 'proj': RowwiseParallel(output_layouts=Shard(1)),
            'ln2': SequenceParallel(), 'fc1': ColwiseParallel(input_layouts=Shard(1)), 'fc2': RowwiseParallel(output_layouts=Shard(1))})
    parallelize_module(m.blocks[0], mesh, PrepareModuleInput(input_layouts=Replicate(), desired_input_layouts=Shard(1)))
opt = torch.optim.AdamW(m.parameters(), lr=1e-4, fused=True, weight_decay=0.1)
dp = 1 if a.mode == 'tp' else W
ts = []
for i in range(a.steps):
    torch.cuda.synchronize(); t = time.time()
    for _ in range(a.accum):
        idx = torch.randint(0, 50257, (a.mbs, a.seq), device='cuda')
        with scaler: loss = m(idx, idx.roll(-1, 1)) / a.accum
        loss.backward()
    torch.nn.utils.clip_grad_norm_(m.parameters(), 1.0)
    opt.step(); opt.zero_grad(set_to_none=True); torch.cuda.synchronize(); dist.barrier(); ts.append(time.time() - t)
ts = sorted(ts[5:]); t = ts[len(ts)//2]; tok = a.mbs * a.accum * a.seq * dp
fl = 72 * a.layers * a.hidden**2 * tok * (1 + a.seq/(6*a.hidden) + a.vocab/(12*a.layers*a.hidden))
if r == 0: print(f'TORCH-{a.mode} x{W} layers={a.layers} hidden={a.hidden} seq={a.seq} mbs={a.mbs} recompute={a.recompute} params={N/1e6:.0f}M step={t:.4f}s tok/s={tok/t:.0f} TFLOP/s/GPU={fl/t/1e12/W:.1f} MFU={fl/t/W/989.5e12*100:.1f}% mem={torch.cuda.max_memory_allocated()/2**30:.1f}GiB', flush=True)
dist.destroy_process_group()
