"""How fits grow with the table: CPU time over one reading of it, and memory.

    OMP_NUM_THREADS=1 python examples/benchmarks/bench_scale.py [--most N] [fit ...]
    OMP_NUM_THREADS=1 python examples/benchmarks/bench_scale.py many_groups

For each estimator and number of rows, in a process of its own: CPU time of the fit
divided by that of `X.sum()` on the same table (4 features, float64), the growth of this
quotient from one size to the next, ten times larger (1.0 is linear; goal: at most 1.5),
and the peak of the memory during the fit above what was in use before (goal: at most
2 X + 200 MB; raw tables from a million rows on: 3 X). `--most`: the largest size.
Without arguments, then the keyed draws of a randomised repair,
calibration at small rates, and many groups.
"""

import os
import platform
import subprocess
import sys
import time

import numpy as np

N_FEATURES = 4
SIZES = (100_000, 1_000_000, 10_000_000)
PUBLIC = {"bounds": (-1, 1), "random_state": 0}


def make_table(n):
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(n, N_FEATURES))
    y = np.clip(X[:, 0] / 2 + 0.2 * rng.normal(size=n), -1, 1)
    return X, y, (X[:, 1] + 0.5 * rng.normal(size=n) > 0).astype(np.int64)


def linear_regression(X, y, groups):
    from fairpriv_sklearn.linear_model import DPLinearRegression

    model = DPLinearRegression(target_bounds=(-1, 1), **PUBLIC)
    return lambda: model.fit(X, y)


def logistic(X, y, groups, weight=0.0):
    from fairpriv_sklearn.linear_model import DPWassersteinLogisticRegression

    model = DPWassersteinLogisticRegression(
        fairness_weight=weight, max_iter=6, classes=[0, 1], groups=[0, 1], **PUBLIC
    )
    labels = (y > 0).astype(int)
    return lambda: model.fit(X, labels, sensitive_features=groups)


def logistic_with_penalty(X, y, groups):
    return logistic(X, y, groups, 0.5)


def logistic_in_batches(X, y, groups):
    from fairpriv_sklearn.linear_model import DPWassersteinLogisticRegression

    model = DPWassersteinLogisticRegression(
        classes=[0, 1], groups=[0, 1], group_sizes_public=True, batch_size=256, **PUBLIC
    )
    labels = (y > 0).astype(int)
    return lambda: model.fit(X, labels, sensitive_features=groups)


def output_perturbation(X, y, groups):
    from fairpriv_sklearn.linear_model import DPOutputPerturbationLogisticRegression

    model = DPOutputPerturbationLogisticRegression(classes=[0, 1], **PUBLIC)
    labels = (y > 0).astype(int)
    return lambda: model.fit(X, labels)


def repair(X, y, groups):
    from fairpriv_sklearn.postprocessing import DPBarycenterTransformer

    model = DPBarycenterTransformer(groups=[0, 1], **PUBLIC)
    column = y[:, None]

    def fit_and_transform():
        model.fit(column, sensitive_features=groups)
        return model.transform(column, sensitive_features=groups)

    return fit_and_transform


def repaired_regressor(X, y, groups):
    from fairpriv_sklearn.linear_model import DPLinearRegression
    from fairpriv_sklearn.postprocessing import DPBarycenterRegressor

    base = DPLinearRegression(target_bounds=(-1, 1), **PUBLIC)
    model = DPBarycenterRegressor(
        base, target_bounds=(-1, 1), groups=[0, 1], random_state=0
    )
    return lambda: model.fit(X, y, sensitive_features=groups)


def dp2dp(X, y, groups, **params):
    from fairpriv_sklearn.linear_model import DPWassersteinLogisticRegression
    from fairpriv_sklearn.postprocessing import DP2DPClassifier

    base = DPWassersteinLogisticRegression(
        fairness_weight=0.0, max_iter=6, classes=[0, 1], **PUBLIC
    )
    model = DP2DPClassifier(
        base, classes=[0, 1], groups=[0, 1], random_state=0, **params
    )
    labels = (y > 0).astype(int)
    return lambda: model.fit(X, labels, sensitive_features=groups)


def dp2dp_histogram(X, y, groups):
    return dp2dp(X, y, groups, method="histogram")


def dp2dp_blind(X, y, groups):
    return dp2dp(X, y, groups, blind=True)


def group_rates(X, y, groups):
    from fairpriv_sklearn.metrics import dp_group_rates

    labels = (y > 0).astype(int)
    return lambda: dp_group_rates(
        None,
        labels,
        sensitive_features=groups,
        groups=[0, 1],
        classes=[0, 1],
        epsilon=1.0,
    )


def mlp_regressor(X, y, groups):
    from fairpriv_sklearn.neural_network import DPWassersteinMLPRegressor

    model = DPWassersteinMLPRegressor(
        max_iter=2, target_bounds=(-1, 1), groups=[0, 1], **PUBLIC
    )
    return lambda: model.fit(X, y, sensitive_features=groups)


def mlp_classifier(X, y, groups):
    from fairpriv_sklearn.neural_network import DPWassersteinMLPClassifier

    model = DPWassersteinMLPClassifier(
        max_iter=2, classes=[0, 1], groups=[0, 1], **PUBLIC
    )
    labels = (y > 0).astype(int)
    return lambda: model.fit(X, labels, sensitive_features=groups)


def autoencoder(X, y, groups):
    from fairpriv_sklearn.neural_network import DPWassersteinAutoencoder

    model = DPWassersteinAutoencoder(max_iter=2, groups=[0, 1], **PUBLIC)
    return lambda: model.fit(X, sensitive_features=groups)


def encoder(X, y, groups):
    from fairpriv_sklearn.preprocessing import DPTableEncoder

    return lambda: DPTableEncoder(random_state=0).fit(X)


def sinkhorn(X, **params):
    from fairpriv_sklearn.generative import DPSinkhornGenerator

    model = DPSinkhornGenerator(**PUBLIC, **params)
    return lambda: model.fit(X)


def semidual_generator(X, y, groups):
    return sinkhorn(X, method="semidual")


def pairs_generator(X, y, groups):
    return sinkhorn(X, method="pairs")


def raw_frame_generator(X, y, groups):
    import pandas as pd

    from fairpriv_sklearn.generative import DPSinkhornGenerator

    frame = pd.DataFrame(X, columns=list("abcd"))
    model = DPSinkhornGenerator(random_state=0, classes=[0, 1])
    return lambda: model.fit(frame, groups)


def sliced_generator(X, y, groups):
    from fairpriv_sklearn.generative import DPSlicedWassersteinGenerator

    return lambda: DPSlicedWassersteinGenerator(**PUBLIC).fit(X)


FITS = {
    f.__name__: f
    for f in (
        linear_regression,
        group_rates,
        repair,
        repaired_regressor,
        encoder,
        logistic,
        dp2dp_histogram,
        dp2dp,
        dp2dp_blind,
        mlp_regressor,
        mlp_classifier,
        autoencoder,
        logistic_with_penalty,
        logistic_in_batches,
        output_perturbation,
        sliced_generator,
        semidual_generator,
        pairs_generator,
        raw_frame_generator,
    )
}


def in_use():
    """Resident memory now, and its peak so far, in bytes."""
    with open("/proc/self/status") as status:
        lines = dict(line.split(":", 1) for line in status)
    return [1024 * int(lines[name].split()[0]) for name in ("VmRSS", "VmHWM")]


def measure(name, n):
    """Run in a process of its own: prints CPU seconds of fit and sum, and memory."""
    FITS[name](*make_table(1000))()  # imports
    X, y, groups = make_table(n)
    fit = FITS[name](X, y, groups)
    start = time.process_time()
    for _ in range(5):
        X.sum()
    reading = (time.process_time() - start) / 5
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")  # the peak starts anew
    before, _ = in_use()
    start = time.process_time()
    fit()
    took = time.process_time() - start
    print(took, reading, in_use()[1] - before, X.nbytes)


def cpu_name():
    with open("/proc/cpuinfo") as file:
        names = [line.split(":")[1] for line in file if line.startswith("model name")]
    return names[0].strip() if names else platform.processor()


def main(names, most=SIZES[-1]):
    import sklearn

    print(
        f"{cpu_name()}, one thread, Python {platform.python_version()}, numpy "
        f"{np.__version__}, scikit-learn {sklearn.__version__}\n"
    )
    columns = f"{'CPU s':>8}{'/ X.sum()':>11}{'growth':>8}{'memory':>10}"
    print(f"{'fit':24}{'rows':>9}{columns}")
    for name in names:
        last = None
        for n in (size for size in SIZES if size <= most):
            run = subprocess.run(
                [sys.executable, __file__, "--measure", name, str(n)],
                capture_output=True,
                text=True,
            )
            if run.returncode:
                print(f"{name:24}{n:9}  failed: {run.stderr.splitlines()[-1][:60]}")
                break
            took, reading, memory, size = map(float, run.stdout.split())
            ratio = took / reading
            growth = "" if last is None else f"{ratio / last:.2f}"
            allowed = 2 * size + 2e8
            if name in ("pairs_generator", "raw_frame_generator") and n >= 1e6:
                allowed = 3 * size
            holds = memory <= allowed and (last is None or ratio <= 1.5 * last)
            print(
                f"{name:24}{n:9}{took:8.2f}{ratio:11.0f}{growth:>8}"
                f"{memory / size:8.2f} X{memory / 1e6:8.0f} MB  "
                f"{'holds' if holds else 'DOES NOT HOLD'}",
                flush=True,
            )
            last = ratio
    if names == list(FITS):
        others()


def others():
    from fairpriv_sklearn._shared.rowwise import RowDraws
    from fairpriv_sklearn.accounting import calibrate_poisson
    from fairpriv_sklearn.mechanisms import noise_source

    print("\nkeyed draws, microseconds of CPU a row (1e6 rows)")
    for n_features in (1, 5, 20):
        X = np.random.default_rng(0).normal(size=(1_000_000, n_features))
        start = time.process_time()
        draws = RowDraws(bytes(32))
        draws.add(X, np.zeros(len(X), np.int64))
        draws.uniforms(spread=False)
        print(f"  {n_features:3} features {time.process_time() - start:.2f}")
    calibrate_poisson(1.0, 1e-5, 0.1, 10)  # import
    for q in (1e-2, 1e-3, 1e-4):
        start = time.process_time()
        calibrate_poisson(1.0, 1e-6, q, 100)
        print(
            f"calibrate_poisson(1, 1e-6, {q}, 100): {time.process_time() - start:.2f} s"
        )
    source, n = noise_source(), 1_000_000
    start = time.process_time()
    for _ in range(100):
        source.choice(n, 256)
    took = 10 * (time.process_time() - start)
    print(f"256 of 1e6 rows without replacement: {took:.3f} ms")
    many_groups()


def many_groups():
    """1,000 groups: everything that compares them, in seconds."""
    from sklearn.frozen import FrozenEstimator
    from sklearn.linear_model import LogisticRegression

    from fairpriv_sklearn.linear_model import DPWassersteinLogisticRegression
    from fairpriv_sklearn.metrics import dp_group_rates
    from fairpriv_sklearn.neural_network import (
        DPWassersteinAutoencoder,
        DPWassersteinMLPClassifier,
        DPWassersteinMLPRegressor,
    )
    from fairpriv_sklearn.postprocessing import DP2DPClassifier, DPBarycenterTransformer

    X, y, _ = make_table(100_000)
    labels, groups = (y > 0).astype(int), np.arange(len(X)) % 1000
    base = FrozenEstimator(LogisticRegression().fit(X, labels))
    own = {"groups": list(range(1000)), "random_state": 0}
    coded, classes = {**own, "bounds": (-1, 1)}, {"classes": [0, 1]}
    net = {"max_iter": 2, "fairness_weight": 0.5, **coded}
    repair = {"base_guarantee": "public", **classes, **own}
    fits = {
        "repair": (DPBarycenterTransformer(n_bins=20, **coded), y[:, None], None),
        "logistic, penalty": (
            DPWassersteinLogisticRegression(fairness_weight=0.5, **classes, **coded),
            X,
            labels,
        ),
        "MLP classifier, 2 steps": (
            DPWassersteinMLPClassifier(**classes, **net), X, labels
        ),
        "MLP regressor, 2 steps": (
            DPWassersteinMLPRegressor(target_bounds=(-1, 1), **net), X, y
        ),
        "autoencoder, 2 steps": (DPWassersteinAutoencoder(**net), X, None),
        "DP2DP, gradients": (
            DP2DPClassifier(base, method="gradient", **repair), X, labels
        ),
        "DP2DP, histogram": (
            DP2DPClassifier(base, method="histogram", **repair), X, labels
        ),
    }  # fmt: skip
    print("\n1,000 groups, 1e5 rows and 4 features, CPU s of a fit", flush=True)
    for name, (model, rows, target) in fits.items():
        start = time.process_time()
        model.fit(rows, target, sensitive_features=groups)
        print(f"  {name:26}{time.process_time() - start:6.2f}", flush=True)
    start = time.process_time()
    dp_group_rates(
        None, labels, sensitive_features=groups, epsilon=1.0, groups=own["groups"],
        **classes,
    )  # fmt: skip
    print(f"  {'dp_group_rates':26}{time.process_time() - start:6.2f}", flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--measure"]:
        measure(sys.argv[2], int(sys.argv[3]))
    elif sys.argv[1:] == ["many_groups"]:
        many_groups()
    else:
        os.environ.setdefault("OMP_NUM_THREADS", "1")
        given = sys.argv[1:]
        most = int(given[1]) if given[:1] == ["--most"] else SIZES[-1]
        main(given[2:] if given[:1] == ["--most"] else given or list(FITS), most)
