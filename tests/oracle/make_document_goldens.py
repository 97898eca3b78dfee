"""Golden values of the GPT-2 shaped model of make_goldens.py on samples of several documents, from PyTorch in fp64.

    venv/bin/python tests/oracle/make_document_goldens.py   # rewrites tests/oracle/data/documents_fp64.h5

The parameters are those of data/gpt2_fp64.h5. As Megatron-LM has it with --reset-attention-mask, --reset-position-ids and
--eod-mask-loss: a token sees those before it in its own document, positions count from its document's beginning, and the
loss of a token that ends a document (END) does not count. The loss is the mean over all tokens of the batch that count. A
token's document is the number of ENDs before it; the mask follows from equal numbers, written here as a matrix for
scaled_dot_product_attention. The file: /tokens [batch, T + 1], /loss, /gradient_norm, /gradients/NAME.
"""
import math
import pathlib

import h5py
import numpy
import torch
import torch.nn.functional as F

import make_goldens

C = make_goldens.CONFIG
END, T, B = 7, C["sequence"], C["global_batch"]
FOLDER = pathlib.Path(__file__).parent / "data"


def make_tokens(generator):
    """A sample with an END first, two in a row and one last; one long document; one with two; one that END begins and ends."""
    tokens = torch.randint(0, C["vocabulary"], (B, T + 1), generator=generator)
    tokens[tokens == END] = END + 1
    for sample, ends in enumerate(((0, 5, 6, T - 1), (), (4, 10), (0, T))):
        tokens[sample, list(ends)] = END
    return tokens


def loss_of(p, tokens):
    inputs = tokens[:, :-1]
    is_end = inputs == END
    document = torch.cumsum(is_end.long(), 1) - is_end.long()
    same = document[:, :, None] == document[:, None, :]
    seen = same & torch.ones(T, T, dtype=torch.bool).tril()
    position = seen.sum(-1) - 1
    x = p["embedding.word.weight"][inputs] + p["embedding.position.weight"][position]
    for layer in range(C["layers"]):
        w = lambda name: p[f"layers.{layer}.{name}"]
        y = F.layer_norm(x, (C["hidden"],), w("attention_norm.weight"), w("attention_norm.bias"), C["norm_epsilon"])
        q, k, v = (torch.einsum("btc,hdc->bhtd", y, w(f"attention.{a}.weight")) + w(f"attention.{a}.bias")[None, :, None, :]
                   for a in ("query", "key", "value"))
        o = F.scaled_dot_product_attention(q, k, v, attn_mask=seen[:, None], scale=1 / math.sqrt(C["head_dim"]))
        x = x + torch.einsum("bhtd,chd->btc", o, w("attention.projection.weight")) + w("attention.projection.bias")
        y = F.layer_norm(x, (C["hidden"],), w("mlp_norm.weight"), w("mlp_norm.bias"), C["norm_epsilon"])
        up = F.gelu(F.linear(y, w("mlp.up.weight"), w("mlp.up.bias")), approximate="tanh")
        x = x + F.linear(up, w("mlp.down.weight"), w("mlp.down.bias"))
    x = F.layer_norm(x, (C["hidden"],), p["final_norm.weight"], p["final_norm.bias"], C["norm_epsilon"])
    logits = x @ p["embedding.word.weight"].T
    counts = ~is_end.flatten()
    return F.cross_entropy(logits.flatten(0, 1)[counts], tokens[:, 1:].flatten()[counts])


torch.set_num_threads(1)
with h5py.File(FOLDER / "gpt2_fp64.h5") as file:
    names = []
    file["parameters"].visititems(lambda name, item: names.append(name) if isinstance(item, h5py.Dataset) else None)
    parameters = {name: torch.from_numpy(file[f"parameters/{name}"][()]).requires_grad_() for name in names}
tokens = make_tokens(torch.Generator().manual_seed(20261130))
loss = loss_of(parameters, tokens)
gradients = torch.autograd.grad(loss, list(parameters.values()))
with h5py.File(FOLDER / "documents_fp64.h5", "w") as file:
    file["tokens"] = tokens.numpy().astype(numpy.int32)
    file["loss"] = numpy.array([loss.item()])
    file["gradient_norm"] = numpy.array([math.sqrt(sum((gradient**2).sum().item() for gradient in gradients))])
    for name, gradient in zip(parameters, gradients):
        file[f"gradients/{name}"] = gradient.numpy()
print(f"loss {loss.item()}, {int((tokens[:, :-1] == END).sum())} ends")
