#!/usr/bin/env python3
"""Runs rows of gpu_rows.py, ours and the peers by turns on the machine at hand, and appends one JSON object a row to a file.

    gpu_bench.py --trireme 'build/bundle/run trireme' --results build/bench-gpu.jsonl 124M 1.3B

Every run makes 25 steps; the median of the last 20 counts. Of a run with several candidates the fastest counts; all are
printed. A row ends after --limit seconds (default 480): what was not reached is said and recorded as missing.
"""
import argparse
import array
import json
import os
import pathlib
import random
import re
import shlex
import signal
import statistics
import struct
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import gpu_rows

STEPS, WARM_UP = 25, 5
HERE = pathlib.Path(__file__).resolve().parent


def write_random_tokens(prefix, tokens):
    """An indexed data set of one document: int32 tokens below 50000 in PREFIX.bin, the index in PREFIX.idx."""
    chosen = random.Random(1)
    values = array.array('i', chosen.choices(range(50000), k=min(tokens, 1 << 20)))
    while len(values) < tokens:
        values.extend(values[:tokens - len(values)])
    with open(f'{prefix}.bin', 'wb') as file:
        values.tofile(file)
    with open(f'{prefix}.idx', 'wb') as file:
        file.write(b'MMIDIDX\0\0' + struct.pack('<QBQQ', 1, 4, 1, 2) + struct.pack('<iqqq', len(values), 0, 0, 1))


def gpus():
    """The names of the GPUs here, or none."""
    try:
        answer = subprocess.run(['nvidia-smi', '--query-gpu=name,driver_version', '--format=csv,noheader'],
                                capture_output=True, text=True, check=True)
        return answer.stdout.strip().splitlines()
    except (OSError, subprocess.CalledProcessError):
        return []


def run_limited(command, seconds, environment):
    """Output and exit code; the whole process group ends when time is up."""
    process = subprocess.Popen([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                               start_new_session=True, env=environment)
    try:
        output, _ = process.communicate(timeout=max(1, seconds))
        return output, process.returncode
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        output, _ = process.communicate()
        return output, None
    except BaseException:  # ended from outside: nothing of ours may go on holding the GPUs
        os.killpg(process.pid, signal.SIGKILL)
        raise


def our_command(args, run, data):
    launch = shlex.split(args.mpirun) + ['-np', run.ranks] if run.ranks > 1 else []
    return [*launch, *shlex.split(args.trireme), 'pretrain', *run.arguments, '--tokenizer-type', 'NullTokenizer', '--data-path',
            data, '--split', '1,0,0', '--train-iters', STEPS, '--lr', 1e-4, '--log-interval', 1, '--device', args.device,
            *(['--bf16'] if args.device == 'cuda' else [])]


def our_figures(output):
    seconds = [1e-3 * float(ms) for ms in re.findall(r'elapsed time per iteration \(ms\): ([0-9.]+)', output)]
    losses = [float(loss) for loss in re.findall(r'lm loss: ([0-9.E+-]+)', output)]
    if len(seconds) != STEPS:
        return None
    kept = {'seconds': statistics.median(seconds[WARM_UP:]), 'first loss': losses[0], 'last loss': losses[-1]}
    memory = re.search(r'^memory .*', output, re.MULTILINE)
    if memory:
        kept['memory'] = memory.group(0)
    backend = re.search(r'CUDA, .*', output)  # GPU, libraries, and who computes attention
    if backend:
        kept['backend'] = backend.group(0)
    return kept


def torch_command(args, run):
    script = HERE / ('torch_multi.py' if run.kind == 'torchrun' else 'torch_gpt.py')
    start = [args.python, '-m', 'torch.distributed.run', '--standalone', '--nproc-per-node', run.ranks] \
        if run.kind == 'torchrun' else [args.python]
    return [*start, script, *run.arguments, '--steps', STEPS]


def torch_figures(output):
    found = re.search(r'^TORCH.* step=([0-9.]+)s tok/s=([0-9.]+).* mem=([0-9.]+)GiB', output, re.MULTILINE)
    return {'tokens per second': float(found.group(2)), 'memory': f'{found.group(3)} GiB'} if found else None


def measure(args, run, data, seconds_left):
    environment = dict(os.environ)
    if run.ranks == 1 and args.device == 'cuda':
        environment['CUDA_VISIBLE_DEVICES'] = os.environ.get('CUDA_VISIBLE_DEVICES', '0').split(',')[0]
    command = our_command(args, run, data) if run.kind == 'ours' else torch_command(args, run)
    start = time.time()
    output, code = run_limited(command, seconds_left, environment)
    took = time.time() - start
    if args.logs:
        pathlib.Path(args.logs).mkdir(parents=True, exist_ok=True)
        name = re.sub('[^A-Za-z0-9.-]+', '_', f'{args.row_name}-{args.run_label}-{run.label}')
        (pathlib.Path(args.logs) / f'{name}.log').write_text(shlex.join(str(word) for word in command) + '\n' + output)
    figures = None
    if code == 0:
        figures = our_figures(output) if run.kind == 'ours' else torch_figures(output)
    result = {'candidate': run.label, 'options': [str(word) for word in run.arguments], 'wall seconds': round(took, 1)}
    if figures is None:
        why = 'out of time' if code is None else next((line.strip() for line in output.splitlines()
                                                       if re.search(r'error:|Error|cannot', line)), f'ended with {code}')
        return {**result, 'failed': why[:300]}
    if 'seconds' in figures:
        figures['tokens per second'] = run.tokens / figures['seconds']
    return {**result, **figures}


MEASURED = {}  # of this process: several rows share a run


def measure_once(args, run, data, seconds_left):
    key = (run.kind, run.ranks, *(str(word) for word in run.arguments))
    if key not in MEASURED:
        MEASURED[key] = measure(args, run, data, seconds_left)
    return MEASURED[key]


def run_row(args, row, data, have):
    print(f'{row.name}: {row.what}', flush=True)
    if row.missing:
        print(f'  not run: {row.missing}')
        return None
    if args.device == 'cuda' and len(have) < row.gpus:
        print(f'  not run: it needs {row.gpus} GPUs and this machine has {len(have)}')
        return None
    end = time.time() + args.limit
    results = {}
    for label, candidates in row.runs.items():
        if label in args.without:
            continue
        tried = []
        for run in candidates[:args.candidates]:
            args.row_name, args.run_label = row.name, label
            left = end - time.time()
            result = measure_once(args, run, data, left) if left > 0 else {'candidate': run.label, 'failed': 'out of time'}
            tried.append(result)
            speed = f"{result['tokens per second']:.0f} tokens/s" if 'failed' not in result else result['failed']
            print(f"  {label:10} {run.label:16} {speed}  ({result.get('wall seconds', 0)} s)", flush=True)
        good = [result for result in tried if 'failed' not in result]
        results[label] = {'best': max(good, key=lambda result: result['tokens per second']) if good else None, 'sweep': tried}
    record = {'row': row.name, 'when': time.strftime('%Y-%m-%d %H:%M:%S'), 'version': args.version, 'gpus': have,
              'device': args.device, 'steps': STEPS, 'warm up': WARM_UP, 'runs': results}
    return record


def main():
    signal.signal(signal.SIGTERM, lambda *_: sys.exit('bench-gpu: ended from outside'))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('rows', nargs='+')
    parser.add_argument('--trireme', required=True)
    parser.add_argument('--results', required=True)
    parser.add_argument('--python', default=sys.executable)
    parser.add_argument('--mpirun', default='mpirun --oversubscribe')
    parser.add_argument('--device', default='cuda', choices=['cuda', 'cpu'])
    parser.add_argument('--limit', type=float, default=480)
    parser.add_argument('--candidates', type=int, default=99, help='at most so many of each sweep, the likeliest first')
    parser.add_argument('--without', action='append', default=[], help='a label of runs to leave out, such as "any order"')
    parser.add_argument('--logs', default='')
    args = parser.parse_args()
    rows = [(name, gpu_rows.find(name)) for name in args.rows]
    unknown = [name for name, row in rows if row is None]
    if unknown:
        sys.exit(f"bench-gpu: there is no row {', '.join(unknown)}\n  rows: {' '.join(row.name for row in gpu_rows.ROWS)}")
    version = subprocess.run([*shlex.split(args.trireme), '--version'], capture_output=True, text=True)
    args.version = version.stdout.strip().splitlines()[0] if version.stdout.strip() else 'unknown'
    have = gpus()
    failed = False
    with tempfile.TemporaryDirectory() as folder:
        data = f'{folder}/random'
        write_random_tokens(data, 1 << 23)
        for _, row in rows:
            record = run_row(args, row, data, have)
            if record is None:
                continue
            with open(args.results, 'a') as file:
                file.write(json.dumps(record) + '\n')
            failed = failed or any(run['best'] is None for label, run in record['runs'].items() if row.runs[label][0].kind == 'ours')
    return 1 if failed else 0


if __name__ == '__main__':
    sys.exit(main())
