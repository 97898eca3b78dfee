#!/usr/bin/env python3
"""Holds Trireme against transformers both ways: models that transformers made are imported and computed by Trireme, exported
again and computed by transformers; all logits are compared, as are the bytes of all tensors.

    venv/bin/python tests/oracle/check_transformers.py [BUILD]      # torch, transformers, safetensors; BUILD: build

Prints the largest difference of each model; the exit status is 1 if one is beyond 1e-4.
"""
import os
import pathlib
import subprocess
import sys
import tempfile

import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import transformers_models as models

BOUND = 1e-4


def tensors_of(folder):
    return {name: tensor for file in folder.glob("model*.safetensors") for name, tensor in load_file(file).items()}


def same_bytes(a, b):
    return a.keys() == b.keys() and all(a[n].dtype == b[n].dtype and torch.equal(a[n].view(torch.uint8), b[n].view(torch.uint8)) for n in a)


def check(folder):
    expected = load_file(folder / "expected.safetensors")
    ours = load_file(folder / "trireme/logits.safetensors")["logits"].double()
    exported = folder / "trireme/exported"
    again = AutoModelForCausalLM.from_pretrained(exported, attn_implementation="eager", dtype=torch.float32)
    theirs = models.logits_of(again, expected["tokens"])[expected["positions"].long()].double()
    imported = (ours - expected["logits"]).abs().max().item()
    exported_difference = (theirs - ours).abs().max().item()
    same = same_bytes(tensors_of(folder), tensors_of(exported))
    print(f"  {folder.name:16} imported {imported:.1e}  exported {exported_difference:.1e}  tensors {'the same bytes' if same else 'DIFFER'}")
    return imported <= BOUND and exported_difference <= BOUND and same


def main():
    build = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "build")
    with tempfile.TemporaryDirectory() as directory:
        models.make_all(directory, models.LARGE)
        program = build / "tests/oracle/transformers_test"
        result = subprocess.run([program], env=os.environ | {"TRIREME_TRANSFORMERS": directory}, capture_output=True, text=True)
        if result.returncode != 0:
            sys.exit(result.stdout + result.stderr)
        print("largest differences of logits in fp32, Trireme against transformers:")
        good = [check(pathlib.Path(directory) / name) for name in models.LARGE]
    sys.exit(0 if all(good) else 1)


if __name__ == "__main__":
    main()
