"""Bad arguments for every public function, estimator and method, and what must happen.

A call with one or two arguments replaced by something nasty either works, without NaN,
or raises a `ValueError`, `TypeError`, `NotFittedError` or an error of the library that
names the argument and quotes no cell. `WrappedEstimatorError` is right only where code
that is not ours is at fault: the same call under `show_wrapped_errors` must then fail
in that code, called from the one guarded place. Run as a script for many cases::

    python tests/_fuzz.py 20000
"""

import collections
import contextlib
import dataclasses
import io
import math
import os
import re
import signal
import sys
import tempfile
import traceback
import warnings

import numpy as np
from _fuzz_targets import LABELS, X, targets
from sklearn.exceptions import NotFittedError

from fairpriv_sklearn.privacy import (
    BudgetExceededError,
    WrappedEstimatorError,
    show_wrapped_errors,
)

SECRET = "HIV-positive: John Doe"
TEXT = X.astype(object)
TEXT[3, 1] = SECRET
TEXT_LABELS = LABELS.astype(object)
TEXT_LABELS[3] = SECRET
HOLES = X.copy()
HOLES[3, 1] = np.nan
HUGE = X.copy()
HUGE[3, 1] = 1.7e308

NUMBERS = [
    *(0, -1, 1, 2.5, 0.5, 1e300, 1e-300, 5e-324, 1e-12, 10**30, True),
    *(math.nan, math.inf, -math.inf, np.float32(0.3), np.int64(3)),
]
OTHERS = [
    *(None, "a", "", b"a", [], (), {}, {"a": 1}, object(), lambda x: x, int),
    *([0, 1], (0, 1), (1, 0), [(0, 1), (0, 10), (0, 1)], (math.nan, 1)),
    *((-1.7e308, 1.7e308), np.zeros((0, 3)), np.zeros(3), np.zeros((2, 2, 2))),
]
POOL = NUMBERS + OTHERS
TABLES = {
    "text": TEXT,
    "text labels": TEXT_LABELS,
    "holes": HOLES,
    "huge": HUGE,
    "one row": X[:1],
    "no column": X[:, :0],
    "half": X.astype(np.float16),
}
# Arguments that take rows: what is wrong with them is more often wrong in a cell.
ROWS = {
    *("X", "Y", "y", "y_true", "y_pred", "outputs", "u", "v", "scores", "before"),
    *("other_scores", "after", "rows", "cost", "pmfs", "sensitive_features", "value"),
    *("counts", "plan", "directions", "utilities"),
}
# What has the size of the work is not asked to be astronomically large.
WORK = {
    *("max_iter", "n_iter", "n_samples", "n_bins", "steps", "n_repeats", "size"),
    *("max_seconds", "max_fits", "n_points", "n_projections", "n_flow_steps", "bins"),
    *("n_components", "hidden_layer_sizes", "n_features", "n_classes", "n_core"),
    *("n_spurious", "output_refinement", "batch_size", "cv", "group_sizes"),
    *("n_groups", "n_coordinates", "n_candidates"),
}
NEVER = {"download_if_missing", "ax"}  # fetches; draws into what is no figure

# What an argument is also called in a sentence.
ALSO = {
    "scores": ("X",),  # scikit-learn's name for the first argument
    "param_values": ("fairness_weight",),  # the parameter that `param_name` names
    "y": ("target", "labels"),
    "columns": ("column", "codebook"),
    "source": ("codebook",),
    "codebook": ("codebook",),
    "pairs": ("tables",),
    "reach_size": ("epsilon",),  # a share of it
    "kind": ("kinds",),
    "param_distributions": ("Parameter",),
    "disparity": ("sensitive_features",),  # a function that takes no groups
    "test_size": ("sensitive features",),  # a test part of one row has one group
}

# Documented: NaN where nothing could be compared or estimated.
NAN_MEANS_NOT_KNOWN = {"ratio", "largest_ratio"}

CALLS = list(targets())


class TooSlow(Exception):
    pass


def _alarm(*_):
    raise TooSlow


def nasty(rng, name):
    """One nasty value for an argument."""
    if name in ROWS and rng.random() < 0.7:
        return list(TABLES.values())[rng.integers(len(TABLES))]
    value = POOL[rng.integers(len(POOL))]
    if name in ("disparity", "error") and callable(value):
        return "a"  # what a function of the user's does is his own
    too_much = isinstance(value, (int, float)) and not -1e4 < value < 1e4
    return 3 if name in WORK and too_much else value


def one_case(seed):
    """Run one case; return a complaint or None."""
    rng = np.random.default_rng(seed)
    target, call, good = CALLS[rng.integers(len(CALLS))]
    names = [n for n in rng.permutation(sorted(good)) if n not in NEVER]
    names = names[: 1 + (rng.random() < 0.2)]
    bad = {name: nasty(rng, name) for name in names}
    what = f"{target}({', '.join(f'{n}={_short(v)}' for n, v in bad.items())})"
    return _judge(call, {**good, **bad}, names, what)


def _judge(call, params, names, what):
    try:
        result = _quietly(call, params)
    except TooSlow:
        return f"slow: {what}"
    except WrappedEstimatorError as error:
        return _quotes(error, what) or _not_ours(call, params, names, what)
    except (ValueError, TypeError, NotFittedError, BudgetExceededError) as error:
        return _quotes(error, what) or _unnamed(error, names, what)
    except OSError as error:
        # The public file of a data set, or of a path that was asked for.
        return _quotes(error, what)
    except Exception as error:
        return f"{type(error).__name__}: {what}: {error} [{_place(error)}]"
    return _judge_result(result, what)


def _quietly(call, params):
    """Call in an empty folder, without output, for at most 20 seconds."""
    here = os.getcwd()
    signal.signal(signal.SIGALRM, _alarm)
    with (
        warnings.catch_warnings(),
        contextlib.redirect_stdout(io.StringIO()),
        tempfile.TemporaryDirectory() as folder,
    ):
        warnings.simplefilter("ignore")
        os.chdir(folder)
        signal.alarm(20)
        try:
            return call(**params)
        finally:
            signal.alarm(0)
            os.chdir(here)


def _not_ours(call, params, names, what):
    """A complaint, if no wrapped model is at fault."""
    try:
        with show_wrapped_errors():
            _quietly(call, params)
    except WrappedEstimatorError:
        return f"wrapped error from our own code: {what}"
    except Exception as error:
        frames = [f.filename for f in traceback.extract_tb(error.__traceback__)]
        ours = [i for i, name in enumerate(frames) if "fairpriv_sklearn" in name]
        foreign = frames[ours[-1]].endswith("guarded.py") and ours[-1] < len(frames) - 1
        return None if foreign else _unnamed(error, names, what)
    return f"wrapped error and then none: {what}"


def _short(value):
    for name, known in TABLES.items():
        if value is known:
            return name
    if isinstance(value, np.ndarray):
        return f"array{value.shape}{value.dtype}"
    return repr(value)[:40]


def _place(error):
    last = traceback.extract_tb(error.__traceback__)[-1]
    return f"{last.filename.rpartition('/')[2]}:{last.lineno}"


def _quotes(error, what):
    link = error
    while link is not None:
        if SECRET in str(link):
            return f"quotes a cell: {what} [{_place(error)}]"
        link = link.__cause__ or link.__context__
    return None


def _unnamed(error, names, what):
    said = str(error).replace("_", " ")
    known = [other for name in names for other in (name, *ALSO.get(name, ()))]
    if any(re.search(rf"\b{n.replace('_', ' ')}\b", said) for n in known):
        return None
    text = f"{type(error).__name__}: {str(error)[:140]} [{_place(error)}]"
    return f"does not name the argument: {what}: {text}"


def _judge_result(result, what):
    if "nan" in what or "holes" in what or "inf" in what:
        return None
    for name, value in _numbers("result", result):
        told = name.rpartition(".")[2] in NAN_MEANS_NOT_KNOWN
        if np.isnan(value).any() and not told:
            return f"NaN in {name}: {what}"
    return None


def _numbers(name, value, depth=0):
    """Floats in a result: numbers, arrays, records and fitted attributes."""
    if isinstance(value, float | np.ndarray):
        array = np.asarray(value)
        if array.dtype.kind == "f":
            yield name, array
    elif depth > 2:
        return
    elif isinstance(value, list | tuple):
        for i, item in enumerate(value):
            yield from _numbers(f"{name}[{i}]", item, depth + 1)
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _numbers(f"{name}[{key!r}]", item, depth + 1)
    elif dataclasses.is_dataclass(value):
        for key, item in vars(value).items():
            yield from _numbers(f"{name}.{key}", item, depth + 1)
    elif hasattr(value, "get_params"):
        for key, item in vars(value).items():
            if key.endswith("_") and not key.startswith("_"):
                yield from _numbers(f"{name}.{key}", item, depth + 1)


def main(n_cases, first=0):
    complaints = collections.Counter()
    for seed in range(first, first + n_cases):
        complaint = one_case(seed)
        if complaint:
            complaints[complaint] += 1
    for complaint, times in complaints.most_common():
        print(times, complaint)
    print(f"{n_cases} cases, {sum(complaints.values())} complaints")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
