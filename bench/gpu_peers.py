# What PyTorch and flash-linear-attention take at the same shapes: python3 bench/gpu_peers.py ORDINAL BxHxN...
# Prints "name shape forward_ms backward_ms" for each; what is not there is said on stderr, by a line "gpu_peers: ...".
# SPDX-License-Identifier: Apache-2.0
import inspect
import sys


def say(text):
    print("gpu_peers: " + text, file=sys.stderr)


try:
    import torch
except ImportError:
    say("python3 has no torch: nothing to compare with")
    sys.exit(0)

WIDTH = 64


def milliseconds(run, seconds=0.3):
    """The median of rounds between two events."""
    for _ in range(3):
        run()
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    times, spent = [], 0.0
    while len(times) < 5 or spent < seconds * 1e3:
        start.record()
        for _ in range(3):
            run()
        end.record()
        end.synchronize()
        times.append(start.elapsed_time(end) / 3)
        spent += start.elapsed_time(end)
    return sorted(times)[len(times) // 2]


def measure(name, shape, attend, sizes):
    q, k, v = (torch.randn(sizes, device="cuda", dtype=torch.bfloat16, requires_grad=True) for _ in range(3))
    with torch.no_grad():
        forward = milliseconds(lambda: attend(q, k, v))
    out = attend(q, k, v)
    grad = torch.randn_like(out)
    backward = milliseconds(lambda: torch.autograd.grad(out, (q, k, v), grad, retain_graph=True))
    print(name, shape, f"{forward:.4f}", f"{backward:.4f}", flush=True)


def softmax(q, k, v):
    return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)


def find_chunk():
    """fla's chunk kernel of linear attention, and whether heads come before tokens."""
    from fla.ops.linear_attn import chunk_linear_attn

    given = {"normalize": False}
    parameters = inspect.signature(chunk_linear_attn).parameters
    head_first = "head_first" in parameters and parameters["head_first"].default is True

    def attend(q, k, v):
        out = chunk_linear_attn(q, k, v, **{n: x for n, x in given.items() if n in parameters})
        return out[0] if isinstance(out, tuple) else out

    return attend, head_first


def main():
    torch.cuda.set_device(int(sys.argv[1]))
    try:
        chunk, head_first = find_chunk()
    except Exception as error:  # of any kind: it compiles when it is imported
        chunk = None
        say(f"no flash-linear-attention: {error}")
    for shape in sys.argv[2:]:
        batch, heads, tokens = map(int, shape.split("x"))
        for name, attend, sizes in (
            ("torch-sdpa-causal", softmax, (batch, heads, tokens, WIDTH)),
            ("fla-chunk-linear", chunk, None if chunk is None else
             (batch, heads, tokens, WIDTH) if head_first else (batch, tokens, heads, WIDTH)),
        ):
            if attend is None:
                continue
            try:
                measure(name, shape, attend, sizes)
            except Exception as error:
                say(f"{name} {shape}: {error}")


main()
