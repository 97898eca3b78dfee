#!/usr/bin/env python3
"""Trains GPT-2's 124 M shape for 50 steps with Trireme in bf16 and with PyTorch in fp32 on the same GPU, from the same weights and
samples, and compares each step's loss.

    torch_loss.py PROGRAMS          the folder with trireme and trireme-data; needs torch, transformers and a GPU

The weights come from transformers through `trireme checkpoint import-hf`, the samples from `trireme-data inspect`, the learning
rate of each step from Trireme's metrics. Text: phrases that come again, so that the loss falls; slowly, since where it falls
steeply the least difference grows. Prints the largest relative difference, and beside it that of PyTorch's own bf16
(autocast); the exit status is 1 if ours is beyond 0.5 %.
"""
import array
import copy
import concurrent.futures
import json
import os
import pathlib
import random
import struct
import subprocess
import sys
import tempfile

STEPS, BATCH, LENGTH, VOCABULARY, BOUND = 50, 8, 1024, 50257, 5e-3
DECAY, CLIP, BETAS, EPSILON, RATE = 0.1, 1.0, (0.9, 0.95), 1e-8, 1e-4


def run(*words):
    result = subprocess.run([str(word) for word in words], capture_output=True, text=True)
    if result.returncode != 0:
        sys.exit(f'{words[0]} {words[1]} ended with {result.returncode}\n{result.stdout[-2000:]}\n{result.stderr[-2000:]}')
    return result.stdout


def write_phrases(prefix, tokens):
    """An indexed data set of one document: 4000 phrases of 4 to 24 tokens, common ones often."""
    chosen = random.Random(3)
    phrases = [[int(VOCABULARY ** chosen.random()) - 1 for _ in range(chosen.randint(4, 24))] for _ in range(4000)]
    values = array.array('i')
    while len(values) < tokens:
        values.extend(phrases[int(4000 ** chosen.random()) - 1])
    with open(f'{prefix}.bin', 'wb') as file:
        values.tofile(file)
    with open(f'{prefix}.idx', 'wb') as file:
        file.write(b'MMIDIDX\0\0' + struct.pack('<QBQQ', 1, 4, 1, 2) + struct.pack('<iqqq', len(values), 0, 0, 1))


def samples(programs, prefix):
    def one(number):
        shown = run(programs / 'trireme-data', 'inspect', prefix, '--sample', number, '--seq-length', LENGTH, '--split', '1,0,0')
        return [int(word) for word in shown.strip().splitlines()[-1].split(':', 1)[1].split()]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        return list(pool.map(one, range(STEPS * BATCH)))


def our_steps(programs, folder):
    """(loss, learning rate) of each step."""
    run(programs / 'trireme', 'checkpoint', 'import-hf', folder / 'hf', '--save', folder / 'start')
    run(programs / 'trireme', 'pretrain', '--num-layers', 12, '--hidden-size', 768, '--num-attention-heads', 12, '--seq-length',
        LENGTH, '--max-position-embeddings', LENGTH, '--vocab-size', VOCABULARY - 1, '--hidden-dropout', 0, '--attention-dropout', 0,
        '--bf16', '--device', 'cuda', '--tokenizer-type', 'NullTokenizer', '--data-path', folder / 'text', '--split', '1,0,0',
        '--micro-batch-size', BATCH, '--global-batch-size', BATCH, '--train-iters', STEPS, '--lr', RATE, '--lr-decay-style',
        'constant', '--lr-warmup-iters', 10, '--weight-decay', DECAY, '--clip-grad', CLIP, '--adam-beta1', BETAS[0],
        '--adam-beta2', BETAS[1], '--adam-eps', EPSILON, '--log-interval', 1, '--load', folder / 'start', '--save',
        folder / 'ours', '--no-save-on-exit')
    lines = [json.loads(line) for line in (folder / 'ours/metrics.jsonl').read_text().splitlines()]
    return [(line['lm loss'], line['learning rate']) for line in lines if 'lm loss' in line and 'learning rate' in line]


def their_losses(model, tokens, rates, narrow):
    import torch
    torch.backends.cuda.matmul.allow_tf32 = False
    model = model.cuda().train()
    decayed = [p for p in model.parameters() if p.dim() > 1]
    others = [p for p in model.parameters() if p.dim() <= 1]
    optimizer = torch.optim.AdamW([{'params': decayed, 'weight_decay': DECAY}, {'params': others, 'weight_decay': 0}],
                                  betas=BETAS, eps=EPSILON)
    losses = []
    for step, rate in enumerate(rates):
        batch = torch.tensor(tokens[step * BATCH:(step + 1) * BATCH], device='cuda')
        with torch.autocast('cuda', torch.bfloat16, enabled=narrow):
            logits = model(batch[:, :-1], use_cache=False).logits.float()
        loss = torch.nn.functional.cross_entropy(logits.reshape(-1, VOCABULARY), batch[:, 1:].reshape(-1))
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        for group in optimizer.param_groups:
            group['lr'] = rate
        optimizer.step()
        losses.append(loss.item())
    return losses


def main():
    import torch
    from transformers import GPT2Config, GPT2LMHeadModel
    programs = pathlib.Path(sys.argv[1])
    with tempfile.TemporaryDirectory() as directory:
        folder = pathlib.Path(directory)
        write_phrases(folder / 'text', 600_000)
        torch.manual_seed(1)
        model = GPT2LMHeadModel(GPT2Config(embd_pdrop=0, attn_pdrop=0, resid_pdrop=0))
        model.save_pretrained(folder / 'hf')
        ours = our_steps(programs, folder)
        tokens, rates = samples(programs, folder / 'text'), [rate for _, rate in ours]
        narrow = their_losses(copy.deepcopy(model), tokens, rates, True)
        theirs = their_losses(model, tokens, rates, False)
    if len(ours) != STEPS:
        sys.exit(f'{len(ours)} steps instead of {STEPS}')
    differences = [abs(mine - other) / other for (mine, _), other in zip(ours, theirs)]
    of_narrow = max(abs(one - other) / other for one, other in zip(narrow, theirs))
    worst = max(range(STEPS), key=lambda step: differences[step])
    print(f'loss {theirs[0]:.4f} to {theirs[-1]:.4f} (PyTorch, fp32), {ours[0][0]:.4f} to {ours[-1][0]:.4f} (Trireme, bf16); '
          f'largest difference {100 * differences[worst]:.3f} % at step {worst + 1}; of PyTorch in bf16 {100 * of_narrow:.3f} %')
    return 0 if all(difference <= BOUND for difference in differences) else 1


if __name__ == '__main__':
    sys.exit(main())
