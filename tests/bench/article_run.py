#!/usr/bin/env python3
"""The article's run: a GPT of 6.66 billion parameters (32 layers, hidden 4096, 32 heads, sequence 2048) on eight GPUs of one node.

    article_run.py --trireme 'build/bundle/run trireme' --results build/article-run.jsonl tp4-pp2 dp8-zero1
    article_run.py --report build/article-run.jsonl

Layouts make 30 steps of the same global batch of 16 sequences, except one-gpu and dp8-zero1-64 (8 a GPU, as much as one GPU
gets by itself); medians are of the steps after the tenth. `checkpoint` saves at TP 4 x PP 2 and resumes at TP 2 x DP 4,
`killed-rank` kills one rank of a running job. The report puts what `trireme plan` foresees beside what was measured.
With --model tiny --device cpu all of it runs on CPU ranks in a minute or two: that proves the script, not a speed.
"""
import argparse
import json
import os
import pathlib
import re
import shlex
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import gpu_bench

STEPS, WARM_UP = 30, 10
MODELS = {
    '7b': ['--num-layers', 32, '--hidden-size', 4096, '--num-attention-heads', 32, '--seq-length', 2048,
           '--max-position-embeddings', 2048, '--vocab-size', 50257],
    'tiny': ['--num-layers', 8, '--hidden-size', 64, '--num-attention-heads', 8, '--seq-length', 32,
             '--max-position-embeddings', 32, '--vocab-size', 50000],
}
SEQUENCE = {'7b': 2048, 'tiny': 32}
CONSTANT = ['--hidden-dropout', 0, '--attention-dropout', 0]


def grid(tensor=1, pipeline=1, *more):
    words = ['--tensor-model-parallel-size', tensor, '--pipeline-model-parallel-size', pipeline]
    if tensor > 1:
        words.append('--sequence-parallel')
    return [*words, *more]


ZERO_1 = ['--use-distributed-optimizer', '--overlap-grad-reduce', '--overlap-param-gather']
# name: (ranks, micro-batch, global batch, options)
LAYOUTS = {
    'one-gpu': (1, 2, 8, []),
    'tp4-pp2': (8, 1, 16, grid(4, 2)),
    'tp4-pp2-interleaved': (8, 1, 16, grid(4, 2, '--num-layers-per-virtual-pipeline-stage', 'QUARTER')),
    'tp4-pp2-zb-h1': (8, 1, 16, grid(4, 2, '--pipeline-schedule', 'zb-h1')),
    'tp8': (8, 1, 16, grid(8)),
    'tp2-pp4': (8, 1, 16, grid(2, 4)),
    'tp2-dp4': (8, 1, 16, grid(2, 1, *ZERO_1)),
    'dp8-zero1': (8, 2, 16, ZERO_1),
    'dp8-zero1-64': (8, 2, 64, ZERO_1),
}
OTHERS = ['checkpoint', 'killed-rank']
RANKED = [name for name, (ranks, _, batch, _) in LAYOUTS.items() if ranks == 8 and batch == 16]


def options_of(args, name):
    """Of trireme pretrain and plan."""
    _, micro, batch, words = LAYOUTS[name]
    quarter = MODELS[args.model][1] // 4
    words = [quarter if word == 'QUARTER' else word for word in words]
    precision = ['--bf16'] if args.device == 'cuda' else []
    return [*MODELS[args.model], *CONSTANT, '--micro-batch-size', micro, '--global-batch-size', batch, *words, *precision]


def pretrain(args, name, steps, *more):
    ranks = LAYOUTS[name][0]
    launch = shlex.split(args.mpirun) + ['-np', ranks] if ranks > 1 else []
    return [*launch, *shlex.split(args.trireme), 'pretrain', *options_of(args, name), '--tokenizer-type', 'NullTokenizer',
            '--data-path', args.data, '--split', '1,0,0', '--train-iters', steps, '--lr', 1e-4, '--lr-decay-style', 'constant',
            '--log-interval', 1, '--eval-interval', 10**6, '--device', args.device, *more]


class MemoryWatch(threading.Thread):
    """The most that any GPU has in use, in MiB, sampled twice a second."""

    def __init__(self):
        super().__init__(daemon=True)
        self.most, self.ended = 0, threading.Event()

    def run(self):
        while not self.ended.wait(0.5):
            try:
                answer = subprocess.run(['nvidia-smi', '--query-gpu=memory.used', '--format=csv,noheader,nounits'],
                                        capture_output=True, text=True, check=True).stdout
                self.most = max(self.most, *(int(line) for line in answer.split()))
            except (OSError, ValueError, subprocess.CalledProcessError):
                return

    def close(self):
        self.ended.set()
        self.join()
        return self.most


def run(args, what, command, seconds):
    """Output of a run that must succeed."""
    print(f'  {what}', flush=True)
    output, code = gpu_bench.run_limited(command, seconds, dict(os.environ))
    if args.logs:
        pathlib.Path(args.logs).mkdir(parents=True, exist_ok=True)
        (pathlib.Path(args.logs) / f"{re.sub('[^a-z0-9]+', '-', what.lower())}.log").write_text(
            shlex.join(map(str, command)) + '\n' + output)
    if code != 0:
        line = next((line.strip() for line in output.splitlines() if 'error:' in line), '')
        raise RuntimeError(f"{what}: {'out of time' if code is None else f'ended with {code}'} {line}")
    return output


def steps_of(output):
    """[(milliseconds, loss)] of each logged step."""
    times = [float(ms) for ms in re.findall(r'elapsed time per iteration \(ms\): ([0-9.]+)', output)]
    losses = [float(loss) for loss in re.findall(r'lm loss: ([0-9.E+-]+)', output)]
    return list(zip(times, losses))


def shares_of(output):
    """Percent of a step by kind of work, mean of ranks: the median of the lines after the warm-up."""
    lines = [line for line in output.splitlines() if line.startswith(' timing (ms a step')][WARM_UP:]
    found = {}
    for line in lines:
        for name, share in re.findall(r'(?::|\|) ([a-z][a-z /-]*?) [0-9.]+ ([0-9.]+) %', line):
            found.setdefault(name, []).append(float(share))
    return {name: statistics.median(shares) for name, shares in found.items()}


def foreseen(args, name):
    """Seconds a step, bubble in percent and the fullest rank's GiB, from `trireme plan`."""
    command = [*shlex.split(args.trireme), 'plan', *options_of(args, name), '--bf16', '--world-size', LAYOUTS[name][0],
               '--machine', args.machine]
    output = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=True).stdout
    seconds = float(re.search(r'^time +([0-9.e-]+) s a step', output, re.MULTILINE).group(1))
    bubble = re.search(r'pipeline bubble with these times ([0-9.]+) %', output)
    planned = [float(gib) for gib in re.search(r'^ +planned((?: +[0-9.]+)+)', output, re.MULTILINE).group(1).split()]
    return {'seconds': seconds, 'bubble': float(bubble.group(1)) if bubble else 0.0, 'GiB': max(planned)}


def measure_layout(args, name):
    watch = MemoryWatch()
    watch.start()
    try:
        output = run(args, name, pretrain(args, name, STEPS, '--timing-log-level', 1), args.limit)
    finally:
        most = watch.close()
    steps = steps_of(output)[WARM_UP:]
    ranks, _, batch, _ = LAYOUTS[name]
    seconds = statistics.median(ms for ms, _ in steps) / 1e3
    rate = re.findall(r'throughput per rank \(TFLOP/s/rank\): ([0-9.e+-]+)', output)[WARM_UP:]
    return {'seconds': seconds, 'tokens per second': batch * SEQUENCE[args.model] / seconds, 'ranks': ranks,
            'TFLOP/s a GPU': statistics.median(map(float, rate)), 'shares': shares_of(output), 'used MiB': most,
            'last loss': steps[-1][1], 'plan': foreseen(args, name)}


def size_of(folder):
    return sum(file.stat().st_size for file in pathlib.Path(folder).rglob('*') if file.is_file())


def measure_checkpoint(args, _):
    """Saved at TP 4 x PP 2, resumed at TP 2 x DP 4: next losses, and what saving and loading cost."""
    with tempfile.TemporaryDirectory(dir=args.folder) as folder:
        first = run(args, 'saved at TP 4 x PP 2', pretrain(args, 'tp4-pp2', 6, '--save', folder), args.limit)
        size = size_of(f'{folder}/iter_0000006')
        saved = float(re.search(r'saved \S+ in ([0-9.]+) s', first).group(1))
        went_on = run(args, 'goes on at TP 4 x PP 2', pretrain(args, 'tp4-pp2', 12, '--load', folder), args.limit)
        resumed = run(args, 'resumed at TP 2 x DP 4', pretrain(args, 'tp2-dp4', 12, '--load', folder), args.limit)
        loaded = float(re.search(r'loaded in ([0-9.]+) s', resumed).group(1))
        pairs = [(a, b) for (_, a), (_, b) in zip(steps_of(went_on), steps_of(resumed))]
        if len(pairs) != 6:
            raise RuntimeError(f'{len(pairs)} steps after the resume, not 6')
    with tempfile.TemporaryDirectory(dir=args.folder) as folder:
        alone = run(args, 'saved beside training', pretrain(args, 'tp4-pp2', 14, '--save', folder, '--save-interval', 12,
                                                            '--no-save-on-exit', '--async-save'), args.limit)
        times = [ms for ms, _ in steps_of(alone)]
    return {'bytes': size, 'save seconds': saved, 'load seconds': loaded,
            'losses': pairs, 'largest difference': max(abs(a - b) / a for a, b in pairs),
            'step ms': statistics.median(times[3:11]), 'step ms beside async save': times[12]}


def rank_of(pid):
    try:
        words = pathlib.Path(f'/proc/{pid}/environ').read_bytes().split(b'\0')
    except OSError:
        return None
    found = [word for word in words if word.startswith((b'OMPI_COMM_WORLD_RANK=', b'PMIX_RANK='))]
    return int(found[0].split(b'=')[1]) if found else None


def descendants(pid):
    below = {}
    for entry in pathlib.Path('/proc').iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / 'stat').read_text().rsplit(')', 1)[1].split()
            except OSError:
                continue
            below.setdefault(int(fields[1]), []).append(int(entry.name))
    found, front = [], [pid]
    while front:
        front = [child for parent in front for child in below.get(parent, [])]
        found += front
    return found


def measure_killed_rank(args, _):
    """Rank 5 is killed in the middle of a step: how long until all have ended, and who is named."""
    victim = 5
    print('  one rank is killed', flush=True)
    with tempfile.TemporaryFile('w+') as log:
        job = subprocess.Popen([str(word) for word in pretrain(args, 'tp4-pp2', 10**6)], stdout=log, stderr=subprocess.STDOUT,
                               start_new_session=True)
        try:
            end = time.time() + args.limit
            text = ''
            while len(steps_of(text)) < 5:
                if job.poll() is not None or time.time() > end:
                    raise RuntimeError('the run made no five steps')
                time.sleep(0.2)
                log.seek(0)
                text = log.read()
            pids = [pid for pid in descendants(job.pid) if rank_of(pid) == victim]
            ranks = [pid for pid in pids if 'trireme' in os.readlink(f'/proc/{pid}/exe')]
            if not ranks:
                raise RuntimeError(f'no process is rank {victim}')
            os.kill(ranks[-1], signal.SIGKILL)
            killed = time.time()
            job.wait(timeout=120)
            took = time.time() - killed
        except BaseException:
            os.killpg(job.pid, signal.SIGKILL)
            raise
        log.seek(len(text.encode()))
        after = log.read()
    naming = [line.strip() for line in after.splitlines() if re.search(rf'rank {victim}\b', line)]
    if not naming:
        raise RuntimeError(f'no message names rank {victim}: {after[-2000:]}')
    return {'seconds': took, 'exit': job.returncode, 'message': naming[0]}


def report(file):
    with open(file) as lines:
        records = {record['row']: record for record in map(json.loads, lines)}
    measured = {name: records[name]['result'] for name in LAYOUTS if name in records}
    print('| layout | tokens/s | TFLOP/s a GPU | step, s | foreseen | error | planned GiB | in use GiB | bubble foreseen | '
          'pipeline group |')
    print('|---|---|---|---|---|---|---|---|---|---|')
    for name, one in measured.items():
        plan = one['plan']
        print(f"| {name} | {one['tokens per second']:.0f} | {one['TFLOP/s a GPU']:.1f} | {one['seconds']:.3f} | {plan['seconds']:.3f} | "
              f"{100 * (plan['seconds'] / one['seconds'] - 1):+.1f} % | {plan['GiB']:.1f} | {one['used MiB'] / 1024:.1f} | "
              f"{plan['bubble']:.1f} % | {one['shares'].get('pipeline group', 0):.1f} % |")
    ranked = [name for name in RANKED if name in measured]
    if len(ranked) >= 3:
        seen = sorted(ranked, key=lambda name: measured[name]['seconds'])[:3]
        plan = sorted(ranked, key=lambda name: measured[name]['plan']['seconds'])[:3]
        print(f"\nfastest three: measured {', '.join(seen)}; foreseen {', '.join(plan)}: {'the same' if seen == plan else 'DIFFERENT'}")
    several = [name for name in measured if measured[name]['ranks'] == 8]
    if several and 'one-gpu' in measured:
        best = max(several, key=lambda name: measured[name]['tokens per second'])
        share = measured[best]['tokens per second'] / (8 * measured['one-gpu']['tokens per second'])
        print(f"best of eight: {best}, {100 * share:.1f} % of eight times one GPU (floor 92 %)")
        if 'tp4-pp2' in measured:
            share = measured['tp4-pp2']['tokens per second'] / measured[best]['tokens per second']
            print(f'tp4-pp2: {100 * share:.1f} % of the best (floor 75 %)')
    if 'checkpoint' in records:
        one = records['checkpoint']['result']
        gb = one['bytes'] / 1e9
        print(f"checkpoint of {gb:.2f} GB: saved in {one['save seconds']:.1f} s ({gb / max(one['save seconds'], 0.1):.2f} GB/s), loaded on "
              f"TP 2 x DP 4 in {one['load seconds']:.1f} s ({gb / max(one['load seconds'], 0.1):.2f} GB/s); largest difference of the next "
              f"losses {100 * one['largest difference']:.3f} %; a step beside --async-save {one['step ms beside async save']:.0f} ms, "
              f"{one['step ms']:.0f} without")
    if 'killed-rank' in records:
        one = records['killed-rank']['result']
        print(f"a killed rank: all ended after {one['seconds']:.1f} s (limit 60), exit code {one['exit']}: {one['message']}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('rows', nargs='*', help=' '.join([*LAYOUTS, *OTHERS]))
    parser.add_argument('--report', metavar='RESULTS', help='print the table of what was recorded')
    parser.add_argument('--trireme', default='build/bin/trireme')
    parser.add_argument('--results', default='build/article-run.jsonl')
    parser.add_argument('--mpirun', default='mpirun --oversubscribe')
    parser.add_argument('--device', default='cuda', choices=['cuda', 'cpu'])
    parser.add_argument('--machine', default='h200', help='of trireme plan')
    parser.add_argument('--model', default='7b', choices=list(MODELS))
    parser.add_argument('--folder', default=None, help='for checkpoints of 93 GB; the system\'s if not given')
    parser.add_argument('--limit', type=float, default=480, help='seconds of one run')
    parser.add_argument('--logs', default='')
    args = parser.parse_args()
    if args.report:
        return report(args.report)
    unknown = [row for row in args.rows if row not in LAYOUTS and row not in OTHERS]
    if unknown or not args.rows:
        sys.exit(f"article-run: {'there is no row ' + ', '.join(unknown) if unknown else 'no row is named'}\n  rows: "
                 + ' '.join([*LAYOUTS, *OTHERS]))
    have = gpu_bench.gpus()
    failed = False
    with tempfile.TemporaryDirectory() as folder:
        args.data = f'{folder}/random'
        gpu_bench.write_random_tokens(args.data, 1 << 23 if args.model == '7b' else 1 << 16)
        for row in args.rows:
            needed = LAYOUTS[row][0] if row in LAYOUTS else 8
            print(row, flush=True)
            if args.device == 'cuda' and len(have) < needed:
                print(f'  not run: it needs {needed} GPUs and this machine has {len(have)}')
                failed = True
                continue
            measure = {'checkpoint': measure_checkpoint, 'killed-rank': measure_killed_rank}.get(row, measure_layout)
            try:
                result = measure(args, row)
            except RuntimeError as error:
                print(f'  failed: {error}')
                failed = True
                continue
            print(f'  {json.dumps(result)}')
            with open(args.results, 'a') as file:
                file.write(json.dumps({'row': row, 'when': time.strftime('%Y-%m-%d %H:%M:%S'), 'gpus': have, 'device': args.device,
                                       'model': args.model, 'result': result}) + '\n')
    return 1 if failed else 0


if __name__ == '__main__':
    sys.exit(main())
