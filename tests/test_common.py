"""What every estimator of the library owes its users, whatever it computes."""

import importlib
import inspect
import pickle
import re
import sys
import warnings
from dataclasses import is_dataclass
from pathlib import Path

import numpy as np
import pytest
import sklearn
from common import ENTRIES, GROUPS, first_sign, fit, outputs, table
from numpy.testing import assert_allclose, assert_array_equal
from sklearn import config_context
from sklearn.base import clone
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import GridSearchCV, cross_val_predict, cross_validate
from sklearn.naive_bayes import BernoulliNB
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils import get_tags
from sklearn.utils.estimator_checks import (
    check_estimator,
    estimator_checks_generator,
    parametrize_with_checks,
)
from sklearn.utils.fixes import parse_version
from sklearn.utils.validation import check_is_fitted

import fairpriv_sklearn
from fairpriv_sklearn._shared.sklearn import Interval
from fairpriv_sklearn.generative import _points
from fairpriv_sklearn.linear_model import DPLinearRegression
from fairpriv_sklearn.mechanisms import DiscreteLaplaceMechanism, GaussianMechanism
from fairpriv_sklearn.postprocessing import (
    DP2DPClassifier,
    DPBarycenterRegressor,
    RepairWarning,
)
from fairpriv_sklearn.privacy import (
    BudgetExceededError,
    PrivacyGuarantee,
    PrivacyLeakWarning,
    PrivacyLedger,
)

every_entry = pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.name)
supervised = [e for e in ENTRIES if e.task in ("regression", "classification")]
every_supervised = pytest.mark.parametrize(
    "entry", supervised, ids=lambda entry: entry.name
)


# Before scikit-learn 1.8 a search does not see what a pipeline's score asks for.
ROUTED_PIPELINES = parse_version(sklearn.__version__) >= parse_version("1.8")


# scikit-learn's checks bring labels and ranges of their own and cannot pass them on as
# public arguments: there, and only there, the leak warning is expected.
@pytest.mark.filterwarnings(
    "ignore::fairpriv_sklearn.privacy.PrivacyLeakWarning",
    # One check needs an environment variable that is set before SciPy is imported.
    "ignore::sklearn.exceptions.SkipTestWarning",
)
@parametrize_with_checks([entry.make() for entry in ENTRIES])
def test_scikit_learn_checks(estimator, check):
    check(estimator)


needs_groups = [e for e in ENTRIES if e.needs_groups]
every_one_with_groups = pytest.mark.parametrize(
    "entry", needs_groups, ids=lambda entry: entry.name
)


@pytest.mark.filterwarnings("ignore")
@every_one_with_groups
def test_scikit_learn_checks_with_groups_in_a_column(entry):
    estimator = entry.make(sensitive_features=0, groups=[0, "..."])
    results = check_estimator(estimator, on_skip=None)
    assert {result["status"] for result in results} <= {"passed", "skipped"}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "estimator",
    [
        DPBarycenterRegressor(DPLinearRegression(random_state=0)),
        DP2DPClassifier(BernoulliNB(), method="histogram"),
    ],
    ids=["a private model", "two classes"],
)
def test_scikit_learn_checks_of_repairs_that_promise_less(estimator):
    """Tags said that noise costs a private model nothing inside a repair, and that
    counts by score serve three classes."""
    estimator.set_params(sensitive_features=0, groups=[0, "..."])
    results = check_estimator(estimator, on_skip=None)
    assert {result["status"] for result in results} <= {"passed", "skipped"}


def test_a_repair_promises_what_its_model_and_its_method_do():
    for model, poor in [(DPLinearRegression(), True), (LinearRegression(), False)]:
        tags = get_tags(DPBarycenterRegressor(model))
        assert tags.regressor_tags.poor_score is poor
    for method, odds, many in [
        ("auto", False, True),
        ("gradient", False, True),
        ("histogram", False, False),
        ("histogram", True, True),
    ]:
        constraint = "equalized_odds" if odds else "demographic_parity"
        repair = DP2DPClassifier(BernoulliNB(), method=method, constraint=constraint)
        assert get_tags(repair).classifier_tags.multi_class is many


@pytest.mark.filterwarnings("ignore")
@every_one_with_groups
def test_missing_sensitive_features_are_the_one_expected_failure(entry):
    estimator = entry.make(sensitive_features=None)
    expected = {
        check.func.__name__: "fit needs the sensitive features"
        for _, check in estimator_checks_generator(estimator)
    }
    results = check_estimator(
        estimator, expected_failed_checks=expected, on_skip=None, on_fail=None
    )
    failed = [r["exception"] for r in results if r["status"] in ("xfail", "failed")]
    assert len(failed) > 20
    for error in failed:
        said = []
        while error is not None:
            said.append(str(error))
            error = error.__cause__ or error.__context__
        assert any("needs the sensitive features" in text for text in said), said


@every_entry
def test_receipt_equals_request(entry):
    X, y = table(entry)
    for epsilon in (0.1, 1.0, 7.0):
        estimator = fit(entry, entry.make(epsilon=epsilon, **entry.public), X, y)
        guarantee = estimator.privacy_
        assert isinstance(guarantee, PrivacyGuarantee)
        requested = entry.epsilon_of(estimator)
        # Nothing above the request, and nothing much left on the table.
        assert guarantee.epsilon <= requested * (1 + 1e-9)
        assert guarantee.epsilon >= requested * (1 - 1e-4)
        assert guarantee.delta <= getattr(estimator, "delta", 0.0) * (1 + 1e-9)
        assert guarantee.epsilon_at(guarantee.delta) <= guarantee.epsilon * (1 + 1e-9)
        assert guarantee.neighboring == "replace_one"
        assert not guarantee.uncovered


@every_entry
def test_receipt_tells_secure_noise_from_reproducible_noise(entry):
    X, y = table(entry)
    secure = fit(entry, entry.make(**entry.public), X, y)
    seeded = fit(entry, entry.make(random_state=0, **entry.public), X, y)
    assert secure.privacy_.noise_is_secure
    assert not seeded.privacy_.noise_is_secure


@every_entry
def test_add_remove_is_its_own_relation(entry):
    X, y = table(entry)
    estimator = entry.make(neighboring="add_remove", **entry.public)
    assert fit(entry, estimator, X, y).privacy_.neighboring == "add_remove"


@every_entry
def test_no_noise_has_no_guarantee(entry):
    X, y = table(entry)
    estimator = fit(entry, entry.make(epsilon=np.inf, **entry.public), X, y)
    assert estimator.privacy_.epsilon == np.inf


@every_entry
def test_public_arguments_silence_the_leak_warning(entry):
    X, y = table(entry)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", RepairWarning)
        fit(entry, entry.make(**entry.public), X, y)


@every_entry
def test_random_state_makes_fits_reproducible(entry):
    X, y = table(entry)
    first, second = (
        fit(entry, entry.make(random_state=3, **entry.public), X, y) for _ in range(2)
    )
    if entry.task != "generate":
        assert_array_equal(outputs(entry, first, X), outputs(entry, second, X))


@every_entry
def test_rules_of_an_application_on_tiny_numbers_end_here(entry):
    """`np.seterr` turns no record into an error, and changes no bit."""
    X, y = table(entry)
    X[0], X[1, 0] = 1e-310, 1e300
    X[:, 2] = np.round(X[:, 2])  # a number that is 0 has none beside it but tiny ones
    usual = fit(entry, entry.make(random_state=3, **entry.public), X, y)
    with np.errstate(all="raise"):
        strict = fit(entry, clone(usual), X, y)
        told = outputs(entry, strict, X)
    if entry.task != "generate":
        assert_array_equal(told, outputs(entry, usual, X))
    assert strict.privacy_ == usual.privacy_


@every_entry
def test_noise_differs_from_fit_to_fit(entry):
    """Without random_state no two fits release the same numbers."""
    X, y = table(entry)
    released = []
    for _ in range(2):
        estimator = fit(entry, entry.make(epsilon=0.5, **entry.public), X, y)
        released.append(pickle.dumps(_fitted(estimator)))
    assert released[0] != released[1]


def _fitted(estimator):
    return {
        name: value
        for name, value in vars(estimator).items()
        if name.endswith("_") and not name.startswith("_")
    }


def _degenerate_pairs(entry):
    """Neighbouring tables in the domain, one of them as degenerate as can be."""
    X, y = table(entry, n=40)
    constant_X, constant_y = np.full_like(X, 0.25), np.full_like(y, y[0])
    for name, D, target in (
        ("ordinary", X, y),
        ("all equal, one group, one label", constant_X, constant_y),
        ("at the corners of the domain", np.sign(X), y),
    ):
        other_X, other_y = D.copy(), target.copy()
        other_X[0] = [-1.0, 1.0, -1.0]  # another group
        labelled = entry.task in ("classification", "generate")
        other_y[0] = 1 - target[0] if labelled else -target[0]
        yield name, (D, target), (other_X, other_y)


def _traces(entry, X, y):
    """All that a fit shows beside its noisy numbers."""
    estimator = entry.make(random_state=0, **entry.public)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            fit(entry, estimator, X, y)
            error = None
        except Exception as exception:  # whatever it is, both must raise the same
            error = (type(exception), str(exception))
    shapes = {}
    for name, value in _fitted(estimator).items():
        if isinstance(value, np.ndarray):
            shapes[name] = (value.shape, value.dtype)
        elif isinstance(value, int | str | tuple | PrivacyGuarantee):
            shapes[name] = value
        else:
            shapes[name] = type(value)
    # A repair stands back by noisy numbers alone.
    told = [w for w in caught if w.category is not RepairWarning]
    return error, [(w.category, str(w.message)) for w in told], shapes


@every_entry
def test_nothing_but_noisy_numbers_tells_neighbours_apart(entry):
    for name, table_0, table_1 in _degenerate_pairs(entry):
        trace = _traces(entry, *table_0)
        assert trace == _traces(entry, *table_1), name
        assert trace[0] is None, name


def _as_numpy(value):
    """Numbers of NumPy that are equal to one of Python, as narrow as there are."""
    if isinstance(value, bool):
        return []
    if isinstance(value, int):
        kinds = [np.int8, np.uint8, np.int64]
        return [kind(value) for kind in kinds if value <= np.iinfo(kind).max]
    if isinstance(value, float):
        return [np.float16(value), np.float32(value), np.longdouble(value)]
    return []


@every_entry
def test_numbers_of_numpy_are_those_of_python(entry, monkeypatch):
    """Half precision, and 256 = 0, reach no price, no sensitivity and no number."""
    monkeypatch.setattr(_points, "N_FITS", 1)  # nothing is released after the tables
    monkeypatch.setattr(_points, "FEWEST_STEPS", 2)
    seen = []
    for mechanism in (GaussianMechanism, DiscreteLaplaceMechanism):
        release = mechanism.release

        def spy(self, value, noise, release=release):
            seen.append((*vars(self).items(),))
            return release(self, value, noise)

        monkeypatch.setattr(mechanism, "release", spy)

    def fitted(name, value):
        seen.clear()
        estimator = entry.make(random_state=0, **entry.public)
        estimator.set_params(**{name: value})
        X, y = table(entry, n=60)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            estimator = fit(entry, clone(estimator), X, y)
        return estimator.privacy_.events, [one[:2] for one in seen]

    for name, value in entry.make(**entry.public).get_params(deep=False).items():
        expected = {}  # most numbers of NumPy are one of Python
        for number in _as_numpy(value) if name != "random_state" else ():
            plain = type(value)(number)
            if plain not in expected:
                expected[plain] = fitted(name, plain)
            assert fitted(name, number) == expected[plain], name


@every_entry
def test_one_record_is_a_table(entry):
    if "estimator" in inspect.signature(type(entry.make())).parameters:
        pytest.skip("a meta-estimator needs a row for each of its two phases")
    X, y = table(entry, n=1)
    error, caught, _ = _traces(entry, X, y)
    assert error is None and not caught


@every_entry
def test_pickle_and_clone(entry):
    X, y = table(entry)
    estimator = fit(entry, entry.make(random_state=0, **entry.public), X, y)
    loaded = pickle.loads(pickle.dumps(estimator))
    assert loaded.privacy_ == estimator.privacy_
    if entry.task != "generate":
        assert_array_equal(outputs(entry, loaded, X), outputs(entry, estimator, X))
    with pytest.raises(Exception, match="not fitted"):
        check_is_fitted(clone(estimator))


@every_entry
def test_what_was_pickled_before_an_argument_was_there_has_its_default(entry):
    X, y = table(entry)
    estimator = fit(entry, entry.make(random_state=0, **entry.public), X, y)
    known = inspect.signature(type(estimator)).parameters.values()
    given = estimator.get_params(deep=False)
    kept = [k for k in known if given[k.name] is k.default]
    pickled = type(estimator).__new__(type(estimator))
    state = {**estimator.__getstate__()}
    for argument in kept:
        del state[argument.name]
    pickled.__setstate__(state)
    assert len(kept) > 3 and pickled.get_params(deep=False) == given
    if entry.task != "generate":
        assert_array_equal(outputs(entry, pickled, X), outputs(entry, estimator, X))
    assert repr(clone(pickled)) == repr(clone(estimator))


@every_entry
def test_skops(entry):
    skops = pytest.importorskip("skops.io")
    X, y = table(entry)
    estimator = fit(entry, entry.make(random_state=0, **entry.public), X, y)
    data = skops.dumps(estimator)
    loaded = skops.loads(data, trusted=skops.get_untrusted_types(data=data))
    if entry.task != "generate":
        assert_array_equal(outputs(entry, loaded, X), outputs(entry, estimator, X))


@every_entry
@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_data_frames(entry, library):
    """Named sensitive column of a DataFrame = the same labels given in the call."""
    frames = pytest.importorskip(library)
    X, y = table(entry)
    labels = np.where(first_sign(X), "yes", "no")
    columns = {"a": X[:, 1], "b": X[:, 2]}
    frame = frames.DataFrame({**columns, "group": labels.tolist()})
    if not entry.needs_groups:
        named = entry.make(random_state=0, **entry.public)
        fit(entry, named, frames.DataFrame(columns), y)
        assert list(named.feature_names_in_) == ["a", "b"]
        return
    params = {"groups": ["no", "yes"], "random_state": 0}
    named = entry.make(**{**entry.public, **params, "sensitive_features": "group"})
    fit(entry, named, frame, y)
    given = entry.make(**{**entry.public, **params, "sensitive_features": None})
    plain = frames.DataFrame(columns)
    fit(entry, given, plain, y, sensitive_features=labels)
    assert list(named.feature_names_in_) == ["a", "b", "group"]
    aware = {"sensitive_features": labels} if entry.attribute_aware else {}
    assert_array_equal(
        outputs(entry, named, frame), outputs(entry, given, plain, **aware)
    )


@every_entry
def test_fairness_is_never_silently_absent(entry):
    if not entry.needs_groups:
        # The table encoder only leaves such columns out.
        if entry.name != "DPTableEncoder":
            assert not hasattr(entry.make(), "sensitive_features")
        return
    X, y = table(entry)
    labels = first_sign(X)
    nothing = entry.make(**{**entry.public, "sensitive_features": None})
    with pytest.raises(ValueError, match="in the call.*in the constructor"):
        fit(entry, nothing, X, y)
    with pytest.raises(ValueError, match="given twice"):
        fit(entry, entry.make(**entry.public), X, y, sensitive_features=labels)
    with pytest.raises(ValueError, match="not in groups=\\[0, 1\\]"):
        fit(entry, nothing, X, y, sensitive_features=labels + 1)
    with pytest.raises(ValueError, match="missing label"):
        fit(entry, nothing, X, y, sensitive_features=[None, *labels[1:].tolist()])
    named = entry.make(**{**entry.public, "sensitive_features": "sex"})
    with pytest.raises(ValueError, match="set_output"):
        fit(entry, named, X, y)
    one = entry.make(**{**entry.public, "groups": [0]})
    with pytest.raises(ValueError, match="at least two groups"):
        fit(entry, one, X, y)
    if entry.attribute_aware:
        nothing = fit(entry, nothing, X, y, sensitive_features=labels)
        with pytest.raises(ValueError, match="needs the sensitive features"):
            outputs(entry, nothing, X)
        with pytest.raises(ValueError, match="not in groups"):
            outputs(entry, nothing, X, sensitive_features=labels + 1)


@every_entry
def test_groups_from_the_data_leak_and_say_so(entry):
    if not entry.needs_groups:
        assert "groups" not in entry.make().get_params()
        return
    X, y = table(entry)
    estimator = entry.make(**{**entry.public, "groups": None})
    with pytest.warns(PrivacyLeakWarning, match="groups"):
        fit(entry, estimator, X, y)
    guarantee = estimator.privacy_
    assert guarantee.conditional_on == ("groups",)
    assert guarantee.epsilon == np.inf > guarantee.epsilon_if_public


@every_entry
def test_ledger_is_charged_before_the_data_are_used(entry):
    X, y = table(entry)
    ledger = PrivacyLedger(epsilon=2.5, delta=1e-4)
    for _ in range(2):
        estimator = entry.make(epsilon=1.0, ledger=ledger, **entry.public)
        fit(entry, estimator, X, y)
    spends = ledger.spends()
    assert len(spends) == 2
    assert spends[0]["epsilon"] == pytest.approx(estimator.privacy_.epsilon, rel=1e-6)
    capped = PrivacyLedger(epsilon=0.5, delta=1e-4)
    refused = entry.make(epsilon=1.0, ledger=capped, **entry.public)
    with pytest.raises(BudgetExceededError):
        fit(entry, refused, X, y)
    assert not hasattr(refused, "privacy_")
    assert capped.spends() == []


@every_entry
def test_a_refused_table_costs_nothing(entry):
    """Validation comes before the ledger."""
    if entry.name in ("DPTableEncoder", "DPSinkhornGenerator-pairs"):
        return  # every cell is in its domain
    X, y = table(entry)
    X[0, 1] = np.nan
    ledger = PrivacyLedger(epsilon=10, delta=1e-4)
    with pytest.raises(ValueError, match="NaN"):
        fit(entry, entry.make(ledger=ledger, **entry.public), X, y)
    assert ledger.spends() == []


@every_supervised
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_grid_search_is_counted(entry, n_jobs, tmp_path):
    """Three candidates, three folds and a refit are ten spends."""
    X, y = table(entry)
    ledger = PrivacyLedger(epsilon=1e6, delta=0.5, path=tmp_path / "ledger.sqlite")
    search = GridSearchCV(
        entry.make(ledger=ledger, **entry.public),
        {"epsilon": [1.0, 2.0, 4.0]},
        cv=3,
        n_jobs=n_jobs,
        error_score="raise",
    )
    search.fit(X, y)
    assert len(ledger.spends()) == 10
    assert search.best_estimator_.privacy_.epsilon <= 4.0 * (1 + 1e-9)
    assert search.predict(X).shape == (len(X),)


@every_supervised
def test_grid_search_surfaces_an_exhausted_budget(entry):
    X, y = table(entry)
    ledger = PrivacyLedger(epsilon=2.5, delta=1e-3)
    search = GridSearchCV(
        entry.make(ledger=ledger, **entry.public),
        {"epsilon": [1.0, 1.5]},
        cv=3,
        error_score="raise",
    )
    with pytest.raises(BudgetExceededError):
        search.fit(X, y)
    assert ledger.total().epsilon <= 2.5 * (1 + 1e-9)


@every_supervised
@pytest.mark.parametrize("n_jobs", [1, 2])
@pytest.mark.parametrize("routing", [False, True])
def test_cross_validation_with_a_named_column(entry, routing, n_jobs):
    """Way 2 of naming sensitive features works everywhere, routing on and off."""
    X, y = table(entry)
    estimator = entry.make(random_state=0, **entry.public)
    with config_context(enable_metadata_routing=routing):
        predictions = cross_val_predict(estimator, X, y, cv=3, n_jobs=n_jobs)
        scores = cross_validate(estimator, X, y, cv=3, n_jobs=n_jobs)
    assert predictions.shape == y.shape
    assert np.isfinite(scores["test_score"]).all()


@every_supervised
def test_routing_hands_sensitive_features_on(entry):
    """Way 1, through a pipeline and a search, gives what way 2 gives."""
    if not entry.needs_groups:
        pytest.skip("this estimator reads no sensitive features")
    X, y = table(entry)
    labels = first_sign(X)
    given = {**entry.public, "sensitive_features": None, "random_state": 0}
    with config_context(enable_metadata_routing=True):
        model, grid = entry.make(**given), {"epsilon": [1.0, 2.0]}
        if ROUTED_PIPELINES:
            model = Pipeline([("same", FunctionTransformer()), ("model", model)])
            grid = {"model__epsilon": [1.0, 2.0]}
        search = GridSearchCV(model, grid, cv=3, error_score="raise")
        search.fit(X, y, sensitive_features=labels)
        named = GridSearchCV(
            entry.make(random_state=0, **entry.public),
            {"epsilon": [1.0, 2.0]},
            cv=3,
            error_score="raise",
        ).fit(X, y)
    assert_allclose(
        search.cv_results_["mean_test_score"], named.cv_results_["mean_test_score"]
    )


def _public_objects():
    """Public names of the package: the classes and functions a user can call."""
    for module in fairpriv_sklearn.__all__:
        module = getattr(fairpriv_sklearn, module)
        names = getattr(module, "__all__", None) or [
            name
            for name, value in vars(module).items()
            if not name.startswith("_")
            and getattr(value, "__module__", "").startswith(module.__name__)
        ]
        for name in names:
            value = getattr(module, name)
            if inspect.isclass(value) or inspect.isfunction(value):
                yield f"{value.__module__}.{name}"


def test_typed_programs_may_call_what_is_public():
    """`mypy --strict` refuses calls of functions without any annotation."""
    untyped = []
    for name in sorted(set(_public_objects())):
        module, _, attribute = name.rpartition(".")
        value = getattr(importlib.import_module(module), attribute)
        methods = {}
        if inspect.isclass(value):
            methods = {m: inspect.getattr_static(value, m) for m in dir(value)}
        for method, function in {attribute: value, **methods}.items():
            function = getattr(function, "__func__", function)
            if method.startswith("_") and method != "__init__":
                continue
            if not inspect.isfunction(function) or hasattr(function, "__wrapped__"):
                continue  # what our decorators return is of any type
            if function.__module__.startswith("fairpriv_sklearn."):
                if not function.__annotations__:
                    untyped.append(f"{function.__module__}.{function.__qualname__}")
    assert not untyped, sorted(set(untyped))


# Sections and descriptions that would only repeat the summary may be left out.
IGNORED_RULES = {
    "ES01", "EX01", "SA01", "SA04", "GL01", "GL02", "GL03", "RT02", "RT03",
}  # fmt: skip


def _with_methods():
    """Public objects, and the public methods and properties of ours that they have."""
    for name in sorted(set(_public_objects())):
        yield name
        module, _, attribute = name.rpartition(".")
        value = getattr(importlib.import_module(module), attribute)
        for method in dir(value) if inspect.isclass(value) else ():
            static = inspect.getattr_static(value, method)
            function = getattr(static, "__func__", getattr(static, "fget", static))
            if method.startswith("_") or not inspect.isfunction(function):
                continue
            if function.__module__.startswith("fairpriv_sklearn"):
                yield f"{name}.{method}"


@pytest.mark.parametrize("name", _with_methods())
def test_docstrings(name):
    validate = pytest.importorskip("numpydoc.validate").validate
    errors = [e for e in validate(name)["errors"] if e[0] not in IGNORED_RULES]
    assert not errors, errors


@pytest.mark.parametrize("name", _with_methods())
def test_docstrings_tell_the_defaults_of_the_signature(name):
    docscrape = pytest.importorskip("numpydoc.docscrape")
    module, _, attribute = name.rpartition(".")
    try:
        owner = importlib.import_module(module)
    except ModuleNotFoundError:
        module, _, owner = module.rpartition(".")
        owner = getattr(importlib.import_module(module), owner)
    value = getattr(owner, attribute)
    is_error = inspect.isclass(value) and issubclass(value, BaseException)
    if not callable(value) or is_dataclass(value) or is_error:
        return
    doc = docscrape.ClassDoc if inspect.isclass(value) else docscrape.FunctionDoc
    told = {one.name: one.type for one in doc(value)["Parameters"]}
    told = {name: kind for names, kind in told.items() for name in names.split(", ")}
    for name, parameter in inspect.signature(value).parameters.items():
        if name not in told or told[name] == "None":
            continue
        default = re.search(r"default=(.+)$", told[name], re.DOTALL)
        if parameter.default is inspect.Parameter.empty:
            assert default is None, name
        else:
            found = eval(default[1], {"inf": np.inf})
            assert found == parameter.default, name


@every_entry
def test_docstrings_tell_the_ranges_that_are_checked(entry):
    docscrape = pytest.importorskip("numpydoc.docscrape")
    cls = type(entry.make())
    for one in docscrape.ClassDoc(cls)["Parameters"]:
        rules = cls._parameter_constraints.get(one.name, ())
        for rule in (rule for rule in rules if isinstance(rule, Interval)):
            pattern = r"Range: (?:0, or )?([\[(])(\S+), (\S+)([\])])"
            told = re.search(pattern, " ".join(one.desc))
            if told is None:
                assert rule.right is None, one.name
                continue
            right = np.inf if rule.right is None else rule.right
            assert [float(told[2]), float(told[3])] == [rule.left, right], one.name
            assert (told[1] == "[") == (rule.closed in ("left", "both")), one.name
            if np.isfinite(right) or rule.right is not None:
                assert (told[4] == "]") == (rule.closed in ("right", "both")), one.name


@every_entry
def test_docstrings_tell_all_that_a_fit_publishes(entry):
    docscrape = pytest.importorskip("numpydoc.docscrape")
    model = entry.make(random_state=0, **entry.public)
    fit(entry, model, *table(entry))
    told = {one.name for one in docscrape.ClassDoc(type(model))["Attributes"]}
    assert {name for name in vars(model) if name[0] != "_" and name[-1] == "_"} <= told


@every_entry
def test_html_representation_links_to_our_pages(entry):
    estimator = entry.make()
    module = type(estimator).__module__.split("._")[0]
    page = f"/generated/{module}.{type(estimator).__name__}.html"
    assert page in estimator._repr_html_()
    listed = (Path(__file__).parents[1] / "docs" / "api.rst").read_text("utf-8")
    section = listed.split(f".. automodule:: {module}\n")[1].split("automodule")[0]
    assert f"   {type(estimator).__name__}\n" in section


@every_entry
def test_privacy_rubric(entry):
    doc = inspect.getdoc(type(entry.make()))
    assert ".. rubric:: Privacy" in doc
    assert doc.index(".. rubric:: Privacy") < doc.index("Parameters\n---")
    assert ">>>" in doc
    assert "Raises\n------" in doc and "Warns\n-----" in doc


def test_groups_and_first_sign_are_what_the_checks_use():
    assert GROUPS["groups"] == [0, 1]
    assert_array_equal(first_sign(np.array([[-1.0], [0.0], [2.0]])), [0, 0, 1])


@every_entry
def test_an_answer_is_that_of_one_fit(entry):
    """A second fit, in another thread, forgets the first one amid an answer."""
    X, y = table(entry)
    names = ("predict", "predict_proba", "decision_function", "transform", "sample")
    methods = [name for name in names if hasattr(entry.make(**entry.public), name)]
    for name in methods:
        model = fit(entry, entry.make(**entry.public), X, y)
        given = () if name == "sample" else (X,)
        before = getattr(model, name)(*given)

        def forget(frame, event, _, model=model):
            if event == "return" and frame.f_code.co_name == "check_is_fitted":
                sys.setprofile(None)
                model._forget()

        sys.setprofile(forget)
        try:
            answer = getattr(model, name)(*given)
        finally:
            sys.setprofile(None)
        assert not hasattr(model, "privacy_"), name
        assert name == "sample" or np.array_equal(answer, before), name
    assert methods
