#!/usr/bin/env python3
# How much faster are compiled kernels than PyTorch's chunked formulation of the same attention?
# SPDX-License-Identifier: Apache-2.0
"""Runs `yaglom bench` and PyTorch in turns on the same sizes, and prints the ratio of each pair of runs.

    bench/peers.py [--tool build/release/tools/yaglom] [--threads 1] [--lengths 1024,4096] [--rounds 5] [--backward]

PyTorch computes flexformer_n, performer and linear_transformer by chunks: features of all tokens, the triangle of each
chunk, and prefix sums of the chunks' states. That is what one writes without a compiler. With --backward both sides take a
forward and a backward pass, PyTorch's by autograd and ours from a residual (every state). Needs torch with a fast BLAS:
apt-get install python3-torch libopenblas0-pthread (without the latter Debian's torch multiplies several times slower).
"""

import argparse
import json
import math
import pathlib
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
WIDTH = 64  # d, e, and the number of frequencies


def flexformer_n(x, p):
    scale = torch.exp((x * x).sum(-1, keepdim=True) / (2 * math.sqrt(WIDTH))) / (2 * math.sqrt(WIDTH))
    a = x @ ((p["W1"] + p["W2"]) / 2).transpose(-1, -2)
    b = x @ ((p["W1"] - p["W2"]) / 2).transpose(-1, -2)
    return scale * torch.cat([torch.cos(a) * torch.cos(b), torch.sin(a) * torch.cos(b)], -1)


def performer(x, p):
    u = x / WIDTH**0.25
    return torch.exp(u @ p["W1"].transpose(-1, -2) - (u * u).sum(-1, keepdim=True) / 2) / math.sqrt(WIDTH)


def linear_transformer(x, _):
    return torch.nn.functional.elu(x) + 1


# attention: (file, feature map)
ATTENTIONS = {
    "flexformer_n_attention": ("flexformer_n", flexformer_n),
    "performer": ("performer", performer),
    "linear_transformer": ("linear_transformer", linear_transformer),
}


def chunked(features, q, k, v, p, chunk=64):
    """Causal, normalised linear attention, chunk by chunk."""
    fq, fk = features(q, p), features(k, p)
    batch, heads, length, width = fq.shape
    split = lambda x: x.reshape(batch, heads, length // chunk, chunk, x.shape[-1])
    fq, fk, values = split(fq), split(fk), split(v)
    weights = torch.tril(fq @ fk.transpose(-1, -2))
    state = fk.transpose(-1, -2) @ values
    state = torch.cumsum(state, 2) - state
    sums = fk.sum(-2)
    sums = torch.cumsum(sums, 2) - sums
    numerator = weights @ values + fq @ state
    denominator = weights.sum(-1) + (fq @ sums.unsqueeze(-1)).squeeze(-1)
    return (numerator / denominator.unsqueeze(-1)).reshape(v.shape)


def call_torch(features, tensors, parameters, backward):
    if not backward:
        with torch.no_grad():
            return chunked(features, *tensors, parameters)
    leaves = [*tensors, *parameters.values()]
    for leaf in leaves:
        leaf.grad = None
        leaf.requires_grad_(True)
    output = chunked(features, *tensors, parameters)
    output.backward(torch.ones_like(output))


def time_torch(features, tensors, parameters, backward, seconds=1.0):
    """Median milliseconds of a call."""
    call_torch(features, tensors, parameters, backward)
    times, start = [], time.perf_counter()
    while len(times) < 3 or time.perf_counter() - start < seconds:
        before = time.perf_counter()
        call_torch(features, tensors, parameters, backward)
        times.append((time.perf_counter() - before) * 1e3)
    return statistics.median(times)


def time_yaglom(arguments, attention, length):
    file = ROOT / "examples" / "specs" / (ATTENTIONS[attention][0] + ".phi")
    command = [arguments.tool, "bench", str(file), "--attention", attention, "--batch", "1"]
    command += ["--heads", str(arguments.heads), "--length", str(length), "--head-dim", str(WIDTH)]
    command += ["--threads", str(arguments.threads), "--seconds", "1", "--json"]
    if arguments.backward:
        command += ["--backward", "--residual", "1"]
    found = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return found["both_ms_median"] if arguments.backward else found["ms_median"]


def main():
    for attention, (_, features) in ATTENTIONS.items():
        for length in (int(text) for text in arguments.lengths.split(",")):
            shape = (1, arguments.heads, length, WIDTH)
            tensors = [torch.randn(shape) * 0.35 for _ in range(3)]
            parameters = {name: torch.randn(arguments.heads, WIDTH, WIDTH) * WIDTH**-0.25 for name in ("W1", "W2")}
            pairs = []
            for _ in range(arguments.rounds):
                ours = time_yaglom(arguments, attention, length)
                pairs.append((ours, time_torch(features, tensors, parameters, arguments.backward)))
            ours, theirs = (statistics.median(side) for side in zip(*pairs))
            ratios = [peer / own for own, peer in pairs]
            print(
                f"{attention:24} N {length:6} threads {arguments.threads}  yaglom {ours:8.2f} ms  torch {theirs:8.2f} ms  "
                f"{statistics.median(ratios):6.2f} times as fast (least {min(ratios):.2f})",
                flush=True,
            )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tool", default=str(ROOT / "build" / "release" / "tools" / "yaglom"))
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--heads", type=int, default=8)
    parser.add_argument("--lengths", default="1024,4096")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--backward", action="store_true", help="a forward and a backward pass")
    arguments = parser.parse_args()
    try:
        import torch
    except ImportError:
        sys.exit("bench/peers.py needs PyTorch: apt-get install python3-torch libopenblas0-pthread")
    torch.set_num_threads(arguments.threads)
    main()
