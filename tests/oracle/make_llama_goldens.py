"""Golden values of a small Llama-shaped model from PyTorch in fp64: rotary positions (with Llama 3.1's scaling), RMSNorm, SwiGLU,
grouped queries, an output layer of its own, biases on query, key and value only (as Qwen 2.5; Llama has none).

    venv/bin/python tests/oracle/make_llama_goldens.py       # rewrites tests/oracle/data/llama_fp64.h5 (torch, numpy, h5py)

Written from the formulas with complex rotation, so that pairing i with i + R/2 is said once more in another way. Before it is
written the loss is compared with PyTorch's own rms_norm and scaled_dot_product_attention. The file: /tokens [batch, T + 1],
/parameters/NAME, /loss, /gradients/NAME.
"""
import math
import pathlib

import h5py
import numpy
import torch
import torch.nn.functional as F

L, C, H, G, D, FFN, V, T, B = 3, 24, 4, 2, 6, 40, 53, 16, 4
BASE, EPSILON = 500.0, 1e-5
FACTOR, LOW, HIGH, ORIGINAL = 8.0, 1.0, 4.0, 64
FILE = pathlib.Path(__file__).parent / "data" / "llama_fp64.h5"


def make_parameters(generator):
    shapes = {"embedding.word.weight": (V, C)}
    for i in range(L):
        shapes |= {f"layers.{i}.attention_norm.weight": (C,), f"layers.{i}.attention.query.weight": (H, D, C),
                   f"layers.{i}.attention.key.weight": (G, D, C), f"layers.{i}.attention.value.weight": (G, D, C),
                   f"layers.{i}.attention.query.bias": (H, D), f"layers.{i}.attention.key.bias": (G, D),
                   f"layers.{i}.attention.value.bias": (G, D), f"layers.{i}.attention.projection.weight": (C, H, D),
                   f"layers.{i}.mlp_norm.weight": (C,), f"layers.{i}.mlp.gate.weight": (FFN, C),
                   f"layers.{i}.mlp.up.weight": (FFN, C), f"layers.{i}.mlp.down.weight": (C, FFN)}
    shapes |= {"final_norm.weight": (C,), "output.weight": (V, C)}
    return {name: ((1.0 if name.endswith("norm.weight") else 0.0) + 0.25 * torch.randn(shape, generator=generator,
            dtype=torch.float64)).requires_grad_() for name, shape in shapes.items()}


def frequencies():
    """base^(-2i/D), those of long wavelength slowed down by FACTOR, a straight line between (Llama 3.1)."""
    result = []
    for i in range(D // 2):
        f = BASE ** (-2 * i / D)
        turns = ORIGINAL * f / (2 * math.pi)  # of this frequency over the original context
        smooth = min(1.0, max(0.0, (turns - LOW) / (HIGH - LOW)))
        result.append((1 - smooth) * f / FACTOR + smooth * f)
    return torch.tensor(result, dtype=torch.float64)


def rotate(x):
    """x [B, T, heads, D] as D/2 complex numbers (x[i], x[i + D/2]), turned by position times frequency."""
    z = torch.complex(x[..., : D // 2], x[..., D // 2:])
    turn = torch.polar(torch.ones(T, D // 2, dtype=torch.float64), torch.outer(torch.arange(T).double(), frequencies()))
    z = z * turn[None, :, None, :]
    return torch.cat((z.real, z.imag), -1)


def norm(x, weight):
    return x / torch.sqrt((x * x).mean(-1, keepdim=True) + EPSILON) * weight


def loss_of(p, tokens, library):
    x = p["embedding.word.weight"][tokens[:, :-1]]
    n = (lambda x, w: F.rms_norm(x, (C,), w, EPSILON)) if library else norm
    for i in range(L):
        w = lambda name: p[f"layers.{i}.{name}"]
        y = n(x, w("attention_norm.weight"))
        q, k, v = (torch.einsum("btc,hdc->bthd", y, w(f"attention.{a}.weight")) + w(f"attention.{a}.bias")
                   for a in ("query", "key", "value"))
        q, k = rotate(q), rotate(k)
        k, v = (a.repeat_interleave(H // G, dim=2) for a in (k, v))  # query head h reads group h G / H
        if library:
            o = F.scaled_dot_product_attention(*(a.transpose(1, 2) for a in (q, k, v)), is_causal=True).transpose(1, 2)
        else:
            s = torch.einsum("bthd,bshd->bhts", q, k) / math.sqrt(D)
            s = s.masked_fill(torch.ones(T, T, dtype=torch.bool).triu(1), -math.inf)
            o = torch.einsum("bhts,bshd->bthd", torch.softmax(s, -1), v)
        x = x + torch.einsum("bthd,chd->btc", o, w("attention.projection.weight"))
        y = n(x, w("mlp_norm.weight"))
        gate, up = y @ w("mlp.gate.weight").T, y @ w("mlp.up.weight").T
        x = x + (gate * torch.sigmoid(gate) * up) @ w("mlp.down.weight").T
    logits = n(x, p["final_norm.weight"]) @ p["output.weight"].T
    return F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())


torch.set_num_threads(1)
generator = torch.Generator().manual_seed(20261129)
parameters = make_parameters(generator)
tokens = torch.randint(0, V, (B, T + 1), generator=generator)
loss = loss_of(parameters, tokens, library=False)
difference = abs(loss.item() - loss_of(parameters, tokens, library=True).item())
assert difference <= 1e-13, difference
gradients = torch.autograd.grad(loss, list(parameters.values()))
with h5py.File(FILE, "w") as file:
    file["tokens"] = tokens.numpy().astype(numpy.int32)
    file["loss"] = numpy.array([loss.item()])
    for (name, value), gradient in zip(parameters.items(), gradients):
        file[f"parameters/{name}"] = value.detach().numpy()
        file[f"gradients/{name}"] = gradient.numpy()
print(f"wrote {FILE}: loss {loss.item()}, against PyTorch's own layers {difference:.1e}")
