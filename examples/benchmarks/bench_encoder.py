"""Encoder and model on 30,000 raw rows of 100 numbers: CPU time and memory.

Three things, each in processes of their own, on the same numbers: the table encoder
with the linear classifier on a raw data frame, under one budget, with and without
public ranges; the classifier alone with public bounds; and, if a checkout of it is
named, the classifier alone as it was before the encoder. CPU seconds of `fit` (the
least of three), and by how much the peak of the memory rises during it, next to the
size of the frame.

    OMP_NUM_THREADS=1 python examples/benchmarks/bench_encoder.py [folder of old code]
"""

import json
import os
import platform
import resource
import subprocess
import sys
import time
import warnings

N_ROWS, N_COLUMNS = 30_000, 100


def table():
    import numpy as np
    import pandas as pd

    rng = np.random.default_rng(0)
    X = rng.normal(size=(N_ROWS, N_COLUMNS))
    y = (X[:, :10].sum(axis=1) + 3 * rng.normal(size=N_ROWS) > 0).astype(int)
    return pd.DataFrame(X, columns=[f"x{j}" for j in range(N_COLUMNS)]), y


def model(name):
    from fairpriv_sklearn.linear_model import DPWassersteinLogisticRegression

    plain = {"classes": [0, 1], "fairness_weight": 0, "random_state": 0}
    if name.startswith("model alone"):
        return DPWassersteinLogisticRegression(bounds=(-5, 5), **plain)
    from sklearn.pipeline import make_pipeline

    from fairpriv_sklearn.preprocessing import DPTableEncoder
    from fairpriv_sklearn.privacy import with_budget

    book = {f"x{j}": [-5, 5] for j in range(N_COLUMNS)}
    encoder = DPTableEncoder(book if "ranges" in name else None, random_state=0)
    return with_budget(
        make_pipeline(encoder, DPWassersteinLogisticRegression(**plain)), 1.0
    )


def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def measure(name):
    """Seconds, growth of the peak and size of the frame of one fit."""
    warnings.simplefilter("ignore")
    X, y = table()
    chosen = model(name)
    chosen.fit(X.iloc[:2000], y[:2000])  # imports, and what is built once
    rows = X.to_numpy() if name.startswith("model alone") else X
    before, start = peak(), time.process_time()
    chosen.fit(rows, y)
    seconds = time.process_time() - start
    size = int(X.memory_usage(deep=True).sum())
    print(json.dumps([seconds, peak() - before, size]))


def main(old=None):
    import numpy as np
    import sklearn

    print("OMP_NUM_THREADS=1 python examples/benchmarks/bench_encoder.py")
    print(
        f"Python {platform.python_version()}, numpy {np.__version__}, "
        f"scikit-learn {sklearn.__version__}; {N_ROWS} rows, {N_COLUMNS} numbers"
    )
    names = ["model alone", "encoder and model", "encoder and model, ranges"]
    names += ["model alone, before the encoder"] if old else []
    found = {}
    for name in names:
        path = old if name.endswith("before the encoder") else os.getcwd()
        environment = os.environ | {"PYTHONPATH": path}
        command = [sys.executable, __file__, "measure", name]
        runs = [
            json.loads(subprocess.check_output(command, env=environment))
            for _ in range(3)
        ]
        seconds, rise = min(r[0] for r in runs), max(r[1] for r in runs)
        found[name] = seconds
        print(
            f"{name:34s} {seconds:6.2f} CPU seconds, memory rises by "
            f"{rise / 2**20:5.0f} MB: {rise / runs[0][2]:.1f} frames",
            flush=True,
        )
    for name in names:
        if name.startswith("encoder"):
            ratios = [found[name] / found[n] for n in names if n.startswith("model")]
            print(f"{name}: {' and '.join(f'{r:.1f}' for r in ratios)} times the model")


if __name__ == "__main__":
    if sys.argv[1:2] == ["measure"]:
        measure(sys.argv[2])
    else:
        main(*sys.argv[1:])
