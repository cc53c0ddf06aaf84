"""Cost of private noise and of the accounting, as ratios in one process.

Floor: `os.urandom` for as many 8-byte words as there are noisy numbers. Peer: the
scalar mechanisms of diffprivlib (0.6.6 needs scikit-learn 1.7 or older). Process CPU
time, one thread, best of several runs.

Run with ``OMP_NUM_THREADS=1 python examples/benchmarks/bench_noise.py``.
"""

import os
import platform
import time
from importlib.metadata import version

import numpy as np

from fairpriv_sklearn import accounting
from fairpriv_sklearn.mechanisms import (
    DiscreteLaplaceMechanism,
    GaussianMechanism,
    noise_source,
)

N = 1_000_000
N_SCALAR = 5_000


def cpu_seconds(function, repeat=7):
    """Return the shortest CPU time of `repeat` calls."""
    times = []
    for _ in range(repeat):
        start = time.process_time()
        function()
        times.append(time.process_time() - start)
    return min(times)


def scalar_mechanisms():
    """Return diffprivlib's scalar mechanisms, or None if it cannot be imported."""
    try:
        from diffprivlib import mechanisms
    except ImportError:
        return None
    return {
        "Laplace": mechanisms.Laplace(epsilon=1.0, sensitivity=1.0),
        "GaussianAnalytic": mechanisms.GaussianAnalytic(
            epsilon=1.0, delta=1e-5, sensitivity=1.0
        ),
        "Geometric": mechanisms.Geometric(epsilon=1.0, sensitivity=1),
        "GaussianDiscrete": mechanisms.GaussianDiscrete(epsilon=1.0, delta=1e-5),
    }


def noise_table():
    """Print the cost of noise, per number and as a ratio."""
    floor = cpu_seconds(lambda: os.urandom(8 * N)) / N
    print(f"{'':34}{'ns / number':>12}{'x urandom':>11}")
    print(f"{'os.urandom, 8 bytes':34}{1e9 * floor:12.1f}{1:11.1f}")
    gaussian = GaussianMechanism(sensitivity=1.0, mu=1.0, n_coordinates=N)
    zeros, counts = np.zeros(N), np.zeros(N, dtype=np.int64)
    ours = {}
    for secure, noise in (("secure", noise_source()), ("seeded", noise_source(0))):
        releases = {f"Gaussian, {secure}": lambda s=noise: gaussian.release(zeros, s)}
        for epsilon in (0.1, 1.0, 10.0):
            mechanism = DiscreteLaplaceMechanism(sensitivity=2, epsilon=epsilon)
            releases[f"discrete Laplace {epsilon:g}, {secure}"] = (
                lambda s=noise, m=mechanism: m.release(counts, s)
            )
        for name, release in releases.items():
            ours[name] = cpu_seconds(release) / N
            print(f"{name:34}{1e9 * ours[name]:12.1f}{ours[name] / floor:11.1f}")
    peers = scalar_mechanisms()
    if peers is None:
        print("diffprivlib cannot be imported here: no comparison")
        return
    laplace = ours["discrete Laplace 1, secure"]
    for name, mechanism in peers.items():

        def release(mechanism=mechanism):
            for _ in range(N_SCALAR):
                mechanism.randomise(0)

        seconds = cpu_seconds(release, repeat=3) / N_SCALAR
        print(
            f"{'diffprivlib ' + name:34}{1e9 * seconds:12.1f}{seconds / floor:11.1f}"
            f"   {seconds / ours['Gaussian, secure']:.0f} x Gaussian,"
            f" {seconds / laplace:.0f} x discrete Laplace 1"
        )


def calibration_table():
    """Print the cost of uncached calibrations."""
    calls = {
        "gaussian, epsilon 1": lambda e: accounting.calibrate_gaussian(
            e, 1e-5, n_draws=1000
        ),
        "gaussian, epsilon 0.01": lambda e: accounting.calibrate_gaussian(
            e / 100, 1e-5, n_draws=1000
        ),
        "gaussian, epsilon 10": lambda e: accounting.calibrate_gaussian(
            10 * e, 1e-5, n_draws=1000
        ),
        "Poisson, q=0.01, 1000 steps": lambda e: accounting.calibrate_poisson(
            e, 1e-5, 0.01, 1000
        ),
        "without replacement, the same": lambda e: (
            accounting.calibrate_without_replacement(e, 1e-5, 0.01, 1000)
        ),
    }
    print(f"\n{'calibration, nothing cached':34}{'ms':>12}")
    for name, call in calls.items():
        call(0.999)  # imports
        n_calls = 200 if "gaussian" in name else 3
        budgets = iter(1.0 + 1e-6 * np.arange(1, 10 * n_calls))
        seconds = cpu_seconds(
            lambda call=call, budgets=budgets, n_calls=n_calls: [
                call(next(budgets)) for _ in range(n_calls)
            ],
            repeat=5,
        )
        print(f"{name:34}{1e3 * seconds / n_calls:12.3f}")


def accuracy_table():
    """Print how far calibrations stay from the exact value (50 digits)."""
    import mpmath

    print(f"\n{'exactness, epsilon and delta':34}{'1 - mu / exact':>16}")
    for epsilon, delta in ((1.0, 1e-5), (0.01, 1e-9), (100.0, 1e-5), (1e-6, 1e-300)):
        mu = accounting.calibrate_gaussian(epsilon, delta)
        with mpmath.workdps(50):

            def excess(m, epsilon=epsilon, delta=delta):
                tail = mpmath.ncdf(-epsilon / m - m / 2) * mpmath.exp(epsilon)
                return mpmath.log((mpmath.ncdf(m / 2 - epsilon / m) - tail) / delta)

            bracket = (mpmath.mpf(mu), mu * mpmath.mpf(1 + 1e-6))
            exact = mpmath.findroot(excess, bracket, solver="anderson", tol=1e-20)
            gap = float(1 - mu / exact)
        print(f"{f'{epsilon:g}, {delta:g}':34}{gap:16.1e}")


if __name__ == "__main__":
    print("OMP_NUM_THREADS=1 python examples/benchmarks/bench_noise.py")
    packages = ("numpy", "scipy", "scikit-learn", "dp-accounting", "diffprivlib")
    print(f"Python {platform.python_version()},", end=" ")
    print(", ".join(f"{name} {version(name)}" for name in packages), end="\n\n")
    noise_table()
    calibration_table()
    accuracy_table()
