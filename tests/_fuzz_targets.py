"""What the fuzz calls: every public callable, with good arguments.

A name is ``function``, ``Class`` or ``Class.method``; `public_names` lists those there
are, and `test_fuzz.py` fails if one is neither called nor in `LEFT_OUT`.
"""

import importlib
import inspect
import pkgutil
import tempfile
import warnings
from functools import cache

import numpy as np
import pandas as pd
from common import ENTRIES, table
from sklearn.naive_bayes import BernoulliNB
from sklearn.pipeline import make_pipeline

import fairpriv_sklearn
from fairpriv_sklearn import (
    accounting,
    audit,
    datasets,
    distributed,
    inspection,
    linear_model,
    mechanisms,
    metrics,
    model_selection,
    postprocessing,
    preprocessing,
    privacy,
    transport,
)

N = 60
X = np.random.default_rng(0).uniform(-1, 1, (N, 3))
Y = np.clip(X @ [0.5, -0.3, 0.2], -1, 1)
LABELS = (Y > 0).astype(int)
GROUPS = (X[:, 0] > 0).astype(int)

_RECORD = "a record that the library makes; it stores what it is given"
_DRAWS = "inner draws, called by mechanisms with numbers that they have checked"
_DRAWN = (
    "bernoulli",
    "choice",
    "integers",
    "key",
    "standard_normal",
    "uint64",
    "uniform",
)
LEFT_OUT = {
    **dict.fromkeys(
        (
            *("AuditReport", "Finding", "Neighbours", "ReplayReport", "Table"),
            *("CrossValidation", "ExpectedError", "FitShare", "FoldScores"),
            *("GroupRates", "SearchPlan", "BarycenterResult", "Coupling"),
            *("OptimalityCertificate", "SinkhornResult", "PrivacyBudget"),
            *("PrivacyReport", "StepPrivacy", "CardLine"),
        ),
        _RECORD,
    ),
    **dict.fromkeys(("NoiseSource", "PublicDraws"), _DRAWS),
    **dict.fromkeys((f"NoiseSource.{name}" for name in _DRAWN), _DRAWS),
    "Batches.read": "called by `fit`, with a method of the estimator",
    "PrivacyEvent": "the base class of events, without arguments",
    "PrivacyGuarantee.from_parts": "refuses with the name of its successor",
    "DPBarycenterTransformer.fit_transform": "`fit`, then `transform`",
}


def public_modules():
    """All modules of the package whose name has no underscore."""
    for found in pkgutil.iter_modules(fairpriv_sklearn.__path__):
        if not found.name.startswith("_"):
            yield importlib.import_module(f"fairpriv_sklearn.{found.name}")


def public_methods(cls):
    """Methods of a class that are ours and take arguments: name, and where defined."""
    for name in sorted(dir(cls)):
        member = inspect.getattr_static(cls, name)
        function = inspect.unwrap(getattr(member, "fn", member))
        function = inspect.unwrap(getattr(function, "__func__", function))
        if name.startswith("_") or not inspect.isfunction(function):
            continue
        takes = set(inspect.signature(function).parameters)
        takes -= {"self", "cls", "kwargs", "ax"}
        ours = function.__module__.startswith("fairpriv_sklearn")
        if ours and takes and name not in ("fit", "set_params"):
            yield name, function.__qualname__


def public_names():
    """Every public callable, and the methods of the classes among them."""
    for module in public_modules():
        here = getattr(module, "__all__", None)
        if here is None:
            here = [n for n, o in vars(module).items() if _home(o) == module.__name__]
        for name in here:
            member = getattr(module, name)
            if name.startswith("_") or not callable(member):
                continue
            if inspect.isclass(member) and issubclass(member, Exception):
                continue
            yield name
            if inspect.isclass(member):
                yield from (where for _, where in public_methods(member))


def _home(member):
    return getattr(member, "__module__", None)


@cache
def fitted(name):
    """An entry of the common tests, fitted once; groups are given with every call."""
    entry = next(e for e in ENTRIES if e.name == name)
    X_, y_ = table(entry, N)
    model = entry.make(**entry.public, random_state=0)
    keys = {}
    if entry.needs_groups:
        model.set_params(sensitive_features=None)
        keys["sensitive_features"] = GROUPS
    if name.endswith("-blind"):
        model.set_params(reach_size=0.2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        y_ = {} if entry.task == "transform" else {"y": y_}
        return model.fit(X_, **y_, **keys)


def _estimator(entry):
    """Build an estimator of any parameters and fit it."""
    X_, y_ = table(entry, N)
    model = entry.make(**entry.public, random_state=0)

    def call(X, y=None, **params):
        made = type(model)(**params)
        return made.fit(X) if y is None else made.fit(X, y)

    good = {**model.get_params(deep=False), "X": X_}
    if entry.task != "transform":
        good["y"] = y_
    return type(model).__name__, call, good


def _answers(entry):
    """What a fitted estimator answers, rows and groups replaced."""
    groups = {"sensitive_features": GROUPS} if entry.attribute_aware else {}
    values = {"X": X, "scores": X, "y": LABELS, "n_samples": 5, "name": "x0", **groups}
    values["fairness_tolerances"] = [0.0, 0.1]
    model = fitted(entry.name)
    for name, where in public_methods(type(model)):
        if where in LEFT_OUT or not hasattr(model, name):
            continue
        if name == "reach" and not model.blind:
            continue
        if name == "coef_interval" and model.coef_covariance_ is None:
            continue
        bound = getattr(model, name)
        good = {
            k: values[k] for k in inspect.signature(bound).parameters if k in values
        }
        if name == "inverse_transform":
            good["X"] = X[:, :2]
        if name == "sample":
            del good["y"]  # labels or numbers of rows drawn: not both
        yield where, _first_by_place(bound), good


def _first_by_place(bound):
    """scikit-learn's wrapper around `transform` knows its table as X."""
    first = next(iter(inspect.signature(bound).parameters))
    return lambda **given: bound(
        *([given.pop(first)] if first in given else []), **given
    )


def _accounting():
    a = accounting
    event = a.GaussianEvent(0.5, 2)
    sampled = {"q": 0.1, "noise_multiplier": 2.0, "steps": 5, "n_draws": 2}
    rounds = {"epsilon": 1.0, "delta": 1e-5, "q": 0.1, "steps": 5}
    yield a.DeclaredEvent, {"epsilon": 1.0, "delta": 1e-6}
    yield a.GaussianEvent, {"mu": 0.5}
    yield a.MaximumEvent, {"left": (event,), "right": (event,)}
    yield a.EitherEvent, {"left": (event,), "right": (event,)}
    yield a.PoissonGaussianEvent, sampled
    yield a.PureEvent, {"epsilon": 1.0}
    yield a.ThresholdEvent, {"delta0": 1e-6}
    yield a.WithoutReplacementGaussianEvent, sampled
    yield a.calibrate_gaussian, {"epsilon": 1.0, "delta": 1e-5}
    yield a.calibrate_poisson, rounds
    yield a.calibrate_without_replacement, rounds
    yield a.compose_delta, {"events": [event, event], "epsilon": 1.0}
    yield a.compose_epsilon, {"events": [event, event], "delta": 1e-5}
    yield a.gaussian_delta, {"mu": 1.0, "epsilon": 1.0}
    yield a.gaussian_epsilon, {"mu": 1.0, "delta": 1e-5}
    yield a.gaussian_mu, {"epsilon": 1.0, "delta": 1e-5}


def _linear():
    return linear_model.DPLinearRegression(bounds=(-1, 1), target_bounds=(-1, 1))


def _linear_models():
    model = _linear().set_params(epsilon=10.0, random_state=0).fit(X, Y)
    yield "BoundedLinearMixin.coef_interval", model.coef_interval, {}


def _audit():
    two = {"scores": X[:, 0], "other_scores": X[:, 1]}
    few = {"max_seconds": 1, "max_fits": 4, "random_state": 0}
    rows = audit.Table(X, Y)
    yield audit.audit_estimator, {"estimator": _linear(), "X": X, "y": Y, **few}
    yield audit.epsilon_lower_bound, two
    yield audit.gaussian_mu_lower_bound, two
    yield audit.mu_lower_bound, two
    for bound in (audit.EpsilonBound, audit.MuBound):
        yield bound, {}
        yield "_Bound.learn", bound().learn, two
        yield "_Bound.update", _learnt(bound), two
    yield audit.neighbours, {"X": X, "y": Y, "sensitive_features": GROUPS}
    near = audit.neighbours(X[:9], Y[:9])[:1]
    yield audit.replay, {"estimator": _linear(), "tables": near}
    yield "Table.take", rows.take, {"rows": np.arange(5)}
    yield audit.AuditDisplay, {"bounds": {"all": 0.5}, "claimed": 1.0}
    report = audit.AuditReport("m", "epsilon", 1.0, 0.0, bounds={"all": 0.5})
    yield "AuditDisplay.from_report", audit.AuditDisplay.from_report, {"report": report}


def _learnt(bound):
    def update(scores, other_scores):
        learnt = bound()
        learnt.learn(X[:, 0], X[:, 1])
        return learnt.update(scores, other_scores)

    return update


def _datasets():
    empty = tempfile.mkdtemp()
    for name in datasets.__all__:
        function = getattr(datasets, name)
        if name.startswith("fetch_"):
            yield function, {"data_home": empty, "download_if_missing": False}
        else:
            yield function, {"n_samples": 50, "random_state": 0}


def _blocks():
    return iter([(X, Y, None)])


def _distributed():
    batches = distributed.Batches(_blocks)
    yield distributed.Batches, {"make_batches": _blocks}
    yield "Batches.map", batches.map, {"function": lambda X, *rest: (X, *rest)}
    yield distributed.resume, {"path": "nowhere.progress"}


@cache
def _pipeline():
    frame = pd.DataFrame(X, columns=["x0", "x1", "x2"])
    book = preprocessing.Codebook.from_dict(
        {name: {"kind": "number", "range": (-1, 1)} for name in frame}
    )
    encoder = preprocessing.DPTableEncoder(book, random_state=0)
    model = linear_model.DPLinearRegression(target_bounds=(-1, 1), random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return make_pipeline(encoder, model).fit(frame, Y)


def _inspection():
    i, linear = inspection, fitted("DPLinearRegression")
    repair = fitted("DPBarycenterTransformer")
    declared = privacy.PrivacyGuarantee(0.5, 0.0, "replace_one", "declared")
    shapes = {"names": ["a"], "values": [X[:5, 0]], "contributions": [X[:5, 1]]}
    yield i.AdditiveShapesDisplay, shapes
    display = i.AdditiveShapesDisplay(**shapes)
    yield "AdditiveShapesDisplay.plot", display.plot, {}
    make = i.AdditiveShapesDisplay.from_estimator
    yield "AdditiveShapesDisplay.from_estimator", make, {"estimator": _pipeline()}
    cdfs = [np.array([[0.5, 1.0], [0.2, 1.0]])]
    good = {"groups": [0, 1], "values": [np.array([0.0, 1.0])], "cdfs": cdfs}
    yield i.GroupDistributionDisplay, {**good, "names": ["before"]}
    make = i.GroupDistributionDisplay.from_predictions
    good = {"before": X[:, 0], "after": X[:, 1], "sensitive_features": GROUPS}
    yield "GroupDistributionDisplay.from_predictions", make, good
    make = i.GroupDistributionDisplay.from_estimator
    good = {"estimator": linear, "X": X, "sensitive_features": GROUPS}
    yield "GroupDistributionDisplay.from_estimator", make, good
    good = {"epsilon": np.array([0.5, 1.0]), "delta": np.array([[0.1, 0.01]])}
    good |= {"names": ["a"], "stated": [(1.0, 0.01)]}
    yield i.PrivacyProfileDisplay, good
    make = i.PrivacyProfileDisplay.from_guarantees
    yield "PrivacyProfileDisplay.from_guarantees", make, {"guarantees": [declared]}
    make = i.PrivacyProfileDisplay.from_estimator
    yield "PrivacyProfileDisplay.from_estimator", make, {"estimator": linear}
    good = {k: np.array([1.0, 2.0]) for k in ("epsilon", "disparity", "error")}
    yield i.TradeoffDisplay, good
    yield "TradeoffDisplay.curve", i.TradeoffDisplay(**good).curve, {"epsilon": 1.0}
    fair = linear_model.DPWassersteinLogisticRegression(
        bounds=(-1, 1), classes=[0, 1], groups=[0, 1], max_iter=2
    )
    good = {"estimator": fair, "X": X, "y": LABELS, "sensitive_features": GROUPS}
    good |= {"epsilons": [1.0], "param_name": "fairness_weight", "param_values": [0.5]}
    make = i.TradeoffDisplay.from_estimator
    yield "TradeoffDisplay.from_estimator", make, good
    good = {"grid": [0.0, 0.5, 1.0], "maps": np.zeros((2, 3)), "groups": [0, 1]}
    yield i.TransportDisplay, good
    make = i.TransportDisplay.from_estimator
    yield "TransportDisplay.from_estimator", make, {"estimator": repair}
    good = {"transport": _barycenter(), "groups": [0, 1]}
    yield "TransportDisplay.from_transport", i.TransportDisplay.from_transport, good


def _mechanisms():
    m = mechanisms
    source = m.noise_source(0)
    gauss = {"sensitivity": 1.0, "mu": 1.0, "n_coordinates": 2}
    pure = {"sensitivity": 1, "epsilon": 1.0}
    yield m.noise_source, {"random_state": 0}
    yield m.GaussianMechanism, gauss
    made = m.GaussianMechanism(**gauss)
    good = {"value": np.zeros(2), "noise": source}
    yield "GaussianMechanism.release", made.release, good
    good = {"delta": 1e-5, "n_columns": 1}
    yield "GaussianMechanism.key_threshold", made.key_threshold, good
    good = {"counts": np.zeros(2), "keys": [b"a", b"b"], "secret": b"0" * 32}
    yield "GaussianMechanism.release_keyed", made.release_keyed, good
    yield m.DiscreteLaplaceMechanism, pure
    good = {"counts": np.arange(3), "noise": source}
    release = m.DiscreteLaplaceMechanism(**pure).release
    yield "DiscreteLaplaceMechanism.release", release, good
    yield m.PermuteAndFlip, pure
    good = {"utilities": np.arange(3), "noise": source}
    yield "PermuteAndFlip.release", m.PermuteAndFlip(**pure).release, good


def _metrics():
    three = {"y_true": LABELS, "y_pred": LABELS, "sensitive_features": GROUPS}
    public = {"groups": [0, 1], "classes": [0, 1], "epsilon": 1.0, "random_state": 0}
    yield metrics.dp_group_rates, {**three, **public}
    yield metrics.demographic_parity_difference, three
    yield metrics.equalized_odds_difference, three
    numbers = {**three, "y_true": Y, "y_pred": Y}
    yield metrics.ks_parity_difference, numbers
    yield metrics.wasserstein_parity_difference, numbers
    metric = metrics.demographic_parity_difference
    yield metrics.make_fairness_scorer, {"metric": metric}


def _postprocessing():
    model = postprocessing.DP2DPClassifier(
        BernoulliNB(), method="histogram", classes=[0, 1], groups=[0, 1], random_state=0
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X, LABELS, sensitive_features=GROUPS)
    yield "DP2DPClassifier.path", model.path, {"fairness_tolerances": [0.0, 0.1]}


def _model_selection():
    s = model_selection
    model = linear_model.DPWassersteinLogisticRegression(
        bounds=(-1, 1), classes=[0, 1], fairness_weight=0.0, max_iter=3
    )
    fair = postprocessing.DP2DPClassifier(model, classes=[0, 1], groups=[0, 1])
    good = {"estimator": model, "X": X, "y": LABELS, "classes": [0, 1]}
    yield s.dp_cross_validate, {**good, "cv": 2, "random_state": 0}
    good = {"estimator": fair, "group_sizes": [200, 300], "n_repeats": 1}
    yield s.expected_error, good
    yield s.BoundedScore, {"function": max, "low": 0.0, "high": 1.0}
    yield s.ConstrainedScore, {}


def _preprocessing():
    p = preprocessing
    columns = {"x0": {"kind": "number", "range": (0, 1)}}
    book = p.Codebook.from_dict(columns)
    yield p.Column, {"kind": "number", "range": (0, 1)}
    yield p.Codebook, {"entries": book.entries}
    yield "Codebook.from_dict", p.Codebook.from_dict, {"columns": columns}
    yield "Codebook.from_json", p.Codebook.from_json, {"source": book.to_json()}
    yield (
        "Codebook.template",
        p.Codebook.template,
        {"source": pd.DataFrame({"x0": X[:, 0]})},
    )
    yield "Codebook.to_json", book.to_json, {}
    column = p.Column("number", (0, 1))
    yield "Codebook.with_columns", book.with_columns, {"columns": column}
    cells = pd.DataFrame({"pay": ["$1,200", "?"], "rise": ["12 %", "low"]})
    yield p.parse_cells, {"X": cells, "decimal": ".", "day_first": None}


def _privacy():
    p, model = privacy, fitted("DPLinearRegression")
    plain = {"epsilon": 1.0, "delta": 0.0, "neighboring": "replace_one"}
    plain["mechanism"] = "m"
    declared = p.PrivacyGuarantee(**plain)
    event = accounting.GaussianEvent(0.5, 2)
    ledger = p.PrivacyLedger(epsilon=1e6, delta=0.5)
    yield p.PrivacyGuarantee, plain
    yield "PrivacyGuarantee.delta_at", declared.delta_at, {"epsilon": 1.0}
    yield "PrivacyGuarantee.epsilon_at", declared.epsilon_at, {"delta": 1e-5}
    yield "PrivacyGuarantee.qualified", declared.qualified, {}
    good = {"data": declared.to_dict()}
    yield "PrivacyGuarantee.from_dict", p.PrivacyGuarantee.from_dict, good
    good = {"events": [event], "delta": 1e-5, "neighboring": "replace_one"}
    good["mechanism"] = "m"
    yield "PrivacyGuarantee.from_events", p.PrivacyGuarantee.from_events, good

    def compose(others, delta=None):
        return declared.compose(others, delta=delta)

    def disjoint(others):
        return declared.disjoint(others)

    yield "PrivacyGuarantee.compose", compose, {"others": declared}
    yield "PrivacyGuarantee.disjoint", disjoint, {"others": declared}
    yield p.PrivacyLedger, {"epsilon": 1.0, "delta": 1e-5}
    yield "PrivacyLedger.for_dataset", ledger.for_dataset, {"name": "people"}
    yield "PrivacyLedger.spend", ledger.spend, {"guarantee": declared, "label": "a"}
    yield p.guarantee_of, {"estimator": model}
    yield p.privacy_report, {"estimator": model}
    yield "PrivacyReport.to_card", p.privacy_report(model).to_card, {}
    yield p.deployment_card, {"model": model}
    yield p.DeploymentCard, {"report": p.privacy_report(model)}
    answers = p.deployment_card(model).answers
    yield "DeploymentCard.answers", answers, {"question": "whom"}
    yield p.Fact, {"name": "bounds"}
    yield p.warn_leak, {"argument": "bounds", "what": "the range"}
    yield p.with_budget, {"estimator": _linear(), "epsilon": 2.0}
    yield p.show_wrapped_errors, {}


def _grid():
    pmfs = np.array([[0.1, 0.2, 0.3, 0.4], [0.4, 0.3, 0.2, 0.1]])
    return {"grid": np.linspace(0, 1, 4), "pmfs": pmfs, "weights": np.full(2, 0.5)}


def _barycenter():
    return transport.fair_barycenter(**_grid(), tolerance=0.1)


def _transport():
    t, result = transport, _barycenter()
    yield t.fair_barycenter, {**_grid(), "tolerance": 0.1}
    yield t.optimality_certificate, {"result": result}
    good = {
        "codes": np.arange(2),
        "source": np.array([0, 3]),
        "uniforms": np.ones(2) / 2,
    }
    yield "BarycenterResult.transport", result.transport, good
    yield t.wasserstein_1d, {"u": X[:, 0], "v": X[:, 1]}
    yield t.quantise, {"outputs": X[:, 0], "low": -1.0, "high": 1.0}
    yield t.point_cost, {"X": X, "Y": X[:5]}
    cost = np.abs(X[:5, :1] - X[:5, :1].T)
    yield t.sinkhorn, {"cost": cost, "regularization": 0.1}
    yield t.transport_gradient, {"plan": np.eye(5), "X": X[:5], "Y": X[5:10]}
    good = {"grid": np.linspace(0, 1, 4)}
    coupling = t.Coupling(np.arange(2), np.arange(2), np.full(2, 0.5))
    yield "Coupling.cost", coupling.cost, good


_ROOMS = (
    *(_accounting, _audit, _datasets, _distributed, _inspection, _linear_models),
    _mechanisms,
    *(
        _metrics,
        _model_selection,
        _postprocessing,
        _preprocessing,
        _privacy,
        _transport,
    ),
)


def _with_defaults(call, good):
    """Good values for all arguments: those that are given and the defaults."""
    found = inspect.signature(call).parameters.values()
    defaults = {p.name: p.default for p in found if p.default is not p.empty}
    return {**defaults, **good}


def targets():
    """Every callable of the fuzz: its name, itself, and good arguments."""
    for entry in ENTRIES:
        yield _estimator(entry)
        yield from _answers(entry)
    for room in _ROOMS:
        for *name, call, good in room():
            name = name[0] if name else call.__name__
            yield name, call, _with_defaults(call, good)
