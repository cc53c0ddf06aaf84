"""What a step, an epoch, a distance and a fit cost beside the peers, in one run.

    OMP_NUM_THREADS=1 python examples/benchmarks/bench_speed.py

Process CPU time on one thread. Epochs and fits are compared by medians of calls that
take turns with the peer's: what slows the machine down for a while slows both. A step
is the mean time from one step of a fit to the next, noise and all. An epoch of Opacus
is the documented path: `make_private` with Poisson sampling and hooks for per-example
gradients, batches by the data loader; the model is a logistic regression, as ours. The
distance of POT is differentiated by torch.
Peers that are not installed are left out.
"""

import importlib
import os
import platform
import time
import warnings

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np

from fairpriv_sklearn._training._progress import Progress
from fairpriv_sklearn.datasets import make_spurious_bias
from fairpriv_sklearn.linear_model import DPWassersteinLogisticRegression
from fairpriv_sklearn.transport import quantise, wasserstein_1d

PACKAGES = ("numpy", "scipy", "sklearn", "diffprivlib", "ot", "torch", "opacus")


def version(name):
    try:
        return importlib.import_module(name).__version__
    except ImportError:
        return "missing"


def cpu_name():
    with open("/proc/cpuinfo") as file:
        names = [line.split(":")[1] for line in file if line.startswith("model name")]
    return names[0].strip() if names else platform.processor()


def fastest(function, repeat=5):
    """Shortest CPU time of some calls."""
    times = []
    for _ in range(repeat):
        start = time.process_time()
        function()
        times.append(time.process_time() - start)
    return min(times)


def clocked(function):
    """The same, which returns the CPU time of a call."""

    def run():
        start = time.process_time()
        function()
        return time.process_time() - start

    return run


def in_turns(*measures, repeat=9):
    """Medians of what measures return that are called in turns."""
    times = [[measure() for measure in measures] for _ in range(repeat)]
    return np.median(times, axis=0)


def verdict(value, target, *, at_least=False):
    met = value >= target if at_least else value <= target
    sign = ">=" if at_least else "<="
    return f"{value:8.2f} {sign} {target:g}: {'holds' if met else 'DOES NOT HOLD'}"


def table(n, d):
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(n, d))
    y = (X[:, 0] + rng.normal(size=n) > 0).astype(int)
    return X, y, (X[:, 1] + rng.normal(size=n) > 0).astype(int)


def seconds_a_step(n, d, n_steps, **params):
    """Mean time from step to step, without the first one; and that of `X.sum()`."""
    X, y, groups = table(n, d)
    model = DPWassersteinLogisticRegression(
        max_iter=n_steps,
        bounds=(-1, 1),
        classes=[0, 1],
        groups=[0, 1],
        group_sizes_public=True,
        random_state=0,
        **params,
    )
    times, step = [], Progress.step

    def timed(*args, **kwargs):
        times.append(time.process_time())
        return step(*args, **kwargs)

    Progress.step = timed
    try:
        model.fit(X, y, sensitive_features=groups)
    finally:
        Progress.step = step
    steps = np.diff(times)
    return steps[len(steps) // 10 :].mean(), fastest(X.sum)


def full_steps():
    print("\na full-batch step in passes of X.sum()")
    for n, d in ((1_000_000, 20), (400_000, 100)):
        for name, weight in (("loss", 0.0), ("with penalty", 0.5)):
            step, read = seconds_a_step(n, d, 6, fairness_weight=weight)
            told = f"{step / read:8.2f}"
            if weight and d == 100:
                told = verdict(step / read, 6)
            print(f"  n = {n}, d = {d}, {name:12} {told}", flush=True)


def batches():
    step, _ = seconds_a_step(200_000, 20, 200, fairness_weight=0.0, batch_size=256)
    full, _ = seconds_a_step(200_000, 20, 12, fairness_weight=0.0)
    print(
        f"\na step of a batch of 256 of 200,000 rows, 20 features: {1e3 * step:.3f} "
        f"ms, of all {1e3 * full:.2f} ms\n  batch / full {verdict(step / full, 0.25)}",
        flush=True,
    )
    n, d = 30_000, 16
    has_peer = "missing" not in (version("torch"), version("opacus"))
    peer = [clocked(opacus_epoch(n, d))] if has_peer else []
    for weight in (0.0, 0.5):

        def epoch(weight=weight):
            step, _ = seconds_a_step(n, d, 200, fairness_weight=weight, batch_size=256)
            return step * n / 256

        ours, *theirs = in_turns(epoch, *peer)
        print(
            f"an epoch of batches of 256 of {n} rows, {d} features, weight {weight}: "
            f"{ours:.3f} s",
            flush=True,
        )
        for other in theirs:
            # The goal is for equal work: Opacus has no penalty.
            ratio = f"{other / ours:8.2f}"
            if weight == 0:
                ratio = verdict(other / ours, 10, at_least=True)
            print(f"  Opacus {other:.3f} s; Opacus / ours {ratio}", flush=True)


def opacus_epoch(n, d):
    import torch
    from opacus import PrivacyEngine

    torch.set_num_threads(1)
    X, y, _ = table(n, d)
    rows = torch.utils.data.TensorDataset(
        torch.tensor(X, dtype=torch.float32),
        torch.tensor(y[:, None], dtype=torch.float32),
    )
    model = torch.nn.Linear(d, 1)
    model, optimizer, loader = PrivacyEngine().make_private(
        module=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
        data_loader=torch.utils.data.DataLoader(rows, batch_size=256),
        noise_multiplier=1.0,
        max_grad_norm=1.0,
    )
    criterion = torch.nn.BCEWithLogitsLoss()

    def epoch():
        for features, wanted in loader:
            optimizer.zero_grad()
            criterion(model(features), wanted).backward()
            optimizer.step()

    return epoch


def distances():
    if "missing" in (version("ot"), version("torch")):
        return
    import ot
    import torch

    torch.set_num_threads(1)

    def theirs(u, v):
        u, v = (torch.tensor(x, requires_grad=True) for x in (u, v))
        ot.wasserstein_1d(u, v, p=2).backward()
        return u.grad, v.grad

    print("\nW2 squared with both gradients")
    for n, m in ((100_000, 100_000), (1_000_000, 999_983)):
        rng = np.random.default_rng(0)
        u, v = rng.beta(2, 3, n), rng.beta(3, 2, m)
        codes = quantise(u, 0, 1), quantise(v, 0, 1)
        peer = fastest(lambda u=u, v=v: theirs(u, v), 7)
        for name, pair in (("floats", (u, v)), ("codes", codes)):
            own = fastest(lambda p=pair: wasserstein_1d(*p, return_gradient=True), 7)
            ratio = verdict(peer / own, 6, at_least=True)
            print(
                f"  n = {n}, {name}: {1e3 * own:.2f} ms, POT {1e3 * peer:.1f} ms; "
                f"POT / ours {ratio}",
                flush=True,
            )


def fits():
    X, y, groups = make_spurious_bias(30_000, random_state=0)
    try:
        from diffprivlib.models import LogisticRegression

        norm = np.linalg.norm(X, axis=1).max()
        peer = clocked(lambda: LogisticRegression(data_norm=norm).fit(X, y))
        peer()
    except Exception:  # not with every version of scikit-learn
        return
    print("\na fit to 30,000 rows, 16 features, epsilon 1")
    for weight, steps in ((0.0, None), (0.75, None), (0.75, 100)):
        model = DPWassersteinLogisticRegression(
            fairness_weight=weight,
            delta=1e-5,
            bounds=(-10, 10),
            classes=[0, 1],
            groups=[0, 1],
            **({} if steps is None else {"max_iter": steps}),
        )
        own = clocked(lambda m=model: m.fit(X, y, sensitive_features=groups))
        own, other = in_turns(own, peer)
        ratio = verdict(own / other, 15)
        print(
            f"  weight {weight}, {model.n_iter_} steps: {own:.3f} s, diffprivlib "
            f"{other:.3f} s; ours / diffprivlib {ratio}",
            flush=True,
        )


def main():
    warnings.simplefilter("ignore")
    told = ", ".join(f"{name} {version(name)}" for name in PACKAGES)
    print(f"{cpu_name()}, Python {platform.python_version()}, {told}")
    full_steps()
    batches()
    distances()
    fits()


if __name__ == "__main__":
    main()
