"""Golden values of a small GPT-2 shaped model, from PyTorch in fp64: what Trireme's model and optimizer must reproduce.

    python3 -m venv venv && venv/bin/pip install torch numpy h5py
    venv/bin/python tests/oracle/make_goldens.py            # rewrites tests/oracle/data/gpt2_fp64.h5
    venv/bin/python tests/oracle/make_goldens.py --check    # compares the committed file with what is computed now

The forward pass is written from the formulas and differentiated by autograd; before anything is written it is compared with
PyTorch's own layers and with central differences, and the optimizer with AdamW written out. Parameters bear the catalogue's
names and shapes. They are random throughout (biases and norms too, so that no zero or one hides a mistake) and rounded to
fp32, so an fp32 run can start from the same values.

The file:
  /config                    attributes: the model's shape, and the optimizer under Megatron-LM's option names
  /tokens                    [steps, batch, T + 1] int32; inputs are [..., :T], targets [..., 1:]
  /parameters/NAME           initial values
  /logits                    [batch, T, V] of batch 0 at the initial parameters
  /loss                      its mean token loss
  /gradients/NAME            of that loss, before clipping; the word embedding's is the sum over both of its uses
  /losses                    [steps] of batch k before update k
  /gradient_norms            [steps] before clipping, over all parameters, each once
  /learning_rates            [steps] that update k used
  /final_parameters/NAME     after all updates

The learning rate follows Megatron-LM (megatron/core/optimizer_param_scheduler.py and train_step of training.py): the
scheduler starts at 0 samples and is advanced by a global batch after each successful update, so update k = 0, 1, ... uses
lr(k * global batch): n counts the samples of the successful updates BEFORE it. With warm-up the first update therefore runs
at rate 0: it moves no parameter, but it does advance both moments and the step of the bias correction.
    lr(n) = lr * n / W                                          if W > 0 and n <= W   (lr-warmup-init is 0)
          = min + (lr - min) * (cos(pi (n - W) / (D - W)) + 1) / 2    if n <= D,  min above
with W and D the warm-up and decay lengths in samples (iterations * global batch). Gradients are multiplied by
min(1, clip-grad / (norm + 1e-6)), as Megatron-LM and PyTorch both do.
"""
import argparse
import math
import pathlib
import sys

import h5py
import numpy
import torch
import torch.nn.functional as F

CONFIG = dict(
    layers=3, hidden=24, heads=4, head_dim=6, ffn=96, vocabulary=53, sequence=16, norm_epsilon=1e-5,
    max_positions=20,  # above the sequence, so that some rows see weight decay and no gradient
    global_batch=4, steps=10,
    lr=0.01, min_lr=0.001, lr_warmup_iters=3, lr_decay_iters=10,
    adam_beta1=0.85, adam_beta2=0.97, adam_eps=1e-8, weight_decay=0.1, clip_grad=0.4,
)
SEED = 20261129
FILE = pathlib.Path(__file__).parent / "data" / "gpt2_fp64.h5"


def make_parameters(c, generator):
    """Name -> tensor, in the order of the catalogue."""
    shapes = {"embedding.word.weight": (c["vocabulary"], c["hidden"]),
              "embedding.position.weight": (c["max_positions"], c["hidden"])}
    heads = (c["heads"], c["head_dim"])
    for layer in range(c["layers"]):
        own = {"attention_norm.weight": (c["hidden"],), "attention_norm.bias": (c["hidden"],)}
        own |= {f"attention.{what}.weight": (*heads, c["hidden"]) for what in ("query", "key", "value")}
        own |= {f"attention.{what}.bias": heads for what in ("query", "key", "value")}
        own |= {"attention.projection.weight": (c["hidden"], *heads), "attention.projection.bias": (c["hidden"],),
                "mlp_norm.weight": (c["hidden"],), "mlp_norm.bias": (c["hidden"],),
                "mlp.up.weight": (c["ffn"], c["hidden"]), "mlp.up.bias": (c["ffn"],),
                "mlp.down.weight": (c["hidden"], c["ffn"]), "mlp.down.bias": (c["hidden"],)}
        shapes |= {f"layers.{layer}.{name}": shape for name, shape in own.items()}
    shapes |= {"final_norm.weight": (c["hidden"],), "final_norm.bias": (c["hidden"],)}

    parameters = {}
    for name, shape in shapes.items():
        value = torch.randn(shape, generator=generator, dtype=torch.float64)
        centre = 1.0 if name.endswith("norm.weight") else 0.0
        parameters[name] = (centre + 0.25 * value).float().double().requires_grad_()
    return parameters


def decays(name):
    """Matrices and embeddings decay; biases and norms do not."""
    return name.endswith(".weight") and "norm" not in name


def layer_norm(x, weight, bias, epsilon):
    mean = x.mean(-1, keepdim=True)
    variance = ((x - mean) ** 2).mean(-1, keepdim=True)
    return (x - mean) / torch.sqrt(variance + epsilon) * weight + bias


def gelu(x):
    return 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def attention(x, p, c):
    """x [B, T, C]; head h: softmax(q k^T / sqrt(D) + causal mask) v."""
    q, k, v = (torch.einsum("btc,hdc->bhtd", x, p(f"{what}.weight")) + p(f"{what}.bias")[None, :, None, :]
               for what in ("query", "key", "value"))
    scores = torch.einsum("bhtd,bhsd->bhts", q, k) / math.sqrt(c["head_dim"])
    later = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
    weights = torch.exp(scores - scores.amax(-1, keepdim=True).detach()).masked_fill(later, 0.0)
    weights = weights / weights.sum(-1, keepdim=True)
    mixed = torch.einsum("bhts,bhsd->bthd", weights, v)
    return torch.einsum("bthd,chd->btc", mixed, p("projection.weight")) + p("projection.bias")


def logits_of(parameters, inputs, c):
    """inputs [B, T] -> [B, T, V]."""
    word = parameters["embedding.word.weight"]
    x = word[inputs] + parameters["embedding.position.weight"][: inputs.shape[1]]
    for layer in range(c["layers"]):
        p = lambda name: parameters[f"layers.{layer}.{name}"]
        y = layer_norm(x, p("attention_norm.weight"), p("attention_norm.bias"), c["norm_epsilon"])
        x = x + attention(y, lambda name: p(f"attention.{name}"), c)
        y = layer_norm(x, p("mlp_norm.weight"), p("mlp_norm.bias"), c["norm_epsilon"])
        x = x + gelu(y @ p("mlp.up.weight").T + p("mlp.up.bias")) @ p("mlp.down.weight").T + p("mlp.down.bias")
    x = layer_norm(x, parameters["final_norm.weight"], parameters["final_norm.bias"], c["norm_epsilon"])
    return x @ word.T


def loss_of(logits, targets):
    """Mean over tokens of log(sum exp) - logit of the target."""
    chosen = logits.gather(-1, targets[..., None]).squeeze(-1)
    return (torch.logsumexp(logits, -1) - chosen).mean()


def batch_loss(parameters, tokens, c):
    return loss_of(logits_of(parameters, tokens[:, :-1], c), tokens[:, 1:])


def learning_rate(samples, c):
    """Megatron-LM's rule; see the head of this file."""
    warmup, decay = (c[name] * c["global_batch"] for name in ("lr_warmup_iters", "lr_decay_iters"))
    if warmup > 0 and samples <= warmup:
        return c["lr"] * samples / warmup
    if samples > decay:
        return c["min_lr"]
    ratio = (samples - warmup) / (decay - warmup)
    return c["min_lr"] + 0.5 * (math.cos(math.pi * ratio) + 1.0) * (c["lr"] - c["min_lr"])


def train(initial, tokens, c):
    parameters = {name: value.detach().clone().requires_grad_() for name, value in initial.items()}
    groups = [{"params": [v for n, v in parameters.items() if decays(n) == yes], "weight_decay": c["weight_decay"] * yes}
              for yes in (True, False)]
    optimizer = torch.optim.AdamW(groups, lr=0.0, betas=(c["adam_beta1"], c["adam_beta2"]), eps=c["adam_eps"], foreach=False)
    losses, norms, rates = [], [], []
    for step in range(c["steps"]):
        rates.append(learning_rate(step * c["global_batch"], c))
        for group in optimizer.param_groups:
            group["lr"] = rates[-1]
        optimizer.zero_grad()
        loss = batch_loss(parameters, tokens[step], c)
        loss.backward()
        norms.append(torch.nn.utils.clip_grad_norm_(parameters.values(), c["clip_grad"], foreach=False).item())
        optimizer.step()
        losses.append(loss.item())
    return parameters, losses, norms, rates


def train_by_hand(initial, tokens, c):
    """The same without torch.optim: AdamW of Loshchilov and Hutter (2019)."""
    w = {name: value.detach().clone().requires_grad_() for name, value in initial.items()}
    m, v = ({name: torch.zeros_like(value) for name, value in w.items()} for _ in range(2))
    b1, b2 = c["adam_beta1"], c["adam_beta2"]
    for step in range(c["steps"]):
        gradients = dict(zip(w, torch.autograd.grad(batch_loss(w, tokens[step], c), list(w.values()))))
        norm = math.sqrt(sum(float((g * g).sum()) for g in gradients.values()))
        factor = min(1.0, c["clip_grad"] / (norm + 1e-6))
        with torch.no_grad():
            for name, gradient in gradients.items():
                g = gradient * factor
                m[name] = b1 * m[name] + (1 - b1) * g
                v[name] = b2 * v[name] + (1 - b2) * g * g
                mhat, vhat = m[name] / (1 - b1 ** (step + 1)), v[name] / (1 - b2 ** (step + 1))
                decay = c["weight_decay"] if decays(name) else 0.0
                w[name] -= learning_rate(step * c["global_batch"], c) * (mhat / (vhat.sqrt() + c["adam_eps"]) + decay * w[name])
    return w


def require(what, difference, bound):
    print(f"  {what}: {difference:.2e} (bound {bound:.0e})")
    if not difference <= bound:
        sys.exit(f"make_goldens.py: {what} differs by {difference}, more than {bound}")


def library_logits(parameters, inputs, c):
    """The same model through PyTorch's own layers."""
    word = parameters["embedding.word.weight"]
    x = F.embedding(inputs, word) + parameters["embedding.position.weight"][: inputs.shape[1]]
    shape = (*inputs.shape, c["heads"], c["head_dim"])
    for layer in range(c["layers"]):
        p = lambda name: parameters[f"layers.{layer}.{name}"]
        norm = lambda x, name: F.layer_norm(x, (c["hidden"],), p(f"{name}.weight"), p(f"{name}.bias"), c["norm_epsilon"])
        y = norm(x, "attention_norm")
        q, k, v = (F.linear(y, p(f"attention.{what}.weight").flatten(0, 1), p(f"attention.{what}.bias").flatten())
                   .view(shape).transpose(1, 2) for what in ("query", "key", "value"))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2)
        x = x + F.linear(y, p("attention.projection.weight").flatten(1), p("attention.projection.bias"))
        y = F.linear(norm(x, "mlp_norm"), p("mlp.up.weight"), p("mlp.up.bias"))
        x = x + F.linear(F.gelu(y, approximate="tanh"), p("mlp.down.weight"), p("mlp.down.bias"))
    x = F.layer_norm(x, (c["hidden"],), parameters["final_norm.weight"], parameters["final_norm.bias"], c["norm_epsilon"])
    return F.linear(x, word)


def self_check(parameters, gradients, final, norms, tokens, c):
    inputs, targets = tokens[0, :, :-1], tokens[0, :, 1:]
    library = library_logits(parameters, inputs, c)
    require("logits against PyTorch's layers", (library - logits_of(parameters, inputs, c)).abs().max().item(), 1e-13)
    loss = F.cross_entropy(library.flatten(0, 1), targets.flatten())
    others = dict(zip(parameters, torch.autograd.grad(loss, list(parameters.values()))))
    require("gradients against PyTorch's layers", max((others[n] - g).abs().max().item() for n, g in gradients.items()), 1e-14)
    worst = 0.0
    h = 1e-5
    for name, parameter in parameters.items():  # along one random direction of length 1 a parameter
        direction = torch.randn(parameter.shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
        direction /= direction.norm()
        with torch.no_grad():
            up, down = (batch_loss(parameters | {name: parameter + s * h * direction}, tokens[0], c).item() for s in (1, -1))
        worst = max(worst, abs((up - down) / (2 * h) - (gradients[name] * direction).sum().item()))
    require("gradients against central differences", worst, 1e-8)
    by_hand = train_by_hand(parameters, tokens, c)
    # A key bias shifts all scores of a query alike, so its gradient is rounding noise, and Adam divides that by little more
    # than eps: the update is noise of about lr * 1e-17 / eps, far below 1e-9, but not below the bound of the others.
    for what, chosen, bound in (("", [n for n in final if not n.endswith("key.bias")], 1e-14),
                                (" (key biases)", [n for n in final if n.endswith("key.bias")], 5e-11)):
        require(f"final parameters{what} against AdamW written out",
                max((by_hand[n] - final[n]).abs().max().item() for n in chosen), bound)
    require("clip-grad over the smallest gradient norm (must clip always)", c["clip_grad"] / min(norms), 0.9)


def compute(c):
    generator = torch.Generator().manual_seed(SEED)
    parameters = make_parameters(c, generator)
    tokens = torch.randint(0, c["vocabulary"], (c["steps"], c["global_batch"], c["sequence"] + 1), generator=generator)
    logits = logits_of(parameters, tokens[0, :, :-1], c)
    loss = loss_of(logits, tokens[0, :, 1:])
    gradients = dict(zip(parameters, torch.autograd.grad(loss, list(parameters.values()))))
    final, losses, norms, rates = train(parameters, tokens, c)
    self_check(parameters, gradients, final, norms, tokens, c)
    print(f"  losses {losses}\n  gradient norms {norms}\n  learning rates {rates}")
    array = lambda tensor: tensor.detach().numpy()
    content = {"tokens": array(tokens).astype(numpy.int32), "logits": array(logits), "loss": numpy.float64(loss.item()),
               "losses": numpy.array(losses), "gradient_norms": numpy.array(norms), "learning_rates": numpy.array(rates)}
    for group, values in (("parameters", parameters), ("gradients", gradients), ("final_parameters", final)):
        content |= {f"{group}/{name}": array(value) for name, value in values.items()}
    return content


def write(content, c):
    FILE.parent.mkdir(exist_ok=True)
    with h5py.File(FILE, "w") as file:
        config = file.create_group("config")
        for name, value in c.items():
            config.attrs[name] = numpy.int64(value) if isinstance(value, int) else numpy.float64(value)
        for name, value in content.items():
            file[name] = value
    print(f"wrote {FILE} ({FILE.stat().st_size} bytes)")


def compare(content, c):
    """The committed file must be what this script computes, up to the order of sums in another PyTorch."""
    with h5py.File(FILE) as file:
        stored = []
        file.visititems(lambda name, item: stored.append(name) if isinstance(item, h5py.Dataset) else None)
        if set(stored) != set(content) or dict(file["config"].attrs) != c:
            sys.exit(f"{FILE}: not the datasets or configuration of this script; run it without --check")
        require("committed file", max(float(numpy.abs(file[name][()] - value).max()) for name, value in content.items()), 5e-11)


if __name__ == "__main__":
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--check", action="store_true", help="compare with the committed file instead of writing it")
    check = options.parse_args().check
    torch.set_num_threads(1)
    result = compute(CONFIG)
    compare(result, CONFIG) if check else write(result, CONFIG)
