#!/usr/bin/env python3
"""Small models of transformers with random weights, and their logits: what tests/oracle/transformers_test.cpp imports.

    venv/bin/python tests/oracle/transformers_models.py DIR [small]      # torch, transformers, safetensors

Each model has a folder: as save_pretrained() writes it, and expected.safetensors with tokens [T], positions [n] and logits
[n, V] of these positions, all as fp64. `small`: those of the repository (tests/oracle/data/transformers); without, larger ones
of several shapes.
"""
import json
import pathlib
import sys

import torch
from safetensors.torch import save_file
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM, Qwen2Config, Qwen2ForCausalLM

# Llama 3's scaling of frequencies begins at 8192 positions: base and width are such that some are stretched, some kept, one between.
LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 8192}
SMALL = {
    "gpt2": (GPT2Config(n_layer=2, n_embd=24, n_head=4, vocab_size=61, n_positions=48), {}),
    "llama": (LlamaConfig(num_hidden_layers=2, hidden_size=24, head_dim=16, intermediate_size=40, num_attention_heads=4, num_key_value_heads=2,
                          vocab_size=61, max_position_embeddings=160, rope_theta=10000.0, rope_scaling=LLAMA3, rms_norm_eps=1e-5), {}),
    # In bf16 and in pieces.
    "qwen2": (Qwen2Config(num_hidden_layers=2, hidden_size=24, intermediate_size=40, num_attention_heads=4, num_key_value_heads=2,
                          vocab_size=61, max_position_embeddings=48, rope_theta=1000000.0, tie_word_embeddings=True),
              {"dtype": torch.bfloat16, "max_shard_size": "10KB"}),
}
LARGE = {
    "gpt2": (GPT2Config(n_layer=4, n_embd=192, n_head=6, vocab_size=1031, n_positions=256), {}),
    "gpt2-untied": (GPT2Config(n_layer=2, n_embd=64, n_head=4, n_inner=96, vocab_size=300, n_positions=64, tie_word_embeddings=False,
                               layer_norm_epsilon=1e-6), {"max_shard_size": "100KB"}),
    "llama": (LlamaConfig(num_hidden_layers=4, hidden_size=192, intermediate_size=512, num_attention_heads=6, num_key_value_heads=2,
                          vocab_size=1031, max_position_embeddings=512, rope_theta=10000.0, rope_scaling=LLAMA3), {}),
    "llama-head-dim": (LlamaConfig(num_hidden_layers=2, hidden_size=96, head_dim=32, intermediate_size=128, num_attention_heads=6,
                                   num_key_value_heads=3, vocab_size=300, max_position_embeddings=128, attention_bias=True,
                                   mlp_bias=True, tie_word_embeddings=True), {}),
    "qwen2": (Qwen2Config(num_hidden_layers=4, hidden_size=192, intermediate_size=512, num_attention_heads=6, num_key_value_heads=2,
                          vocab_size=1031, max_position_embeddings=512, rope_theta=1000000.0), {"max_shard_size": "1MB"}),
    "qwen2-bf16": (Qwen2Config(num_hidden_layers=2, hidden_size=96, intermediate_size=128, num_attention_heads=6, num_key_value_heads=2,
                               vocab_size=300, max_position_embeddings=128, tie_word_embeddings=True), {"dtype": torch.bfloat16}),
}
CLASSES = {GPT2Config: GPT2LMHeadModel, LlamaConfig: LlamaForCausalLM, Qwen2Config: Qwen2ForCausalLM}


def logits_of(model, tokens):
    """[T, V] in fp32, the type that the weights have been given."""
    with torch.no_grad():
        return model.eval()(tokens[None].long()).logits[0]


def make(folder, name, config, dtype=torch.float32, max_shard_size="5GB"):
    generator = torch.Generator().manual_seed(20261130)
    config._attn_implementation = "eager"
    config.bos_token_id = config.eos_token_id = None
    model = CLASSES[type(config)](config)
    # Biases and norms too, so that each matters; of a size that keeps activations at about 1, as training does.
    for key, parameter in model.named_parameters():
        mean, deviation = 1.0 if "weight" in key and ("norm" in key or ".ln_" in key) else 0.0, config.hidden_size**-0.5
        parameter.data = (mean + deviation * torch.randn(parameter.shape, generator=generator)).to(dtype).float()
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.iterdir():
        old.unlink()
    length = getattr(config, "max_position_embeddings", None) or config.n_positions
    tokens = torch.randint(0, config.vocab_size, (length,), generator=generator)
    positions = sorted({0, 1, 2, 7, length // 2, length - 2, length - 1})
    logits = logits_of(model, tokens)[positions]
    model.to(dtype).save_pretrained(folder, max_shard_size=max_shard_size)  # rounds rope's frequencies too, so it comes last
    (folder / "generation_config.json").unlink(missing_ok=True)
    save_file({"tokens": tokens.double(), "positions": torch.tensor(positions).double(), "logits": logits.double()},
              folder / "expected.safetensors")
    print(f"{name}: {sum(p.numel() for p in model.parameters())} parameters, logits from {logits.min():.2f} to {logits.max():.2f}")


def make_all(directory, models):
    torch.set_num_threads(1)
    for name, (config, how) in models.items():
        make(pathlib.Path(directory) / name, name, config, **how)


if __name__ == "__main__":
    make_all(sys.argv[1], SMALL if sys.argv[2:] == ["small"] else LARGE)
