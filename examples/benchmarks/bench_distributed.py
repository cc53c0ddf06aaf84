"""Fits on a cluster whose workers and driver are killed: the same bits.

    OMP_NUM_THREADS=1 python examples/benchmarks/bench_distributed.py [part ...]
        [--gib G] [--features N] [--folder F] [--keep-memory] [--only NAME ...]

The parts are workers, passes and drivers; all of them by default. Two workers in
processes of their own with limited memory, encrypted connections if the package
`cryptography` is there. The expected models are those of arrays in one process.

- passes: Parquet files of `G` GiB of numbers, 1 by default: CPU time of driver and
  workers for one plain `dask` pass over the same columns, the median of three, for the
  fit and its number of passes, after a first one over eight files, and peak memory of a
  worker; bitwise
  the model that one process learns from `Batches` of the files. Files that are in the
  folder already are taken as they are; `--only` takes the estimator of this name, or
  all whose names begin so, in this order. `--features`: of a row, 20 by default, for
  estimators that take fewer rows than fill `G` GiB. With `--keep-memory` workers keep
  memory for the next array, as the user guide sets them up, and not as dask does by
  default.
- workers: a random worker is killed by SIGKILL as soon as both are alive, again and
  again amid fits of every estimator, on small data; `N_WORKER_KILLS` in all.
- drivers: the driver of a fit under `resume` is killed by SIGKILL each time its journal
  has grown, `N_DRIVER_KILLS` times; counted are spends and values released twice.
"""

import argparse
import functools
import importlib.util
import json
import math
import multiprocessing
import os
import platform
import signal
import subprocess
import sys
import tempfile
import threading
import time
import warnings

import numpy as np

BLOCK, N_FEATURES = 100_000, 20
N_DIFFERENT = 64  # files; more are these again, by links
N_ROWS, N_PARTS = 3_000, 6  # where workers and drivers are killed
N_WORKER_KILLS, N_DRIVER_KILLS = 100, 20
MOST_KILLS_PER_FIT = 8  # a fit whose workers die faster than they start has no end
MEMORY_LIMIT = "1GiB"
ENVIRON = {
    "MALLOC_MMAP_THRESHOLD_": 2**25,
    "MALLOC_TRIM_THRESHOLD_": 2**27,
    "ARROW_DEFAULT_MEMORY_POOL": "system",
}
WORDS = ["red", "green", "blue"]
MODULES = ("fairpriv_sklearn", "distributed", "dask.dataframe", "pandas")


# --- tables ---------------------------------------------------------------------------


def make_rows(seed, n):
    """Features in [-1, 1], a target in [-1, 1], a group."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, size=(n, N_FEATURES))
    noise = rng.normal(size=n)
    group = (X[:, 0] + 0.5 * noise > 0).astype(np.int64)
    return X, np.clip(X[:, :3].mean(axis=1) + 0.2 * noise, -1, 1), group


def columns_of(task, X, y, group):
    """What `fit` of this task takes: X, y, sensitive features."""
    label = (y > 0).astype(np.int64)
    if task == "mixed":
        words = np.array(["red", "green", "blue"])[(3 * group + label) % 3]
        X = np.column_stack([words.astype(object), X[:, :2].round(3).astype(object)])
    return {
        "regression": (X, y, None),
        "classification": (X, label, None),
        "fair regression": (X, y, group),
        "fair classification": (X, label, group),
        "scores": (y[:, None], None, group),
        "fair table": (X, None, group),
        "mixed": (X, label, None),
        "rates": (label, label[::-1].copy(), group),
    }[task]


def write_rows(folder, gib):
    """A Parquet file for every block, until they hold so many numbers."""
    import pandas as pd

    size = BLOCK * (N_FEATURES + 4) * 8 / 2**30
    for i in range(math.ceil(gib / size)):
        path = os.path.join(folder, f"part.{i:05}.parquet")
        if os.path.exists(path):
            continue
        if i >= N_DIFFERENT:
            os.link(os.path.join(folder, f"part.{i % N_DIFFERENT:05}.parquet"), path)
            continue
        X, y, group = make_rows(i, BLOCK)
        frame = pd.DataFrame(X, columns=[f"x{j}" for j in range(N_FEATURES)])
        label = (y > 0).astype(np.int64)
        words = np.array(["red", "green", "blue"])[(3 * group + label) % 3]
        frame = frame.assign(
            y=y, group=group, label=label, answer=label[::-1], word=words
        )
        frame.to_parquet(f"{path}.new")
        os.rename(f"{path}.new", path)


def columns_of_frame(task):
    """Names of the columns of X, y and sensitive features."""
    X = [f"x{j}" for j in range(N_FEATURES)]
    return {
        "regression": (X, "y", None),
        "classification": (X, "label", None),
        "fair regression": (X, "y", "group"),
        "fair classification": (X, "label", "group"),
        "scores": (["y"], None, "group"),
        "fair table": (X, None, "group"),
        "mixed": (["word", *X[:2]], "label", None),
        "rates": ("label", "answer", "group"),
    }[task]


def read_columns(task, read):
    """The columns out of a frame that `read(columns=...)` gives."""
    names = columns_of_frame(task)
    flat = [[n] if isinstance(n, str) else n for n in names if n is not None]
    frame = read(columns=sum(flat, []))
    return tuple(None if name is None else frame[name] for name in names)


def as_batches(task, folder, most=None):
    import pandas as pd

    from fairpriv_sklearn.distributed import Batches

    files = [os.path.join(folder, name) for name in sorted(os.listdir(folder))]

    def batches():
        for file in files[:most]:
            yield read_columns(task, functools.partial(pd.read_parquet, file))

    return Batches(batches)


def as_dask(task, folder):
    import dask.dataframe as dd

    return read_columns(task, functools.partial(dd.read_parquet, folder))


# --- estimators -----------------------------------------------------------------------


def estimators(**params):
    """Name, task and estimator of all that reads batches; `params` of the outermost."""
    from sklearn.pipeline import make_pipeline

    from fairpriv_sklearn.generative import (
        DPSinkhornGenerator,
        DPSlicedWassersteinGenerator,
    )
    from fairpriv_sklearn.linear_model import (
        DPLinearRegression,
        DPWassersteinLogisticRegression,
    )
    from fairpriv_sklearn.neural_network import (
        DPWassersteinAutoencoder,
        DPWassersteinMLPClassifier,
        DPWassersteinMLPRegressor,
    )
    from fairpriv_sklearn.postprocessing import (
        DP2DPClassifier,
        DPBarycenterRegressor,
        DPBarycenterTransformer,
    )
    from fairpriv_sklearn.preprocessing import DPTableEncoder

    params = {"random_state": 0, **params}
    box, groups = {"bounds": (-1, 1)}, {"groups": [0, 1]}
    labels, target = {"classes": [0, 1]}, {"target_bounds": (-1, 1)}

    def logistic(weight, steps=10, **own):
        own = {"random_state": 0, **own}
        return DPWassersteinLogisticRegression(
            fairness_weight=weight, max_iter=steps, **labels, **own
        )

    def dp2dp(base=None, **own):
        base = logistic(0.0, **box) if base is None else base
        return DP2DPClassifier(base, **labels, **groups, **params, **own)

    line = DPLinearRegression(random_state=0, **box, **target)
    return [
        (
            "DPLinearRegression",
            "regression",
            DPLinearRegression(**box, **target, **params),
        ),
        (
            "DPWassersteinLogisticRegression",
            "classification",
            logistic(0.0, **box, **params),
        ),
        (
            "DPWassersteinLogisticRegression, penalty",
            "fair classification",
            logistic(0.5, 5, **box, **groups, **params),
        ),
        (
            "DPBarycenterTransformer",
            "scores",
            DPBarycenterTransformer(**box, **groups, **params),
        ),
        (
            "DPBarycenterRegressor",
            "fair regression",
            DPBarycenterRegressor(line, **target, **groups, **params),
        ),
        ("DP2DPClassifier", "fair classification", dp2dp()),
        (
            "DP2DPClassifier, histogram",
            "fair classification",
            dp2dp(method="histogram"),
        ),
        ("DP2DPClassifier, blind", "fair classification", dp2dp(blind=True)),
        ("DPTableEncoder", "mixed", DPTableEncoder(**params)),
        (
            "DPSinkhornGenerator, semidual",
            "classification",
            DPSinkhornGenerator(method="semidual", **box, **labels, **params),
        ),
        (
            "DPSinkhornGenerator, pairs",
            "mixed",
            DPSinkhornGenerator(method="pairs", **labels, **params),
        ),
        (
            "DPSlicedWassersteinGenerator",
            "classification",
            DPSlicedWassersteinGenerator(**box, **labels, **params),
        ),
        (
            "DPWassersteinMLPClassifier",
            "fair classification",
            DPWassersteinMLPClassifier(max_iter=2, **box, **labels, **groups, **params),
        ),
        (
            "DPWassersteinMLPRegressor",
            "fair regression",
            DPWassersteinMLPRegressor(max_iter=2, **box, **target, **groups, **params),
        ),
        (
            "DPWassersteinAutoencoder",
            "fair table",
            DPWassersteinAutoencoder(max_iter=2, **box, **groups, **params),
        ),
        ("dp_group_rates", "rates", None),
        (
            "encoder, model and repair",
            "fair classification",
            make_pipeline(DPTableEncoder(random_state=0), dp2dp(logistic(0.0))),
        ),
    ]


def fit(model, X, y, group):
    """Fit to arrays or dask collections; the rates of groups are a function."""
    from fairpriv_sklearn.metrics import dp_group_rates

    if model is None:
        return dp_group_rates(
            y,
            X,
            sensitive_features=group,
            groups=[0, 1],
            classes=[0, 1],
            epsilon=1.0,
            random_state=0,
        )
    given = {} if group is None else {"sensitive_features": group}
    return model.fit(X, **given) if y is None else model.fit(X, y, **given)


def learnt(model, seen=()):
    """All fitted numbers, of parts and wrapped models too, as bytes by name."""
    found = {}
    if id(model) in seen:
        return found
    if isinstance(model, list | tuple):
        inside = dict(enumerate(model))
    elif isinstance(model, dict):
        inside = model
    else:
        inside = getattr(model, "__dict__", {})
        fields = getattr(model, "__dataclass_fields__", {})
        inside = {**{name: getattr(model, name) for name in fields}, **inside}
    for name, value in inside.items():
        if isinstance(value, bytes | str | int | float | np.generic | np.ndarray):
            array = np.asarray(value)
            text = array.dtype.kind == "O"
            found[name,] = repr(array.tolist()).encode() if text else array.tobytes()
        else:
            deeper = learnt(value, (*seen, id(model)))
            found |= {(name, *path): bits for path, bits in deeper.items()}
    return found


# --- the cluster ----------------------------------------------------------------------


def cluster(keep_memory=False):
    import dask
    from distributed import LocalCluster, Security

    # Killed workers come back in a moment: what they need is imported once.
    dask.config.set(
        {
            "distributed.scheduler.allowed-failures": 10_000,
            # Else a nanny is closed whose worker is dead 15 s after an earlier death.
            "distributed.deploy.lost-worker-timeout": "1 hour",
            "distributed.worker.multiprocessing-method": "forkserver",
            "distributed.worker.memory.spill": False,
        }
    )
    multiprocessing.get_context("forkserver").set_forkserver_preload(list(MODULES))
    if keep_memory:
        environ = "distributed.nanny.pre-spawn-environ"
        dask.config.set({f"{environ}.{name}": own for name, own in ENVIRON.items()})
    secured = {}
    if importlib.util.find_spec("cryptography"):
        secured = {"protocol": "tls", "security": Security.temporary()}
    print(
        f"two workers of {MEMORY_LIMIT}, connections encrypted: {bool(secured)}"
        f"{', that keep memory' * keep_memory}",
        flush=True,
    )
    return LocalCluster(
        n_workers=2,
        threads_per_worker=1,
        memory_limit=MEMORY_LIMIT,
        dashboard_address=":0",
        silence_logs=50,
        **secured,
    )


class Killer(threading.Thread):
    """Kills a random worker whenever both are at work.

    A process that is killed while it starts is not started again by its nanny: so the
    scheduler has to know both, and to have forgotten whom was killed before.
    """

    def __init__(self, cluster):
        super().__init__(daemon=True)
        self.cluster, self.kills, self.allowed = cluster, 0, 0
        self.stopped = threading.Event()

    def run(self):
        rng, killed = np.random.default_rng(0), None
        while not self.stopped.wait(0.1 + 0.4 * rng.uniform()):
            known = set(self.cluster.scheduler.workers)
            nannies = list(self.cluster.workers.values())
            at_work = [one for one in nannies if one.worker_address in known]
            if killed in known or len(at_work) < 2 or self.kills >= self.allowed:
                continue
            victim = at_work[rng.integers(2)]
            killed = victim.worker_address
            os.kill(victim.pid, signal.SIGKILL)
            self.kills += 1


def read_by_tasks(column):
    """A dask array whose blocks are the answers of tasks, as those of files are."""
    import dask
    import dask.array as da

    if column is None:
        return None
    parts = np.split(column, N_PARTS)
    read = dask.delayed(np.asarray)
    blocks = [da.from_delayed(read(part), part.shape, part.dtype) for part in parts]
    return da.concatenate(blocks)


def kill_workers(two):
    rows = make_rows(0, N_ROWS)
    killer, fits, different = Killer(two), 0, 0
    names = [name for name, *_ in estimators()]
    expected = [
        learnt(fit(model, *columns_of(task, *rows))) for _, task, model in estimators()
    ]
    killer.start()
    while killer.kills < N_WORKER_KILLS:
        for i, name in enumerate(names):
            _, task, model = estimators()[i]
            before, start = killer.kills, time.perf_counter()
            killer.allowed = before + MOST_KILLS_PER_FIT
            columns = map(read_by_tasks, columns_of(task, *rows))
            same = learnt(fit(model, *columns)) == expected[i]
            fits, different = fits + 1, different + (not same)
            print(
                f"  {name}: killed {killer.kills - before} times, same bits {same}, "
                f"{time.perf_counter() - start:.0f} s",
                flush=True,
            )
    killer.stopped.set()
    killer.join()
    print(
        f"workers killed {killer.kills} times amid {fits} fits of {len(names)} "
        f"estimators: fits with other bits {different}",
        flush=True,
    )


# --- passes ---------------------------------------------------------------------------


def peak_memory(dask_worker):
    """Peak of resident memory of a worker, in bytes."""
    import resource

    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def cpu_seconds(client):
    """CPU time of driver and workers so far."""
    return time.process_time() + sum(client.run(time.process_time).values())


def few_steps(name, model):
    """The same with few passes over the rows, and columns by their names."""
    if model is None:
        return None
    few = {"max_iter": 2, "n_points": 1, "categories": {"word": WORDS}}
    params = model.get_params()
    own = {key: few.get(key.split("__")[-1]) for key in params}
    own = {key: value for key, value in own.items() if value and params[key]}
    if "pairs" in name:
        own.pop("n_points")
    solvers = [
        key for key in params if key.endswith("solver") and params[key] == "auto"
    ]
    return model.set_params(**own, **dict.fromkeys(solvers, "moments"))


def measure_passes(client, gib, folder, only):
    os.makedirs(folder, exist_ok=True)
    write_rows(folder, gib)
    n_rows = BLOCK * len(os.listdir(folder))
    size = n_rows * (N_FEATURES + 4) * 8 / 2**30
    print(
        f"\n{n_rows} rows, {N_FEATURES + 4} columns of numbers and one of words: "
        f"{size:.2f} GiB in {n_rows // BLOCK} Parquet files, of which "
        f"{min(N_DIFFERENT, n_rows // BLOCK)} differ",
        flush=True,
    )
    tasks = {name: task for name, task, _ in estimators()}
    for start in only or [""]:
        named = [name for name in tasks if name.startswith(start)]
        for name in [start] if start in tasks else named:
            measure_fits(client, folder, name, tasks[name])


def measure_fits(client, folder, name, task):
    import dask

    from fairpriv_sklearn.distributed import Batches

    models = [
        few_steps(name, m) for _ in range(4) for n, _, m in estimators() if n == name
    ]
    columns = as_dask(task, folder)
    files = [os.path.join(folder, name) for name in sorted(os.listdir(folder))]
    few = as_dask(task, files[:8])

    def plain(columns=columns):
        sums = [
            c.count() if task == "mixed" else c.sum() for c in columns if c is not None
        ]
        dask.compute(*sums)

    # What workers and driver import is imported before the clock starts.
    plain(few)
    fit(models[2], *few)
    fitted, measured, at_work = None, [], client.run(os.getpid)
    for run in (plain, plain, lambda: fit(models[0], *columns), plain):
        before, start = cpu_seconds(client), time.perf_counter()
        fitted = run() or fitted
        clock = time.perf_counter() - start
        if client.run(os.getpid) != at_work:
            print(f"  {name}: a worker died, and its CPU time is not known", flush=True)
            return
        measured.append((cpu_seconds(client) - before, clock))
    (spent, took), (least, between, most) = measured.pop(2), sorted(measured)
    fitted, count = learnt(fitted), []

    def counted():
        count.append(None)
        return iter(as_batches(task, folder, 8))

    fit(models[3], Batches(counted), None, None)
    ratio = spent / between[0] / len(count)
    peak = max(client.run(peak_memory).values()) / 2**20
    print(
        f"  {name}: a plain pass {between[0]:.1f} s of CPU ({between[1]:.1f} s; three "
        f"were {least[0]:.1f} to {most[0]:.1f}), {len(count)} passes {spent:.1f} s "
        f"({took:.1f} s) = {ratio:.2f} a pass; peak of a worker so far {peak:.0f} MiB;",
        end=" ",
        flush=True,
    )
    start = time.process_time()
    same = learnt(fit(models[1], as_batches(task, folder), None, None)) == fitted
    alone = time.process_time() - start
    print(f"one process {alone:.1f} s, same bits: {same}", flush=True)


# --- drivers --------------------------------------------------------------------------


def driver(folder):
    """One run of a driver that may die: the logistic model from batches."""
    from fairpriv_sklearn.distributed import Batches, resume
    from fairpriv_sklearn.privacy import PrivacyLedger

    ledger = PrivacyLedger(10.0, 1e-4, path=os.path.join(folder, "ledger"))
    model = resumed(ledger=ledger)
    with resume(os.path.join(folder, "journal")):
        model.fit(Batches(small_batches))
    np.save(os.path.join(folder, "coef.npy"), model.coef_)
    print(len(ledger.spends()))


def resumed(**params):
    name, task, model = estimators(**params)[1]
    return model.set_params(max_iter=2 * N_DRIVER_KILLS)


def small_batches():
    for seed in range(N_PARTS):
        time.sleep(0.01)  # as from a disk
        yield columns_of("classification", *make_rows(seed, N_ROWS))


def complete_lines(path):
    """Whole lines of the journal so far."""
    content = open(path).read() if os.path.exists(path) else ""
    return [json.loads(x) for x in content.splitlines(True) if x[-1:] == "\n"]


def kill_drivers():
    from fairpriv_sklearn.distributed import Batches

    rng = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as folder:
        path, kills, changed, known = os.path.join(folder, "journal"), 0, 0, []
        while True:
            process = subprocess.Popen(
                [sys.executable, __file__, "--driver", folder],
                stdout=subprocess.PIPE,
                text=True,
            )
            while kills < N_DRIVER_KILLS and process.poll() is None:
                if len(complete_lines(path)) > len(known):
                    time.sleep(0.1 * rng.uniform())
                    process.kill()
                    kills += 1
                    break
                time.sleep(0.01)
            out, _ = process.communicate()
            lines = complete_lines(path)
            changed += lines[: len(known)] != known
            known = lines
            if process.returncode == 0:
                break
        coef = np.load(os.path.join(folder, "coef.npy"))
    released = sum(line["entry"] == "released" for line in known)
    same = np.array_equal(resumed().fit(Batches(small_batches)).coef_, coef)
    print(
        f"\ndriver killed {kills} times: same bits {same}, spends {out.strip()}, "
        f"{released} values released, runs that found another value recorded {changed}"
    )


def cpu_name():
    try:
        for line in open("/proc/cpuinfo"):
            if line.startswith("model name"):
                return line.split(":")[1].strip()
    except OSError:
        pass
    return platform.processor()


def main(given):
    global N_FEATURES
    N_FEATURES = given.features
    import dask
    import sklearn
    from distributed import Client

    # Models that need all rows at the driver get them there.
    warnings.filterwarnings("ignore", message=".*[Ll]arge object.*|.*large graph.*")
    sklearn.set_config(enable_metadata_routing=True)
    print(
        f"{cpu_name()}, {os.cpu_count()} cores, Python {platform.python_version()}, "
        f"numpy {np.__version__}, scikit-learn {sklearn.__version__}, "
        f"dask {dask.__version__}"
    )
    if {"passes", "workers"} & set(given.parts):
        with cluster(given.keep_memory) as two, Client(two) as client:
            if "workers" in given.parts:
                kill_workers(two)
            if "passes" in given.parts:
                with tempfile.TemporaryDirectory() as folder:
                    folder = given.folder or folder
                    measure_passes(client, given.gib, folder, given.only)
    if "drivers" in given.parts:
        kill_drivers()


def arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("parts", nargs="*", default=["workers", "passes", "drivers"])
    parser.add_argument("--gib", type=float, default=1.0)
    parser.add_argument("--features", type=int, default=N_FEATURES)
    parser.add_argument("--folder")
    parser.add_argument("--keep-memory", action="store_true")
    parser.add_argument("--only", nargs="+", default=())
    return parser.parse_args()


if __name__ == "__main__":
    if sys.argv[1:2] == ["--driver"]:
        driver(sys.argv[2])
    else:
        main(arguments())
