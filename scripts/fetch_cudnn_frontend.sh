#!/bin/sh
# Fetches the headers of NVIDIA's cudnn-frontend (the PyPI wheel, which holds them) and unzips them into a folder of the
# build; nothing is installed. Does nothing when the build has no CUDA or they are there. Without network a build that does
# not demand them (CUDA=1 does) goes on: own attention kernels serve then. usage: fetch_cudnn_frontend.sh FOLDER
set -u
folder=$1
version=1.12.0
nvcc=${NVCC:-$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)}
[ "${CUDA:-auto}" != 0 ] && command -v "$nvcc" >/dev/null 2>&1 || exit 0
[ -z "${CUDNN_FRONTEND_ROOT-}" ] && [ ! -f "$folder/include/cudnn_frontend.h" ] || exit 0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
if python3 -m pip download -q --disable-pip-version-check --no-deps --only-binary=:all: --python-version 3.11 \
    --implementation cp --platform manylinux_2_27_x86_64 --platform manylinux_2_28_x86_64 \
    --platform manylinux_2_27_aarch64 --platform manylinux_2_28_aarch64 -d "$work" \
    "nvidia-cudnn-frontend==$version" >"$work/log" 2>&1 &&
    python3 -m zipfile -e "$work"/*.whl "$work/wheel" && [ -f "$work/wheel/include/cudnn_frontend.h" ]; then
    mkdir -p "$folder"
    rm -rf "$folder/include"
    mv "$work/wheel/include" "$folder/include"
    cp "$work"/wheel/*.dist-info/*LICENSE* "$folder/" 2>/dev/null || true
    echo "deps: cudnn-frontend $version unzipped into $folder"
    exit 0
fi
echo "deps: cudnn-frontend $version could not be fetched with pip:" >&2
tail -n 1 "$work/log" >&2
echo "deps: try: CUDNN_FRONTEND_ROOT=a folder with include/cudnn_frontend.h, or =none: own, slower attention kernels" >&2
[ "${CUDA:-auto}" != 1 ] || exit 1
