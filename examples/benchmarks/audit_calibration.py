"""Bounds on the privacy loss: false alarms on null models, and power.

A bound alarms falsely when it lies above the true parameter. Null models: outputs
without any signal (the true parameter is 0), and outputs exactly at the claim. Beside
ours stands the auditor of jax-privacy, if its file can be found. The power is that of
refuting a claim that is wrong by a factor of sqrt(2).

    python examples/benchmarks/audit_calibration.py [n_null] > audit_calibration.txt
"""

import importlib.util
import platform
import sys
import time
from importlib.metadata import version

import numpy as np
import scipy

from fairpriv_sklearn.accounting import gaussian_epsilon
from fairpriv_sklearn.audit import (
    epsilon_lower_bound,
    gaussian_mu_lower_bound,
    mu_lower_bound,
)

N_NULL = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
CONFIDENCE = 0.95
M = 400  # runs on each of the two tables
rng = np.random.default_rng(0)


def normal(shift):
    return shift + rng.normal(size=M), rng.normal(size=M)


def laplace(shift):
    return shift + rng.laplace(size=M), rng.laplace(size=M)


def draw(shift):
    # Randomised response: few values, many ties.
    truth = 1 / (1 + np.exp(-shift))
    return [(rng.random(M) < p).astype(float) for p in (truth, 1 - truth)]


def epsilon_bound(a, b):
    return epsilon_lower_bound(a, b, confidence=CONFIDENCE)


def delta_bound(a, b):
    return epsilon_lower_bound(a, b, delta=1e-2, confidence=CONFIDENCE)


def mu_bound(a, b):
    return mu_lower_bound(a, b, confidence=CONFIDENCE)


def gaussian_bound(a, b):
    return gaussian_mu_lower_bound(a, b, confidence=CONFIDENCE)


CASES = [  # bound, outputs, shift, truth
    ("epsilon", epsilon_bound, normal, 0.0, 0.0),
    ("epsilon", epsilon_bound, draw, 0.0, 0.0),
    ("epsilon", epsilon_bound, laplace, 1.0, 1.0),
    ("epsilon", epsilon_bound, draw, 1.0, 1.0),
    ("epsilon at delta = 0.01", delta_bound, normal, 0.0, 0.0),
    ("epsilon at delta = 0.01", delta_bound, normal, 1.0, gaussian_epsilon(1.0, 1e-2)),
    ("mu", mu_bound, normal, 0.0, 0.0),
    ("mu", mu_bound, normal, 1.0, 1.0),
    ("mu of Gaussian outputs", gaussian_bound, normal, 0.0, 0.0),
    ("mu of Gaussian outputs", gaussian_bound, normal, 1.0, 1.0),
]


def null_models():
    nominal = 1 - CONFIDENCE
    allowed = nominal + 3 * np.sqrt(nominal * (1 - nominal) / N_NULL)
    print(
        f"False alarms in {N_NULL:,} null models, {M} runs on each table, confidence "
        f"{CONFIDENCE}: nominal {nominal:.3f}, allowed {allowed:.4f}"
    )
    print(f"{'bound':<26}{'outputs':<9}{'truth':>7}{'false alarms':>14}")
    for name, bound, outputs, shift, truth in CASES:
        alarms = sum(bound(*outputs(shift)) > truth + 1e-9 for _ in range(N_NULL))
        verdict = "" if alarms / N_NULL <= allowed else "  TOO MANY"
        print(
            f"{name:<26}{outputs.__name__:<9}{truth:>7.3f}{alarms / N_NULL:>14.4f}"
            f"{verdict}",
            flush=True,
        )


def peer():
    spec = importlib.util.find_spec("jax_privacy")
    if spec is None:
        print("\njax-privacy is not installed: no comparison.")
        return
    path = f"{spec.submodule_search_locations[0]}/auditing.py"
    spec = importlib.util.spec_from_file_location("jax_privacy_auditing", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules["jax_privacy_auditing"] = module
    spec.loader.exec_module(module)
    print(
        "\nScore sets without signal, 40 of 1,000 scores in and 1,000 out, delta 1e-5:"
    )
    print("how many are said to show epsilon > 0 with 95 % confidence")
    ours, gdp, clopper = 0, 0, 0
    values = []
    for _ in range(40):
        a, b = rng.normal(size=(2, 1000))
        auditor = module.CanaryScoreAuditor(a, b)
        values.append(auditor.epsilon_from_gdp(0.05, 1e-5))
        gdp += values[-1] > 0
        clopper += auditor.epsilon_clopper_pearson(0.05, delta=1e-5) > 0
        ours += epsilon_lower_bound(a, b, delta=1e-5) > 0
    name, median = f"jax-privacy {version('jax-privacy')}", np.median(values)
    print(f"  {name} epsilon_from_gdp        {gdp:>3}, median bound {median:.2f}")
    print(f"  {name} epsilon_clopper_pearson {clopper:>3}")
    print(f"  epsilon_lower_bound, here                 {ours:>3}")


def power(n=200):
    print("\nPower at confidence 0.999 against a claim of 1 where sqrt(2) is true")
    global M
    cases = [
        ("epsilon, Laplace", epsilon_lower_bound, laplace, (1000, 2000, 4000)),
        ("mu, Gaussian", mu_lower_bound, normal, (1000, 2000, 4000)),
        ("mu of Gaussian outputs", gaussian_mu_lower_bound, normal, (300, 600)),
    ]
    for name, bound, outputs, sizes in cases:
        for M in sizes:
            hits = np.mean(
                [bound(*outputs(2**0.5), confidence=0.999) > 1 for _ in range(n)]
            )
            print(f"  {name:<26} m = {M:<6} {hits:.3f}", flush=True)


if __name__ == "__main__":
    start = time.time()
    print(
        f"python {platform.python_version()}, numpy {np.__version__}, "
        f"scipy {scipy.__version__}, shared 2-core machine\n"
    )
    null_models()
    peer()
    power()
    print(f"\n{time.time() - start:.0f} s")
