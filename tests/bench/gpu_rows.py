"""The rows of the GPU comparison: what is run, beside what, and which ratio is asked for.

A row has runs by label. Each run is a list of candidates, its sweep (usually micro-batches), the likeliest first; the
fastest counts.
`ours` candidates are options of `trireme pretrain`, `torch` ones arguments of a script beside this file. A comparison is
(label, other label, factor, floor, goal): tokens/s of label / (factor x tokens/s of other) should reach the floor.
`table`: tokens/s of the best peer measured on H200s of 2026-11-29, bf16, random tokens, dropout 0 (README, docs/performance.md).
"""
from dataclasses import dataclass, field


@dataclass
class Run:
    kind: str  # ours, torch (one GPU), torchrun (several)
    ranks: int
    tokens: int  # of a step, for the candidate at hand
    arguments: list
    label: str = ''  # of the candidate: "micro-batch 8"


@dataclass
class Row:
    name: str
    what: str
    gpus: int
    runs: dict
    comparisons: list = field(default_factory=list)
    table: float = 0
    table_of: str = ''
    scaled_by: str = ''  # the table's figure came from a program that is not here: scale it by this row's peer
    floor_of_table: tuple = ()
    missing: str = ''  # why the row cannot run yet


def shape(layers, hidden, heads, sequence):
    return ['--num-layers', layers, '--hidden-size', hidden, '--num-attention-heads', heads, '--seq-length', sequence,
            '--max-position-embeddings', sequence, '--vocab-size', 50257, '--hidden-dropout', 0, '--attention-dropout', 0]


def qwen(layers, hidden, ffn, heads, groups, sequence, vocabulary, extra=()):
    """The shapes of Qwen 2.5; job_templates/configs/ has them too, with settings of a long run that a row must not have."""
    return ['--num-layers', layers, '--hidden-size', hidden, '--ffn-hidden-size', ffn, '--num-attention-heads', heads,
            '--group-query-attention', '--num-query-groups', groups, '--seq-length', sequence, '--max-position-embeddings',
            sequence, '--position-embedding-type', 'rope', '--rotary-base', 1000000, '--normalization', 'RMSNorm',
            '--norm-epsilon', 1e-6, '--swiglu', '--disable-bias-linear', '--add-qkv-bias', '--vocab-size', vocabulary,
            '--hidden-dropout', 0, '--attention-dropout', 0, *extra]


def ours(model, sequence, micro_batches, accumulated=1, ranks=1, data=1, extra=()):
    """A micro-batch may be a pair with a number of accumulations of its own."""
    result = []
    for candidate in micro_batches:
        micro, steps = candidate if isinstance(candidate, tuple) else (candidate, accumulated)
        batch = micro * steps * data
        result.append(Run('ours', ranks, batch * sequence,
                          [*model, '--micro-batch-size', micro, '--global-batch-size', batch, *extra],
                          f'micro-batch {micro}'))
    return result


def torch(layers, hidden, heads, sequence, micro_batches, accumulated=1, ranks=1, mode='', extra=()):
    result = []
    for micro in micro_batches:
        arguments = ['--layers', layers, '--hidden', hidden, '--heads', heads, '--seq', sequence, '--mbs', micro,
                     '--accum', accumulated, *(['--mode', mode] if mode else []), *extra]
        data = ranks if mode in ('fsdp', 'ddp') else 1
        result.append(Run('torchrun' if mode else 'torch', ranks, micro * accumulated * sequence * data, arguments,
                          f'micro-batch {micro}'))
    return result


GPT_124M, GPT_1_3B, GPT_1_56B, GPT_7B = (12, 768, 12, 1024), (24, 2048, 16, 2048), (48, 1600, 25, 1024), (32, 4096, 32, 2048)
QWEN_1_5B = qwen(28, 1536, 8960, 12, 2, 1024, 151936)
QWEN_7B = qwen(28, 3584, 18944, 28, 4, 2048, 152064, ['--untie-embeddings-and-output-weights'])
DROPOUT = ['--hidden-dropout', 0.1, '--attention-dropout', 0.1]
ANY_ORDER = ['--no-deterministic']  # printed beside the default, which counts
ZERO_1 = ['--use-distributed-optimizer', '--overlap-grad-reduce', '--overlap-param-gather']
FULL = ['--recompute-granularity', 'full', '--recompute-method', 'uniform', '--recompute-num-layers', 1]
SELECTIVE = ['--recompute-granularity', 'selective']
TP_2 = ['--tensor-model-parallel-size', 2, '--sequence-parallel']
PP_2 = ['--pipeline-model-parallel-size', 2]
# Of 7B on two stages: 16 layers of 201.4 M matrix parameters each, and the logits layer of 206.0 M on the last; attention scores
# add 2048 / (6 x 4096) to the layers' work. Mean over heaviest stage; and the bubble of 1F1B with 16 micro-batches is 1 / 17.
LAYERS_WORK = 16 * 201.4 * (1 + 2048 / (12 * 4096))
BALANCE = (LAYERS_WORK + 206.0 / 2) / (LAYERS_WORK + 206.0)


def one(shape_of):
    return shape(*shape_of)


def against_torch(name, what, of, micro, accumulated, floor, goal, table, table_of):
    return Row(name, what, 1,
               {'ours': ours(one(of), of[3], micro[0], accumulated), 'PyTorch': torch(*of, micro[1], accumulated),
                'any order': ours(one(of), of[3], micro[0][:1], accumulated, extra=ANY_ORDER)},
               [('ours', 'PyTorch', 1, floor, goal)], table, table_of)


def llmq(name, what, gpus, model, sequence, micro, accumulated, table, extra=()):
    return Row(name, what, gpus,
               {'ours': ours(model, sequence, micro, accumulated, gpus, gpus, extra),
                'any order': ours(model, sequence, micro[:1], accumulated, gpus, gpus, [*extra, *ANY_ORDER])}, [], table, 'LLM.Q',
               scaled_by='7B', floor_of_table=(0.98, 1.05))


ROWS = [
    against_torch('124M', '12 layers, hidden 768, 12 heads, sequence 1024', GPT_124M, ([64, 32], [64, 32]), 1, 1.03, 1.08,
                  550_000, 'PyTorch'),
    against_torch('1.3B', '24 layers, hidden 2048, 16 heads, sequence 2048', GPT_1_3B, ([8, 16], [8, 16]), 1, 1.05, 1.15,
                  61_600, 'PyTorch'),
    against_torch('1.56B', '48 layers, hidden 1600, 25 heads, sequence 1024', GPT_1_56B, ([16], [16]), 1, 1.05, 1.15,
                  48_200, 'llm.c'),
    against_torch('7B', '32 layers, hidden 4096, 32 heads, sequence 2048, 8 sequences a step', GPT_7B, ([(4, 2), 2], [2]), 4,
                  1.05, 1.15, 13_060, 'PyTorch'),
    llmq('Qwen2.5-1.5B', 'sequence 1024', 1, QWEN_1_5B, 1024, [32, 16], 1, 61_000),
    llmq('Qwen2.5-7B', 'sequence 2048, 32 sequences a step', 1, QWEN_7B, 2048, [(2, 16), (1, 32)], 1, 13_480),
    llmq('Qwen2.5-7B-2', 'on two GPUs, ZeRO-1', 2, QWEN_7B, 2048, [5, 4, 2], 4, 27_500, ZERO_1),
    Row('1.56B-2', 'on two GPUs, data parallel, ZeRO-1', 2,
        {'ours': ours(one(GPT_1_56B), 1024, [16], 1, 2, 2, ZERO_1),
         'DDP': torch(*GPT_1_56B, [16], 1, 2, 'ddp')},
        [('ours', 'DDP', 1, 1.05, 1.15)], 92_100, 'llm.c ZeRO-1'),
    Row('7B-dp2', 'on two GPUs: data parallel, ZeRO-1', 2,
        {'ours': ours(one(GPT_7B), 2048, [7, 6, 4], 1, 2, 2, ZERO_1),
         'one GPU': ours(one(GPT_7B), 2048, [(4, 2), 2], 4),
         'FSDP2': torch(*GPT_7B, [6], 1, 2, 'fsdp')},
        [('ours', 'FSDP2', 1, 1.08, 1.15), ('ours', 'one GPU', 2, 0.97, 0.99)], 25_050, 'FSDP2'),
    Row('7B-tp2', 'on two GPUs: tensor parallel with sequence parallelism', 2,
        {'ours': ours(one(GPT_7B), 2048, [(12, 1), (8, 1), (4, 2)], 1, 2, 1, TP_2),
         'our DP2': ours(one(GPT_7B), 2048, [7, 6, 4], 1, 2, 2, ZERO_1)},
        [('ours', 'our DP2', 1, 0.90, 0.95)]),
    Row('7B-pp2', 'on two GPUs: pipeline, 16 micro-batches, 1F1B; the floor is within 3 % of 2 x one GPU x (1 - bubble) x mean / '
        'heaviest stage', 2,
        {'ours': ours(one(GPT_7B), 2048, [4, 2], 16, 2, 1, PP_2), 'one GPU': ours(one(GPT_7B), 2048, [(4, 2), 2], 4)},
        [('ours', 'one GPU', 2 * 16 / 17 * BALANCE, 0.97, 1)]),
    Row('7B-pp2-zb', 'the same with zero bubble, nearer to 2 x', 2,
        {'ours': ours(one(GPT_7B), 2048, [4, 2], 16, 2, 1, [*PP_2, '--pipeline-schedule', 'zb-h1']),
         'one GPU': ours(one(GPT_7B), 2048, [(4, 2), 2], 4)},
        [('ours', 'one GPU', 2 * BALANCE, 0.97 * 16 / 17, 1)]),
    Row('recompute-full', '1.3B, same micro-batch', 1,
        {'ours': ours(one(GPT_1_3B), 2048, [8], 1, extra=FULL), 'kept': ours(one(GPT_1_3B), 2048, [8])},
        [('ours', 'kept', 1, 0.77, 0.8)]),
    Row('recompute-selective', '1.3B, same micro-batch', 1,
        {'ours': ours(one(GPT_1_3B), 2048, [8], 1, extra=SELECTIVE), 'kept': ours(one(GPT_1_3B), 2048, [8])},
        [('ours', 'kept', 1, 0.95, 1)]),
    Row('7B-dropout', 'dropout 0.1 of both kinds', 1,
        {'ours': ours(one(GPT_7B), 2048, [2], 4, extra=DROPOUT), 'without': ours(one(GPT_7B), 2048, [2], 4)},
        [('ours', 'without', 1, 0.85, 0.95)]),
    Row('1.3B-dropout', 'dropout 0.1 of both kinds', 1,
        {'ours': ours(one(GPT_1_3B), 2048, [8], extra=DROPOUT), 'without': ours(one(GPT_1_3B), 2048, [8])},
        [('ours', 'without', 1, 0.85, 0.95)]),
    # A few seconds on any machine, GPU or not: whether the benchmark itself works.
    Row('smoke', '2 layers, hidden 64, 4 heads, sequence 32: no measurement', 0,
        {'ours': ours(shape(2, 64, 4, 32), 32, [2, 4]), 'PyTorch': torch(2, 64, 4, 32, [2])},
        [('ours', 'PyTorch', 1, 0, 0)]),
]


def find(name):
    for row in ROWS:
        if row.name == name:
            return row
    return None
