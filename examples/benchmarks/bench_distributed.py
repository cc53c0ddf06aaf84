"""One fit on a cluster whose workers and driver are killed: the same bits.

    OMP_NUM_THREADS=1 python examples/benchmarks/bench_distributed.py [speed] [kills]

Two workers in processes of their own, 1 GiB each, encrypted connections if the package
`cryptography` is there. The rows are made lazily, block by block: no machine holds the
table. Printed are, for each estimator: the time of one plain `dask` pass (`X.sum()` and
`y.sum()`), of the fit, its number of passes, whether it is bitwise the model that one
process learns from the same blocks as `Batches`; then the same with a worker killed
again and again amid the fit, and with the driver killed again and again under `resume`:
the number of kills, of different bits, of spends, and of released values drawn twice.
"""

import importlib.util
import json
import os
import platform
import signal
import subprocess
import sys
import tempfile
import threading
import time

import numpy as np

BLOCK, N_BLOCKS, N_FEATURES = 50_000, 24, 20
N_WORKER_KILLS, N_DRIVER_KILLS = 20, 20
N_BLOCKS_KILLED = 8  # a smaller table where workers and drivers are killed


def make_block(seed):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, size=(BLOCK, N_FEATURES))
    noise = rng.normal(size=BLOCK)
    group = (X[:, 0] + 0.5 * noise > 0).astype(np.int64)
    return X, np.clip(X[:, :3].mean(axis=1) + 0.2 * noise, -1, 1), group


def as_batches(task):
    from fairpriv_sklearn.distributed import Batches

    return Batches(lambda: (columns_of(task, *make_block(i)) for i in range(N_BLOCKS)))


def columns_of(task, X, y, group):
    if task == "classification":
        return X, (y > 0).astype(np.int64), None
    return (y[:, None], None, group) if task == "repair" else (X, y, None)


def as_dask(task):
    import dask
    import dask.array as da

    columns = dask.delayed(lambda i: columns_of(task, *make_block(i)), pure=False)
    parts = [columns(i) for i in range(N_BLOCKS)]
    example = columns_of(task, *make_block(0))

    def column(k):
        if example[k] is None:
            return None
        return da.concatenate(
            [
                da.from_delayed(part[k], example[k].shape, dtype=example[k].dtype)
                for part in parts
            ]
        )

    return [column(k) for k in range(3)]


def estimators(**params):
    from fairpriv_sklearn.linear_model import (
        DPLinearRegression,
        DPWassersteinLogisticRegression,
    )
    from fairpriv_sklearn.postprocessing import DPBarycenterTransformer

    return [
        (
            "DPLinearRegression",
            "regression",
            DPLinearRegression(bounds=(-1, 1), target_bounds=(-1, 1), **params),
        ),
        (
            "DPWassersteinLogisticRegression, weight 0, 10 steps",
            "classification",
            DPWassersteinLogisticRegression(
                fairness_weight=0.0,
                max_iter=10,
                bounds=(-1, 1),
                classes=[0, 1],
                **params,
            ),
        ),
        (
            "DPBarycenterTransformer",
            "repair",
            DPBarycenterTransformer(bounds=(-1, 1), groups=[0, 1], **params),
        ),
    ]


def fit_on_dask(model, task):
    X, y, group = as_dask(task)
    given = {} if group is None else {"sensitive_features": group}
    return model.fit(X, **given) if y is None else model.fit(X, y, **given)


def learnt(model):
    """All fitted arrays as bytes."""
    names = sorted(name for name in vars(model) if name.endswith("_"))
    values = [np.asarray(getattr(model, name)) for name in names]
    return [v.tobytes() for v in values if v.dtype.kind in "biuf"]


def passes(model, task):
    """How often a fit reads the rows."""
    from fairpriv_sklearn.distributed import Batches

    count = []

    def counted():
        count.append(None)
        return iter(as_batches(task))

    model.fit(Batches(counted))
    return len(count), model


class Killer(threading.Thread):
    """Kills a random worker again and again."""

    def __init__(self, cluster, pause):
        super().__init__(daemon=True)
        self.cluster, self.pause, self.kills = cluster, pause, 0
        self.stopped = threading.Event()

    def run(self):
        rng = np.random.default_rng(0)
        while not self.stopped.wait(self.pause):
            try:
                nannies = list(self.cluster.workers.values())
                os.kill(int(rng.choice([one.pid for one in nannies])), signal.SIGKILL)
                self.kills += 1
            except Exception:  # none alive at this moment
                pass


def cluster():
    import dask
    from distributed import LocalCluster, Security

    dask.config.set({"distributed.scheduler.allowed-failures": 1000})
    secured = {}
    if importlib.util.find_spec("cryptography"):
        secured = {"protocol": "tls", "security": Security.temporary()}
    print(f"connections encrypted: {bool(secured)}\n")
    return LocalCluster(
        n_workers=2,
        threads_per_worker=1,
        memory_limit="1GiB",
        **secured,
        dashboard_address=None,
        silence_logs=50,
    )


def driver(folder):
    """One run of a driver that may die: the logistic model from batches."""
    from fairpriv_sklearn.distributed import resume
    from fairpriv_sklearn.privacy import PrivacyLedger

    ledger = PrivacyLedger(10.0, 1e-4, path=os.path.join(folder, "ledger"))
    name, task, model = estimators(random_state=0, ledger=ledger)[1]
    with resume(os.path.join(folder, "journal")):
        model.fit(as_batches(task))
    np.save(os.path.join(folder, "coef.npy"), model.coef_)
    print(len(ledger.spends()))


def kill_drivers():
    rng = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as folder:
        kills, redrawn, known, finished = 0, 0, [], None
        while finished is None or finished.returncode:
            process = subprocess.Popen(
                [sys.executable, __file__, "--driver", folder],
                stdout=subprocess.PIPE,
                text=True,
            )
            try:
                wait = None if kills == N_DRIVER_KILLS else 4 + 8 * rng.uniform()
                out, _ = process.communicate(timeout=wait)
                finished = process
            except subprocess.TimeoutExpired:
                process.kill()
                process.communicate()
                kills += 1
            path = os.path.join(folder, "journal")
            content = open(path).read() if os.path.exists(path) else ""
            lines = [json.loads(x) for x in content.splitlines(True) if x[-1:] == "\n"]
            redrawn += lines[: len(known)] != known
            known = lines
        coef = np.load(os.path.join(folder, "coef.npy"))
    name, task, model = estimators(random_state=0)[1]
    same = np.array_equal(model.fit(as_batches(task)).coef_, coef)
    print(
        f"driver killed {kills} times: same bits {same}, spends {out.strip()}, "
        f"values drawn twice {redrawn}"
    )


def cpu_name():
    try:
        for line in open("/proc/cpuinfo"):
            if line.startswith("model name"):
                return line.split(":")[1].strip()
    except OSError:
        pass
    return platform.processor()


def main(parts):
    global N_BLOCKS
    import dask
    import sklearn
    from distributed import Client

    print(
        f"{cpu_name()}, {os.cpu_count()} cores, Python {platform.python_version()}, "
        f"numpy {np.__version__}, scikit-learn {sklearn.__version__}, "
        f"dask {dask.__version__}"
    )
    gib = BLOCK * N_BLOCKS * (N_FEATURES + 2) * 8 / 2**30
    print(f"{BLOCK * N_BLOCKS} rows, {N_FEATURES} features, {gib:.2f} GiB")
    with cluster() as two, Client(two):
        for name, task, model in estimators(random_state=0) if "speed" in parts else ():
            n_passes, expected = passes(model, task)
            X, y, group = as_dask(task)
            start = time.perf_counter()
            dask.compute(X.sum(), None if y is None else y.sum())
            one_pass = time.perf_counter() - start
            fresh = dict((n, m) for n, _, m in estimators(random_state=0))[name]
            start = time.perf_counter()
            fit_on_dask(fresh, task)
            took = time.perf_counter() - start
            same = learnt(fresh) == learnt(expected)
            print(
                f"{name}: a plain pass {one_pass:.1f} s, {n_passes} passes, fit "
                f"{took:.1f} s = {took / one_pass / n_passes:.2f} a pass; same bits as "
                f"one process: {same}",
                flush=True,
            )
        if "kills" not in parts:
            return
        print(f"\n{BLOCK * N_BLOCKS_KILLED} rows:", flush=True)
        N_BLOCKS = N_BLOCKS_KILLED
        killer, fits, different = Killer(two, 6.0), 0, 0
        killer.start()
        name, task, model = estimators(random_state=0)[1]
        expected = learnt(passes(model, task)[1])
        while killer.kills < N_WORKER_KILLS:
            ours = fit_on_dask(estimators(random_state=0)[1][2], task)
            fits, different = fits + 1, different + (learnt(ours) != expected)
        killer.stopped.set()
        killer.join()
        print(
            f"workers killed {killer.kills} times amid {fits} fits: fits with other "
            f"bits {different}",
            flush=True,
        )
    kill_drivers()


if __name__ == "__main__":
    if sys.argv[1:2] == ["--driver"]:
        N_BLOCKS = N_BLOCKS_KILLED
        driver(sys.argv[2])
    else:
        main(sys.argv[1:] or ["speed", "kills"])
