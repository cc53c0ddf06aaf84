"""Squared Wasserstein distance with both gradients: time, error, and POT beside it.

    OMP_NUM_THREADS=1 python examples/benchmarks/bench_wasserstein.py

Times are the fastest of several runs, process CPU time on one thread.  The floor is
the two argsorts that no method can avoid.  An array of 31 MiB is allocated and freed
first, as in any program that has loaded data: until then glibc hands small arrays back
to the system after every call, and page faults cost more than the arithmetic.

"codes" are outputs on the grid of `quantise`, as the estimators use them.  Errors are
relative to the largest derivative, against exact rational arithmetic.
"""

import importlib
import os
import platform
import time
import warnings
from fractions import Fraction
from itertools import accumulate, pairwise

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np

from fairpriv_sklearn.transport import quantise, wasserstein_1d

SIZES = [
    (1_000, 1_000),
    (10_000, 10_000),
    (13_000, 7_000),
    (100_000, 100_000),
    (100_000, 5_000),
    (1_000_000, 999_983),
]
LARGEST_EXACT = 100_000


def samples(n, m):
    """Predicted probabilities of two groups, in random order."""
    rng = np.random.default_rng(n + m)
    return rng.beta(2, 3, n), rng.beta(3, 2, m)


def best_time(function, *arguments):
    """Fastest CPU time in seconds; small problems are repeated more often."""
    fastest, spent = np.inf, 0.0
    while spent < 1.0:
        start = time.process_time()
        function(*arguments)
        elapsed = time.process_time() - start
        fastest, spent = min(fastest, elapsed), spent + elapsed
    return fastest


def argsorts(u, v):
    """What has to be done at least."""
    return np.argsort(u), np.argsort(v)


def ours(u, v):
    """Distance and both gradients."""
    return wasserstein_1d(u, v, return_gradient=True)


def by_autograd(function):
    """Distance and both gradients of a function of POT by automatic differentiation."""
    import torch

    warnings.simplefilter("ignore")  # torch on what POT does with its tensors
    torch.set_num_threads(1)

    def run(u, v):
        u = torch.tensor(u, requires_grad=True)
        v = torch.tensor(v, requires_grad=True)
        distance = function(u, v)
        distance.backward()
        return float(distance.detach()), u.grad.numpy(), v.grad.numpy()

    return run


def exact_gradient(a, b):
    """Derivative with respect to integers a, off ties, in rational arithmetic."""
    order = np.argsort(a)
    a, b = a[order].tolist(), sorted(b.tolist())
    prefix = [0, *accumulate(b)]

    def integral(rank):
        whole, part = divmod(rank * len(b), len(a))
        return prefix[whole] * len(a) + (part * b[whole] if part else 0)

    slots = pairwise(map(integral, range(len(a) + 1)))
    gradient = np.empty(len(a))
    gradient[order] = [
        float(Fraction(2 * (x * len(b) - stop + start), len(b) * len(a)))
        for x, (start, stop) in zip(a, slots, strict=True)
    ]
    return gradient


def gradient_error(u, v, gradients):
    """Largest error over both gradients; the samples are multiples of 2**-53."""
    u, v = (np.ldexp(sample, 53).astype(np.int64) for sample in (u, v))
    errors = []
    for a, b, gradient in [(u, v, gradients[0]), (v, u, gradients[1])]:
        expected = np.ldexp(exact_gradient(a, b), -53)
        errors.append(np.abs(gradient - expected).max() / np.abs(expected).max())
    return max(errors)


def peer():
    """POT's differentiable function, or None."""
    try:
        import ot

        importlib.import_module("torch")
    except ImportError:
        return None
    return by_autograd(lambda u, v: ot.wasserstein_1d(u, v, p=2))


def version(module):
    """Version of a module, or that it is missing."""
    try:
        return importlib.import_module(module).__version__
    except ImportError:
        return "not installed"


def time_table(autograd):
    print(
        f"{'n':>8} {'m':>8} {'argsorts':>11} {'floats':>11} {'ratio':>6} {'codes':>11} "
        f"{'ratio':>6} {'POT+autograd':>13} {'POT / ours':>10} {'error':>8} {'POT':>8}"
    )
    for n, m in SIZES:
        u, v = samples(n, m)
        # Multiples of 2**-53, so that the exact reference can be written in integers.
        u, v = np.rint(np.ldexp(u, 53)) * 2.0**-53, np.rint(np.ldexp(v, 53)) * 2.0**-53
        codes = quantise(u, 0, 1), quantise(v, 0, 1)
        floor = best_time(argsorts, u, v)
        floats, integers = best_time(ours, u, v), best_time(ours, *codes)
        columns = (
            f"{n:8d} {m:8d} {1e3 * floor:8.3f} ms {1e3 * floats:8.3f} ms "
            f"{floats / floor:6.2f} {1e3 * integers:8.3f} ms {integers / floor:6.2f}"
        )
        theirs, ratio, error, peer_error = "not installed", "-", "-", "-"
        if autograd is not None:
            seconds = best_time(autograd, u, v)
            theirs, ratio = f"{1e3 * seconds:10.3f} ms", f"{seconds / floats:9.1f}x"
        if n <= LARGEST_EXACT:
            error = f"{gradient_error(u, v, ours(u, v)[1:]):.1e}"
            if autograd is not None:
                peer_error = f"{gradient_error(u, v, autograd(u, v)[1:]):.1e}"
        print(
            columns, f"{theirs:>13} {ratio:>10} {error:>8} {peer_error:>8}", flush=True
        )
    print()


def main():
    np.ones(31 * 2**17).sum()  # see the docstring
    print(__doc__.strip(), end="\n\n")
    print(
        f"Python {platform.python_version()}, numpy {np.__version__}, POT "
        f"{version('ot')}, torch {version('torch')}, {platform.machine()}\n"
    )
    time_table(peer())


if __name__ == "__main__":
    main()
