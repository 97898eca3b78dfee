#!/usr/bin/env python3
"""Prints the table of what gpu_bench.py has recorded: the last record of each row, its ratios beside floor and goal, and what
the peer was here against the figure that the project's table names (below 95 % it is said).   gpu_report.py build/bench-gpu.jsonl
"""
import json
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import gpu_rows


def speed_of(record, label):
    best = record['runs'].get(label, {}).get('best') if record else None
    return best['tokens per second'] if best else None


def peer_of(row):
    """The label of the run that another program makes, if any."""
    return next((label for label, runs in row.runs.items() if runs[0].kind != 'ours'), None)


def machine_scale(record, scales):
    """PyTorch on 7B over the table's figure, from the last record of the same build as this one, since machines differ by percents;
    else the last of any."""
    row = gpu_rows.find('7B')
    of_build = [one for one in scales if record and one['version'] == record['version']]
    measured = speed_of((of_build or scales)[-1], peer_of(row)) if scales else None
    return measured / row.table if measured else None


def verdict(ratio, floor, goal):
    return 'goal reached' if ratio >= goal else 'floor reached' if ratio >= floor else 'SHORT'


def lines_of(row, record, scale):
    if record is None:
        return ['    ' + (f'not run: {row.missing}' if row.missing else 'not run')]
    lines = []
    for label, run in record['runs'].items():
        best = run['best']
        if best is None:
            lines.append(f"    {label:12} failed: {'; '.join(one['failed'] for one in run['sweep'])}")
            continue
        sweep = ', '.join(f"{one['candidate']}: {one['tokens per second']:.0f}" if 'failed' not in one
                          else f"{one['candidate']}: {one['failed']}" for one in run['sweep'])
        lines.append(f"    {label:12} {best['tokens per second']:9.0f} tokens/s   ({sweep})")
    for label, other, factor, floor, goal in row.comparisons:
        mine, theirs = speed_of(record, label), speed_of(record, other)
        if mine is None or theirs is None:
            lines.append(f'    {label} / {other}: not both were measured')
            continue
        ratio = mine / (factor * theirs)
        of = f'{other}' if factor == 1 else f'({factor:.3f} x {other})'
        lines.append(f'    {label} / {of} = {ratio:.3f}   floor {floor:.3g}, goal {goal:.3g}: {verdict(ratio, floor, goal)}')
    if row.table:
        peer = speed_of(record, peer_of(row)) if peer_of(row) else None
        if row.floor_of_table and speed_of(record, 'ours'):
            if scale is None:
                lines.append(f'    {row.table_of} made {row.table:.0f} on another day; row {row.scaled_by} is needed to scale it')
            else:
                ratio, (floor, goal) = speed_of(record, 'ours') / (row.table * scale), row.floor_of_table
                lines.append(f'    ours / ({row.table_of} {row.table:.0f} x {scale:.3f}) = {ratio:.3f}   floor {floor}, goal {goal}: '
                             f'{verdict(ratio, floor, goal)}')
        elif speed_of(record, 'ours'):
            lines.append(f"    ours / {row.table_of}'s {row.table:.0f} in the table = {speed_of(record, 'ours') / row.table:.3f}")
        if peer and row.table_of.startswith(peer_of(row)):
            share = peer / row.table
            lines.append(f'    {peer_of(row)} here against the table: {100 * share:.1f} %'
                         + (': BELOW 95 %, read the ratio with care' if share < 0.95 else ''))
    return lines


def main():
    if len(sys.argv) < 2:
        sys.exit('usage: gpu_report.py RESULTS.jsonl...')
    records, scales = {}, []
    for path in filter(os.path.exists, sys.argv[1:]):
        with open(path) as file:
            read = list(map(json.loads, file))
        records.update((record['row'], record) for record in read)
        scales += [record for record in read if record['row'] == '7B' and speed_of(record, peer_of(gpu_rows.find('7B')))]
    if not records:
        sys.exit(f"bench-report: nothing was measured yet (make bench-gpu ROW=124M): {', '.join(sys.argv[1:])}")
    for row in gpu_rows.ROWS:
        record = records.get(row.name)
        where = f"   [{record['when']}, {', '.join(sorted(set(record['gpus']))) or record['device']}, {record['version']}]" if record else ''
        if row.name == 'smoke' and record is None:
            continue
        print(f'{row.name}: {row.what}{where}')
        print('\n'.join(lines_of(row, record, machine_scale(record, scales))))
    return 0


if __name__ == '__main__':
    sys.exit(main())
