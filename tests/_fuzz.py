"""Bad arguments for every public function and estimator, and what must then happen.

A call with one or two arguments replaced by something nasty either works, without NaN,
or raises a `ValueError`, `TypeError`, `NotFittedError` or an error of the library that
names the argument and quotes no cell. Run as a script for many cases::

    python tests/_fuzz.py 20000
"""

import collections
import contextlib
import io
import math
import signal
import sys
import traceback
import warnings

import numpy as np
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression, LogisticRegression

from fairpriv_sklearn import (
    accounting,
    datasets,
    generative,
    linear_model,
    mechanisms,
    metrics,
    model_selection,
    neural_network,
    postprocessing,
    privacy,
    transport,
)
from fairpriv_sklearn._shared.guarded import WrappedEstimatorError

SECRET = "HIV-positive: John Doe"
RNG = np.random.default_rng(0)
N = 60
X = RNG.uniform(-1, 1, (N, 3))
Y = np.clip(X @ [0.5, -0.3, 0.2], -1, 1)
LABELS = (Y > 0).astype(int)
GROUPS = (X[:, 0] > 0).astype(int)
TEXT = X.astype(object)
TEXT[3, 1] = SECRET
TEXT_LABELS = LABELS.astype(object)
TEXT_LABELS[3] = SECRET
HOLES = X.copy()
HOLES[3, 1] = np.nan
HUGE = X.copy()
HUGE[3, 1] = 1.7e308

NUMBERS = [
    0,
    -1,
    1,
    2.5,
    0.5,
    math.nan,
    math.inf,
    -math.inf,
    1e300,
    1e-300,
    5e-324,
    1e-12,
    10**30,
    True,
    np.float32(0.3),
    np.int64(3),
]
OTHERS = [
    None,
    "a",
    "",
    b"a",
    [],
    (),
    {},
    {"a": 1},
    object(),
    [0, 1],
    (0, 1),
    (1, 0),
    [(0, 1), (0, 10), (0, 1)],
    (math.nan, 1),
    (-1.7e308, 1.7e308),
    np.zeros((0, 3)),
    np.zeros(3),
    np.zeros((2, 2, 2)),
    lambda x: x,
    int,
]
TABLES = [TEXT, TEXT_LABELS, HOLES, HUGE, X[:1], X[:, :0], X.astype(np.float16)]
POOL = NUMBERS + OTHERS
# What has the size of the work is not asked to be astronomically large.
WORK = {"max_iter", "n_iter", "n_samples", "n_bins", "steps", "n_repeats", "size"}


TABLE_NAMES = ("X", "y", "sensitive_features_")
LISTS = {"X", "y", "y_true", "y_pred", "outputs", "u", "v"}


def _fit(make, *data, **keywords):
    """A call that builds an estimator of the parameters and fits it."""

    def call(**params):
        given = {
            k: params.pop(k) for k in ("X", "y", "sensitive_features_") if k in params
        }
        model = make(**params)
        X_, y_ = given.get("X", data[0]), given.get("y", data[1] if data[1:] else None)
        keys = dict(keywords)
        if "sensitive_features_" in given:
            keys["sensitive_features"] = given["sensitive_features_"]
        model.fit(X_, y_, **keys) if y_ is not None else model.fit(X_, **keys)
        return model

    call.__name__ = make.__name__
    return call


def _calls():
    base = {"bounds": (-1, 1), "random_state": 0}
    g = {"groups": [0, 1]}
    s = {"sensitive_features": GROUPS}
    lin, net, post, gen = linear_model, neural_network, postprocessing, generative
    few = {"max_iter": 3}
    declared = privacy.PrivacyGuarantee(0.5, 0.0, "replace_one", "declared")
    yield (
        _fit(lin.DPLinearRegression, X, Y),
        {
            **base,
            "target_bounds": (-1, 1),
            "epsilon": 1.0,
            "delta": 1e-5,
            "alpha": None,
            "data_norm": None,
            "neighboring": "replace_one",
            "ledger": None,
            "X": X,
            "y": Y,
        },
    )
    yield (
        _fit(lin.DPWassersteinLogisticRegression, X, LABELS, **s),
        {
            **base,
            **g,
            "classes": [0, 1],
            "epsilon": 1.0,
            "delta": 1e-5,
            "C": 1.0,
            "fairness_weight": 0.5,
            "max_iter": 5,
            "learning_rate": None,
            "min_group_size": None,
            "X": X,
            "y": LABELS,
            "sensitive_features_": GROUPS,
        },
    )
    yield (
        _fit(lin.DPOutputPerturbationLogisticRegression, X, LABELS),
        {
            **base,
            "classes": [0, 1],
            "epsilon": 1.0,
            "delta": 1e-5,
            "C": None,
            "data_norm": None,
            "X": X,
            "y": LABELS,
        },
    )
    for cls, target, extra in (
        (net.DPWassersteinMLPClassifier, LABELS, {"classes": [0, 1]}),
        (net.DPWassersteinMLPRegressor, Y, {"target_bounds": (-1, 1)}),
    ):
        yield (
            _fit(cls, X, target, **s),
            {
                **base,
                **g,
                **few,
                **extra,
                "epsilon": 1.0,
                "delta": 1e-5,
                "alpha": 1e-4,
                "clip_norm": 1.0,
                "momentum": 0.9,
                "hidden_layer_sizes": (4,),
                "fairness_weight": 0.5,
                "X": X,
                "y": target,
                "sensitive_features_": GROUPS,
            },
        )
    yield (
        _fit(post.DPBarycenterTransformer, X[:, :1], None, **s),
        {
            **base,
            **g,
            "epsilon": 1.0,
            "fairness_tolerance": 0.0,
            "n_bins": "auto",
            "X": X[:, :1],
            "sensitive_features_": GROUPS,
        },
    )
    yield (
        _fit(post.DPBarycenterRegressor, X, Y, **s),
        {
            "estimator": LinearRegression(),
            "base_guarantee": declared,
            "target_bounds": (-1, 1),
            "random_state": 0,
            **g,
            "epsilon": 1.0,
            "fairness_tolerance": 0.0,
            "calibration_size": 0.25,
            "X": X,
            "y": Y,
            "sensitive_features_": GROUPS,
        },
    )
    yield (
        _fit(post.DP2DPClassifier, X, LABELS, **s),
        {
            "estimator": LogisticRegression(),
            "base_guarantee": declared,
            "classes": [0, 1],
            "random_state": 0,
            **g,
            **few,
            "epsilon": 1.0,
            "delta": 1e-5,
            "smoothing": 0.02,
            "calibration_size": 0.25,
            "learning_rate": 1.0,
            "X": X,
            "y": LABELS,
            "sensitive_features_": GROUPS,
        },
    )
    for cls in (gen.DPSinkhornGenerator, gen.DPSlicedWassersteinGenerator):
        yield (
            _fit(cls, X, LABELS),
            {
                **base,
                "classes": [0, 1],
                "max_iter": 3,
                "epsilon": 1.0,
                "delta": 1e-5,
                "clip_norm": "auto",
                "jitter": "auto",
                "n_components": "auto",
                "X": X,
                "y": LABELS,
            },
        )
    model = lin.DPWassersteinLogisticRegression(
        bounds=(-1, 1), classes=[0, 1], fairness_weight=0.0, max_iter=3
    )
    yield (
        _fit(model_selection.DPGridSearchCV, X, LABELS),
        {
            "estimator": model,
            "param_grid": {"C": [0.1, 1.0]},
            "classes": [0, 1],
            "random_state": 0,
            "epsilon": 1.0,
            "delta": 1e-5,
            "coverage": 0.8,
            "holdout_size": 0.2,
            "X": X,
            "y": LABELS,
        },
    )
    yield (
        model_selection.dp_cross_validate,
        {
            "estimator": model,
            "X": X,
            "y": LABELS,
            "cv": 2,
            "epsilon": 1.0,
            "delta": 1e-5,
            "score_fraction": 0.1,
            "classes": [0, 1],
            "confidence_level": 0.95,
            "ledger": None,
            "random_state": 0,
        },
    )
    yield (
        metrics.dp_group_rates,
        {
            "y_true": LABELS,
            "y_pred": LABELS,
            "sensitive_features": GROUPS,
            "groups": [0, 1],
            "classes": [0, 1],
            "epsilon": 1.0,
            "confidence_level": 0.95,
            "neighboring": "replace_one",
            "ledger": None,
            "random_state": 0,
        },
    )
    for metric in (
        metrics.demographic_parity_difference,
        metrics.equalized_odds_difference,
        metrics.ks_parity_difference,
        metrics.wasserstein_parity_difference,
    ):
        keys = {"y_true": LABELS, "y_pred": LABELS, "sensitive_features": GROUPS}
        yield metric, keys
    yield (
        privacy.PrivacyGuarantee,
        {
            "epsilon": 1.0,
            "delta": 0.0,
            "neighboring": "replace_one",
            "mechanism": "m",
        },
    )
    yield privacy.PrivacyLedger, {"epsilon": 1.0, "delta": 1e-5}
    yield privacy.privacy_report, {"estimator": model}
    yield (
        mechanisms.GaussianMechanism,
        {
            "sensitivity": 1.0,
            "mu": 1.0,
            "n_coordinates": 2,
        },
    )
    yield mechanisms.DiscreteLaplaceMechanism, {"sensitivity": 1, "epsilon": 1.0}
    yield mechanisms.noise_source, {"random_state": 0}
    yield accounting.calibrate_gaussian, {"epsilon": 1.0, "delta": 1e-5, "n_draws": 5}
    yield accounting.gaussian_delta, {"mu": 1.0, "epsilon": 1.0}
    yield accounting.gaussian_epsilon, {"mu": 1.0, "delta": 1e-5}
    yield (
        transport.fair_barycenter,
        {
            "grid": np.linspace(0, 1, 4),
            "pmfs": np.array([[0.1, 0.2, 0.3, 0.4], [0.4, 0.3, 0.2, 0.1]]),
            "weights": np.array([0.5, 0.5]),
            "tolerance": 0.1,
        },
    )
    yield transport.wasserstein_1d, {"u": X[:, 0], "v": X[:, 1]}
    yield transport.quantise, {"outputs": X[:, 0], "low": -1.0, "high": 1.0}
    yield (
        transport.pairwise_wasserstein,
        {
            "outputs": (X[:, 0] + 1) / 2,
            "codes": GROUPS,
            "n_groups": 2,
        },
    )
    yield transport.point_cost, {"X": X, "Y": X[:5], "l1_weight": 0.0}
    yield (
        transport.sinkhorn,
        {
            "cost": np.abs(X[:5, :1] - X[:5, :1].T),
            "regularization": 0.1,
            "tol": 1e-9,
        },
    )
    yield (
        transport.sliced_wasserstein,
        {
            "X": X,
            "Y": X[::-1],
            "directions": np.eye(3),
        },
    )
    yield (
        datasets.make_biased_mixture,
        {
            "n_samples": 50,
            "n_features": 4,
            "p": 0.75,
            "group_share": 0.5,
            "random_state": 0,
        },
    )
    yield (
        datasets.make_biased_regression,
        {
            "n_samples": 50,
            "shifts": (-0.5, 0.5),
            "noise": 0.5,
            "random_state": 0,
        },
    )
    yield datasets.make_spurious_bias, {"n_samples": 50, "p": 0.7, "random_state": 0}


CALLS = list(_calls())


ALLOWED = (ValueError, TypeError, NotFittedError, privacy.BudgetExceededError)


class TooSlow(Exception):
    pass


def _alarm(*_):
    raise TooSlow


def nasty(rng, name, good):
    """One nasty value for an argument."""
    if (
        name in ("X", "y", "y_true", "y_pred", "outputs", "u", "v")
        and rng.random() < 0.7
    ):
        return TABLES[rng.integers(len(TABLES))]
    if name == "sensitive_features_" and rng.random() < 0.5:
        return TEXT_LABELS
    value = POOL[rng.integers(len(POOL))]
    too_much = isinstance(value, (int, float)) and not -1e4 < value < 1e4
    return 3 if name in WORK and too_much else value


def one_case(seed):
    """Run one case; return a complaint or None."""
    rng = np.random.default_rng(seed)
    call, good = CALLS[rng.integers(len(CALLS))]
    names = list(rng.permutation(list(good))[: 1 + (rng.random() < 0.2)])
    params = dict(good)
    for name in names:
        params[name] = nasty(rng, name, good)
    what = f"{call.__name__}({', '.join(f'{n}={_short(params[n])}' for n in names)})"
    signal.signal(signal.SIGALRM, _alarm)
    signal.alarm(20)
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            result = call(**params)
    except TooSlow:
        return f"slow: {what}"
    except (
        ValueError,
        TypeError,
        NotFittedError,
        privacy.BudgetExceededError,
    ) as error:
        if isinstance(error, WrappedEstimatorError):
            return None  # what a wrapped model refuses is not ours to name
        return _judge_error(error, names, what)
    except Exception as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        place = f"{last.filename.rpartition('/')[2]}:{last.lineno}"
        return f"{type(error).__name__}: {what}: {error} [{place}]"
    finally:
        signal.alarm(0)
    return _judge_result(result, what)


_NAMES = ["text", "labels", "holes", "huge", "one"]


def _short(value):
    if isinstance(value, np.ndarray):
        names = {id(t): n for t, n in zip(TABLES, _NAMES, strict=False)}
        return names.get(id(value), f"array{value.shape}{value.dtype}")
    return repr(value)[:40]


def _judge_error(error, names, what):
    link = error
    while link is not None:
        if SECRET in str(link):
            return f"quotes a cell: {what}"
        link = link.__cause__ or link.__context__
    synonyms = {"sensitive_features_": "sensitive features"}
    said = str(error).replace("_", " ").lower()
    wanted = [synonyms.get(n, n).replace("_", " ").lower() for n in names]
    last = traceback.extract_tb(error.__traceback__)[-1]
    ours = "fairpriv_sklearn" in last.filename or "sklearn" in last.filename
    if not any(word in said for word in wanted):
        place = f"{last.filename.rpartition('/')[2]}:{last.lineno}"
        kind = "does not name the argument" if ours else "raw error"
        return f"{kind}: {what}: {type(error).__name__}: {str(error)[:100]} [{place}]"
    return None


def _judge_result(result, what):
    for name, value in vars(result).items() if hasattr(result, "__dict__") else []:
        if not name.endswith("_") or name.startswith("_"):
            continue
        array = np.asarray(value) if isinstance(value, (float, np.ndarray)) else None
        if array is not None and array.dtype.kind == "f" and np.isnan(array).any():
            if "nan" not in what and "holes" not in what:
                return f"NaN in {name}: {what}"
    return None


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
