"""The rows of the bandwidth bench in PyTorch, CuPy and JAX, where they are installed.

python3 benches/peers/peers.py [ELEMENTS]; prints `name peer n ms GB/s`. Times come from events on the device where
the library has them; JAX is timed on the host around many calls and one wait.
"""

import statistics
import sys
import time

N = int(sys.argv[1]) if len(sys.argv) > 1 else 1 << 28
SIDE = int(N**0.5)
ROUNDS, REPEATS = 5, 20


def report(name, peer, count, words, seconds):
    print(f"{name:<14} {peer:<7} {count:>10} {seconds * 1e3:>9.3} {words * 4 * count / seconds / 1e9:>8.1f}", flush=True)


def measure(peer, rows, clock):
    for name, count, words, once in rows:
        try:
            for _ in range(3):
                once()
            report(name, peer, count, words, statistics.median(clock(once) for _ in range(ROUNDS)))
        except Exception as error:  # a peer that lacks an operation or memory is a row too
            print(f"{name:<14} {peer:<7} {type(error).__name__}: {str(error).splitlines()[0]}", flush=True)


def table(copy, fused, total, running, x, b, c, d, square):
    return [
        ("copy", N, 2, lambda: copy(x)),
        ("fused", N, 5, lambda: fused(x, b, c, d)),
        ("sum", N, 1, lambda: total(x, None)),
        ("sum axis 0", SIDE * SIDE, 1, lambda: total(square, 0)),
        ("sum axis 1", SIDE * SIDE, 1, lambda: total(square, 1)),
        ("cumsum", N, 2, lambda: running(x, 0)),
        ("cumsum axis 0", SIDE * SIDE, 2, lambda: running(square, 0)),
        ("cumsum axis 1", SIDE * SIDE, 2, lambda: running(square, 1)),
    ]


def with_torch():
    import torch

    def clock(once):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        for _ in range(REPEATS):
            once()
        end.record()
        end.synchronize()
        return begin.elapsed_time(end) / 1e3 / REPEATS

    arrays = [torch.rand(N, device="cuda") for _ in range(4)]
    square = arrays[0][: SIDE * SIDE].view(SIDE, SIDE)
    try:
        fused = torch.compile(lambda a, b, c, d: (a - b) * c + d)
        fused(*(array[:16] for array in arrays))
    except Exception:  # no compiler here: one kernel per operator
        fused = lambda a, b, c, d: (a - b) * c + d
    total = lambda x, axis: x.sum() if axis is None else x.sum(axis)
    measure("torch", table(torch.clone, fused, total, torch.cumsum, *arrays, square), clock)


def with_cupy():
    import cupy

    def clock(once):
        begin, end = cupy.cuda.Event(), cupy.cuda.Event()
        begin.record()
        for _ in range(REPEATS):
            once()
        end.record()
        end.synchronize()
        return cupy.cuda.get_elapsed_time(begin, end) / 1e3 / REPEATS

    arrays = [cupy.random.random(N, dtype=cupy.float32) for _ in range(4)]
    square = arrays[0][: SIDE * SIDE].reshape(SIDE, SIDE)
    fused = cupy.ElementwiseKernel("T a, T b, T c, T d", "T y", "y = (a - b) * c + d", "fused")
    measure("cupy", table(cupy.copy, fused, cupy.sum, cupy.cumsum, *arrays, square), clock)


def with_jax():
    import jax
    import jax.numpy as jnp

    def clock(once):
        start = time.perf_counter()
        for _ in range(REPEATS):
            result = once()
        result.block_until_ready()
        return (time.perf_counter() - start) / REPEATS

    arrays = [jax.random.uniform(jax.random.key(seed), (N,)) for seed in range(4)]
    square = arrays[0][: SIDE * SIDE].reshape(SIDE, SIDE)
    fused = jax.jit(lambda a, b, c, d: (a - b) * c + d)
    total = jax.jit(jnp.sum, static_argnums=1)
    running = jax.jit(jnp.cumsum, static_argnums=1)
    measure("jax", table(jax.jit(jnp.copy), fused, total, running, *arrays, square), clock)


for peer in (with_torch, with_cupy, with_jax):
    try:
        peer()
    except Exception as error:
        print(f"not run: {peer.__name__[5:]} ({type(error).__name__}: {error})", flush=True)
