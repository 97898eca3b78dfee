#!/bin/bash
# 124 M, 50 steps: the losses of bf16 within 0.5 % of PyTorch's in fp32 on the same GPU, from the same weights and samples.
# shellcheck source=tests/support/program_test.sh
. tests/support/program_test.sh
python=${PYTHON:-python3}
if ! "$python" -c 'import torch, transformers, sys; sys.exit(not torch.cuda.is_available())' 2>/dev/null; then
    echo "ok losses of 124 M beside PyTorch # SKIP needs torch: $python has no torch that sees a GPU, or no transformers"
    exit 0
fi
hang=600 started 1 "$python" tests/gpu/torch_loss.py "$programs"
if [[ $status == 0 ]]; then
    echo "# $output"
    ok "losses of 124 M in bf16 within 0.5 % of PyTorch in fp32"
else
    not_ok "losses of 124 M in bf16 within 0.5 % of PyTorch in fp32" "exit code $status" "$output" "${errors:0:2000}"
fi
