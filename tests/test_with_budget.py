"""One budget for a pipeline, or anything nested."""

import inspect
import itertools
import math
import warnings
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from _ends import approx
from numpy.testing import assert_allclose
from sklearn.base import clone
from sklearn.ensemble import BaggingRegressor, StackingRegressor, VotingClassifier
from sklearn.feature_selection import RFE
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.multiclass import OneVsRestClassifier
from sklearn.multioutput import MultiOutputRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils import all_estimators

from fairpriv_sklearn import audit
from fairpriv_sklearn.accounting import (
    GaussianEvent,
    ThresholdEvent,
    calibrate_gaussian,
    compose_epsilon,
)
from fairpriv_sklearn.audit._tables import Neighbours, Table
from fairpriv_sklearn.distributed import Batches
from fairpriv_sklearn.linear_model import (
    DPLinearRegression,
    DPOutputPerturbationLogisticRegression,
    DPWassersteinLogisticRegression,
)
from fairpriv_sklearn.model_selection import DPGridSearchCV
from fairpriv_sklearn.neural_network import (
    DPWassersteinAutoencoder,
    DPWassersteinMLPClassifier,
    DPWassersteinMLPRegressor,
)
from fairpriv_sklearn.postprocessing import (
    DP2DPClassifier,
    DPBarycenterRegressor,
    DPBarycenterTransformer,
    RepairWarning,
)
from fairpriv_sklearn.preprocessing import DPTableEncoder
from fairpriv_sklearn.privacy import (
    PrivacyGuarantee,
    PrivacyLeakWarning,
    PrivacyLedger,
    expected_guarantee,
    privacy_report,
    with_budget,
)
from fairpriv_sklearn.privacy._budget._costs import (
    KEY_SHARE,
    private_steps,
    step_events,
    with_room,
)
from fairpriv_sklearn.privacy._budget._refusals import COPIES

GROUPS = {"groups": ["a", "b"]}


def table(n=2000):
    rng = np.random.default_rng(0)
    X = pd.DataFrame(
        {
            "age": rng.integers(18, 80, n),
            "income": np.exp(rng.normal(10, 1, n)),
            "work": rng.choice(["x", "y", "z"], n),
        }
    )
    y = (X["age"] + rng.normal(0, 10, n) > 50).astype(int).to_numpy()
    return X, y, rng.choice(["a", "b"], n)


def classifier(**params):
    return DPWassersteinLogisticRegression(
        **{
            "fairness_weight": 0,
            "data_norm": 1.0,
            "classes": [0, 1],
            "max_iter": 5,
            **params,
        }
    )


def regressor(**params):
    return DPLinearRegression(**{"data_norm": 1.0, "target_bounds": (0, 1), **params})


def pipeline():
    return make_pipeline(DPTableEncoder(), classifier())


CASES = {
    "one step": lambda: DPTableEncoder(),
    "pipeline": pipeline,
    "three steps": lambda: make_pipeline(
        DPTableEncoder(), DPTableEncoder(), regressor()
    ),
    "repair": lambda: DP2DPClassifier(pipeline(), classes=[0, 1], **GROUPS),
    "repair by gradients": lambda: DP2DPClassifier(
        pipeline(), classes=[0, 1], method="gradient", **GROUPS
    ),
    "repair of a regression": lambda: DPBarycenterRegressor(
        make_pipeline(DPTableEncoder(), regressor()), target_bounds=(0, 1), **GROUPS
    ),
    "network": lambda: make_pipeline(
        DPTableEncoder(),
        DPWassersteinMLPClassifier(fairness_weight=0, classes=[0, 1], max_iter=5),
    ),
    "autoencoder": lambda: make_pipeline(
        DPTableEncoder(),
        DPWassersteinAutoencoder(fairness_weight=0, hidden_layer_sizes=2, max_iter=5),
    ),
    "perturbed output": lambda: make_pipeline(
        DPTableEncoder(),
        DPOutputPerturbationLogisticRegression(data_norm=1.0, classes=[0, 1]),
    ),
}


def fitted(estimator, n=2000):
    X, y, groups = table(n)
    grouped = "groups" in estimator.get_params(deep=False)
    return estimator.fit(X, y, **({"sensitive_features": groups} if grouped else {}))


@pytest.mark.parametrize("neighboring", ["replace_one", "add_remove"])
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 8.0])
def test_the_steps_together_cost_the_budget(name, epsilon, neighboring):
    estimator = CASES[name]()
    steps = [
        k for k in estimator.get_params() if k.rpartition("__")[2] == "neighboring"
    ]
    estimator.set_params(**dict.fromkeys(steps, neighboring))
    chosen = fitted(with_budget(estimator, epsilon, 1e-5))
    guarantee = privacy_report(chosen).guarantee
    share = 0.999
    last = chosen[-1] if hasattr(chosen, "steps") else chosen
    if len(table()[0]) < (getattr(last, "min_records", None) or 0):
        share = 0.9  # a constant takes the place of all the rest
        assert guarantee.delta <= 1e-5
    else:
        assert guarantee.delta == approx(1e-5, rel=1e-9)
    assert share * epsilon <= guarantee.epsilon_at(1e-5) <= epsilon


@pytest.mark.parametrize("epsilon", [0.1, 0.5, 8.0])
@pytest.mark.parametrize("n_named", [3, 1])
def test_an_encoder_that_needs_nothing_leaves_the_budget_to_the_others(
    n_named, epsilon
):
    """Unless the table has columns that its codebook does not name."""
    declared = {"work": ["x", "y", "z"], "age": [18, 80], "income": [0, 1e6]}
    named = dict([*declared.items()][:n_named])
    encoder = DPTableEncoder(named, ranks="uniform")
    chosen = fitted(with_budget(make_pipeline(encoder, classifier()), epsilon), 3000)
    assert (chosen[0].privacy_.epsilon == 0.0) == (n_named == 3)
    assert (chosen[0].privacy_.delta == 0.0) == (n_named == 3)
    total = privacy_report(chosen).guarantee.epsilon_at(1e-5)
    assert chosen[1].n_iter_
    assert 0.999 * epsilon <= total <= epsilon


def test_an_encoder_told_of_some_lists_has_its_share_for_the_other_columns():
    told = make_pipeline(DPTableEncoder({"work": ["x", "y", "z"]}), classifier())
    plain = make_pipeline(DPTableEncoder(), classifier())
    told, plain = with_budget(told, 1.0)[0], with_budget(plain, 1.0)[0]
    assert (told.epsilon, told.delta) == (plain.epsilon, plain.delta)


def test_steps_that_a_split_parts_get_the_whole():
    chosen = with_budget(CASES["repair by gradients"](), 1.0)
    inner = with_budget(pipeline(), 1.0)
    assert_allclose(chosen.epsilon, 1.0, rtol=1e-3)
    assert_allclose(chosen.estimator[1].epsilon, inner[1].epsilon, rtol=1e-3)
    # The exact counts of the other method cost a pure epsilon: also the whole.
    assert_allclose(with_budget(CASES["repair"](), 1.0).epsilon, 1.0, rtol=1e-3)


BLIND = {"groups": ["a", "b"], "blind": True}
MODELS = ["estimator", "group_estimator"]


def blind_numbers(relation):
    """The one that tells the groups has an encoder, and where it can draws batches."""
    size = 20 if relation == "replace_one" else None
    guess = make_pipeline(
        DPTableEncoder(), classifier(batch_size=size, classes=["a", "b"])
    )
    return DPBarycenterRegressor(
        regressor(), group_estimator=guess, target_bounds=(0, 1), **BLIND
    )


def blind_classes(relation):
    """The one that is repaired has an encoder."""
    told = {
        "group_estimator": classifier(classes=["a", "b"]),
        "classes": [0, 1],
        **BLIND,
    }
    return DP2DPClassifier(pipeline(), max_iter=4, **told)


def of_relation(model, relation):
    steps = [k for k in model.get_params() if k.rpartition("__")[2] == "neighboring"]
    return model.set_params(**dict.fromkeys(steps, relation))


each_relation = pytest.mark.parametrize("relation", ["replace_one", "add_remove"])
each_repair = pytest.mark.parametrize("repair", [blind_numbers, blind_classes])
each_total = pytest.mark.parametrize("epsilon, delta", [(0.3, 1e-5), (4.0, 1e-8)])


@each_relation
@each_repair
@each_total
def test_both_models_of_a_parted_repair_get_the_whole(repair, relation, epsilon, delta):
    """The draws give a record to one of them: as if each were alone."""
    model = of_relation(repair(relation), relation)
    chosen = with_budget(model, epsilon, delta)
    for name in MODELS:
        alone = with_budget(getattr(model, name), epsilon, delta)
        for place in private_steps(alone):
            for argument in (f"{place}__epsilon", f"{place}__delta"):
                argument = argument.removeprefix("__")
                found, wanted = (
                    one.get_params()[argument] for one in (getattr(chosen, name), alone)
                )
                assert_allclose(found, wanted, rtol=1e-5)
    X, y, groups = table(600)
    chosen.fit(X[["age", "income"]], y, sensitive_features=groups)
    guarantee = privacy_report(chosen).guarantee
    assert guarantee.delta <= delta * (1 + 1e-12)
    assert 0.999 * epsilon <= guarantee.epsilon_at(delta) <= epsilon
    for name in MODELS:  # by what was released
        spent = privacy_report(getattr(chosen, f"{name}_")).guarantee
        assert 0.7 * epsilon < spent.epsilon_at(delta) <= epsilon


@each_relation
@each_repair
@each_total
def test_a_parted_repair_of_two_models_beside_an_encoder(
    repair, relation, epsilon, delta
):
    """No total, expected, reserved or spent, is above the one that was asked for."""
    ledger = PrivacyLedger(epsilon, delta)
    model = repair(relation).set_params(ledger=ledger)
    model = of_relation(make_pipeline(DPTableEncoder(ledger=ledger), model), relation)
    model = with_budget(model, epsilon, delta)
    assert expected_guarantee(model).epsilon_at(delta) <= epsilon
    X, y, groups = table(600)
    model.fit(X[["age", "income"]], y, sensitive_features=groups)
    assert 0.999 * epsilon <= ledger.total().epsilon <= epsilon
    encoder, repaired = (privacy_report(model[0]).guarantee, model[1])
    for name in MODELS:
        spent = privacy_report(getattr(repaired, f"{name}_")).guarantee
        both = encoder.compose(spent)
        assert both.delta <= delta * (1 + 1e-12)
        assert both.epsilon_at(delta) <= epsilon


@pytest.mark.parametrize("weights", [(1.0, 0.0), (0.7, 0.7), (0.3, 0.95)])
@pytest.mark.parametrize("epsilon", [0.05, 1.0, 30.0])
def test_fewer_draws_than_expected_cost_no_more(epsilon, weights):
    """A fit divides its epsilon between mu and the draws: however few, no more."""
    most, delta = 10**7, 5e-6
    steps = [
        SimpleNamespace(
            epsilon=epsilon * weight,
            delta=delta,
            get_params=lambda deep: {"delta": 1, "jitter": 0},
            _unfit=None,
        )
        for weight in weights
        if weight
    ]
    planned = sum(map(step_events, steps), ())
    if len(steps) == 1:
        assert_allclose(compose_epsilon(planned, delta), epsilon, rtol=1e-7)
    planned = compose_epsilon(with_room(planned), 2 * delta)
    for draws in itertools.product((1, most // 9, most), repeat=len(steps)):
        mus = [
            calibrate_gaussian(step.epsilon, step.delta, n_draws=n)
            for step, n in zip(steps, draws, strict=True)
        ]
        actual = map(GaussianEvent, mus, draws)
        assert compose_epsilon(tuple(actual), 2 * delta) <= planned


def test_many_iterations_of_a_linear_model_may_make_many_draws():
    """The steps together cost more than was asked."""
    models = [(name, classifier(max_iter=20_000)) for name in "abcdef"]
    n_draws = 20_000 * 1000
    with pytest.warns(PrivacyLeakWarning, match="VotingClassifier.*takes no public"):
        chosen = with_budget(VotingClassifier(models), 0.1)
    steps = chosen.named_estimators.values()
    mus = [calibrate_gaussian(s.epsilon, s.delta, n_draws=n_draws) for s in steps]
    events = [GaussianEvent(mu, n_draws) for mu in mus]
    assert 0.099 < compose_epsilon(events, 1e-5) <= 0.1


@pytest.mark.parametrize("share", [0.0, 1e-6, 0.5, 0.9])
@pytest.mark.parametrize("delta", [1e-12, 1e-5, 0.1])
@pytest.mark.parametrize("epsilon", [0.05, 1.0])
def test_no_share_and_no_delta_makes_fits_cost_more(epsilon, delta, share):
    """Even where delta pays for more than a step of little budget was to have."""
    case = CASES["three steps"]()
    shares = {"dptableencoder-1": share / 3, "dptableencoder-2": 2 * share / 3}
    chosen = with_budget(case, epsilon, delta, shares=shares)
    for draws in itertools.product((1, 10**5), repeat=3):
        events = []
        for (name, step), n in zip(chosen.steps, draws, strict=True):
            keys = KEY_SHARE * step.delta if "encoder" in name else 0.0
            try:
                mu = calibrate_gaussian(step.epsilon, step.delta - keys, n_draws=n)
            except ValueError:
                continue  # so does the fit
            events += [GaussianEvent(mu, n), ThresholdEvent(keys)]
        assert compose_epsilon(tuple(events), delta) <= epsilon


def test_shares_are_of_the_squared_parameter():
    from fairpriv_sklearn.accounting import gaussian_mu

    def squares(shares):
        chosen = with_budget(pipeline(), 1.0, shares=shares)
        return [gaussian_mu(s.epsilon, s.delta) ** 2 for _, s in chosen.steps]

    encoder, model = squares(None)
    assert_allclose(encoder / model, 1 / 9, rtol=1e-2)
    encoder, model = squares({"dptableencoder": 0.3})
    assert_allclose(encoder / model, 3 / 7, rtol=1e-2)
    both = {"dptableencoder": 1, "dpwassersteinlogisticregression": 1}
    encoder, model = squares(both)
    assert_allclose(encoder, model, rtol=1e-2)
    nested = with_budget(
        CASES["repair"](), 1.0, shares={"estimator__dptableencoder": 0.5}
    )
    steps = [gaussian_mu(s.epsilon, s.delta) for _, s in nested.estimator.steps]
    assert_allclose(*steps, rtol=1e-2)


def test_a_clone_comes_back_and_nothing_is_fitted():
    original = pipeline()
    chosen = with_budget(original, 1.0)
    assert original[0].epsilon == original[1].epsilon == 1.0
    assert chosen is not original
    assert not hasattr(chosen[0], "privacy_")
    again = with_budget(clone(chosen), 1.0)
    assert again[0].epsilon == chosen[0].epsilon


def test_a_step_that_is_changed_costs_what_it_was_changed_to():
    chosen = with_budget(pipeline(), 1.0)
    chosen.set_params(dptableencoder__epsilon=3.0)
    report = privacy_report(fitted(chosen))
    assert report.guarantee.epsilon > 3.0


def test_a_search_gets_the_whole():
    search = DPGridSearchCV(classifier(), {"C": [0.1, 1.0]}, classes=[0, 1])
    chosen = with_budget(make_pipeline(DPTableEncoder(), search), 1.0)
    assert chosen[1].estimator.epsilon == search.estimator.epsilon
    alone = with_budget(search, 1.0, 1e-6)
    assert_allclose([alone.epsilon, alone.delta], [1.0, 1e-6], rtol=1e-3)


def test_frozen_steps_stay_and_count():
    X, y, groups = table()
    encoder = DPTableEncoder(epsilon=0.4, delta=5e-6).fit(X)
    chosen = with_budget(make_pipeline(FrozenEstimator(encoder), classifier()), 1.0)
    assert chosen[0].estimator is encoder
    guarantee = privacy_report(chosen.fit(X, y)).guarantee
    assert 0.998 <= guarantee.epsilon_at(1e-5) <= 1.0
    with pytest.raises(ValueError, match="nothing is left"):
        with_budget(make_pipeline(FrozenEstimator(encoder), classifier()), 0.3)


@pytest.mark.parametrize("said", ["frozen", "declared"])
def test_what_made_many_draws_leaves_room_for_what_makes_few(said):
    """A step that draws less than it may has more of a parameter for its epsilon."""
    rng = np.random.default_rng(0)
    X, groups = rng.uniform(-1, 1, size=(200, 50)), np.arange(200) % 2
    y = (X[:, 0] > 0).astype(int)
    network = DPWassersteinMLPClassifier(
        (100,), epsilon=0.1, max_iter=200, bounds=(-1, 1), classes=[0, 1]
    ).set_params(groups=[0, 1], fairness_weight=0.0)
    network.fit(X, y, sensitive_features=groups)
    assert network.privacy_.events[0].n_draws > 10**6
    told = {"classes": [0, 1], "groups": [0, 1], "max_iter": 1}
    model = DP2DPClassifier(FrozenEstimator(network), **told)
    if said == "declared":
        model = DP2DPClassifier(
            LogisticRegression(),
            base_guarantee=network.privacy_,
            calibration_size="all",
            **told,
        )
    model = with_budget(model, 0.2, 2e-5).fit(X, y, sensitive_features=groups)
    assert 0.199 < model.privacy_.epsilon_at(2e-5) <= 0.2


@pytest.mark.parametrize("place", ["estimator", "group_estimator"])
@pytest.mark.parametrize("kind", ["ours", "other"])
def test_what_is_declared_of_a_frozen_model_counts(place, kind):
    """In place of what it says of itself; nothing of it counted if it says nothing."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(200, 2))
    y, group = (X.T > 0).astype(int)
    ours = classifier(epsilon=0.1, random_state=0)
    frozen = FrozenEstimator(ours if kind == "ours" else LogisticRegression())
    frozen.estimator.fit(X, y if place == "estimator" else group)
    told = {"classes": [0, 1], "groups": [0, 1], "max_iter": 2, "blind": True}
    models = {name: classifier() for name in MODELS} | {place: frozen}
    said = "base_guarantee" if place == "estimator" else "group_guarantee"
    repair = DP2DPClassifier(**models, **told)
    cost = PrivacyGuarantee(0.5, 1e-6, "replace_one", "told")
    model = with_budget(repair.set_params(**{said: cost}), 1.0, 1e-5)
    model.fit(X, y, sensitive_features=group)
    assert 0.999 <= model.privacy_.epsilon_at(1e-5) <= 1.0
    assert model.epsilon < 0.6
    public = with_budget(repair.set_params(**{said: "public"}), 1.0, 1e-5)
    assert_allclose(public.epsilon, 1.0, rtol=1e-5)


def test_no_noise():
    chosen = with_budget(pipeline(), math.inf)
    assert chosen[0].epsilon == chosen[1].epsilon == math.inf
    X, y, _ = table()
    assert chosen.fit(X, y).score(X, y) > 0.8


@pytest.mark.parametrize("wrap", ["pipeline", "repair", "search"])
def test_bounds_of_two_targets_are_refused_before_one_costs_anything(wrap):
    X, y, a = table()
    ledger = PrivacyLedger(50.0, 1e-3)
    network = DPWassersteinMLPRegressor(
        target_bounds=([0, 0], [1, 1]), fairness_weight=0, max_iter=2
    )
    if wrap == "pipeline":
        steps = DPTableEncoder(ledger=ledger), network.set_params(ledger=ledger)
        chosen, groups = with_budget(make_pipeline(*steps), 1.0), {}
    else:
        kind = DPGridSearchCV if wrap == "search" else DPBarycenterRegressor
        grid = {"param_grid": {}} if wrap == "search" else {}
        chosen = kind(
            make_pipeline(DPTableEncoder(), network),
            target_bounds=(0, 1),
            ledger=ledger,
            **grid,
            **GROUPS,
        )
        groups = {"sensitive_features": a}
    with pytest.raises(ValueError, match="each of the 1 columns"):
        chosen.fit(X, y, **groups)
    assert ledger.spends() == []


def test_two_targets_of_a_linear_model_are_refused_before_the_encoder_spends():
    X, y, _ = table()
    ledger = PrivacyLedger(50.0, 1e-3)
    steps = DPTableEncoder(ledger=ledger), regressor(ledger=ledger)
    chosen = with_budget(make_pipeline(*steps), 1.0)
    with pytest.raises(ValueError, match="y should be a 1d array"):
        chosen.fit(X, np.column_stack([y, y]))
    assert ledger.spends() == []


@pytest.mark.parametrize("hidden", [(0,), (8, -1), 2.5, "a", [None]])
def test_widths_of_a_network_are_checked_before_the_encoder_spends(hidden):
    X, y, _ = table()
    ledger = PrivacyLedger(50.0, 1e-3)
    network = DPWassersteinMLPClassifier(
        classes=[0, 1], fairness_weight=0, hidden_layer_sizes=hidden, ledger=ledger
    )
    steps = DPTableEncoder(ledger=ledger), network
    with pytest.raises(ValueError, match="hidden_layer_sizes"):
        with_budget(make_pipeline(*steps), 1.0).fit(X, y)
    assert ledger.spends() == []


@pytest.mark.parametrize(
    "epsilon, delta, shares, match",
    [
        (0, 1e-5, None, "epsilon"),
        (float("nan"), 1e-5, None, "epsilon"),
        ("1", 1e-5, None, "epsilon"),
        (1.0, 0.0, None, "delta"),
        (1.0, 1e-5, {"nobody": 1}, "nobody"),
        (1.0, 1e-5, {"dptableencoder": 1.5}, "nothing"),
        (1.0, 1e-5, {"dptableencoder": -1}, "must be in"),
        (1.0, 1e-5, [0.1, 0.9], "map"),
    ],
)
def test_wrong_arguments(epsilon, delta, shares, match):
    with pytest.raises((TypeError, ValueError), match=match):
        with_budget(pipeline(), epsilon, delta, shares=shares)


def test_public_estimators_and_mixed_relations_are_refused():
    from sklearn.linear_model import LinearRegression

    with pytest.raises(ValueError, match="no private step"):
        with_budget(LinearRegression(), 1.0)
    mixed = make_pipeline(DPTableEncoder(neighboring="add_remove"), classifier())
    with pytest.raises(ValueError, match="same `neighboring`"):
        with_budget(mixed, 1.0)


@pytest.mark.parametrize(
    ("estimator", "wrong"),
    [
        (DP2DPClassifier(LogisticRegression(), base_guarantee=[1]), "base_guarantee"),
        (
            DP2DPClassifier(LogisticRegression(), blind=True, group_guarantee=[1]),
            "group_guarantee",
        ),
        (DP2DPClassifier(None), "estimator"),
        (DPLinearRegression(neighboring=slice(1)), "neighboring"),
        (DPTableEncoder(ranks=np.array(["learn", "uniform"])), "ranks"),
    ],
)
def test_arguments_of_a_wrong_kind_are_named_before_the_budget_is_divided(
    estimator, wrong
):
    for given in (estimator, make_pipeline("passthrough", clone(estimator))):
        with pytest.raises(ValueError, match=f"The '{wrong}' parameter of DP"):
            with_budget(given, 1.0)


def test_a_raw_table_goes_through_everything_under_one_budget():
    """The ten lines of the gallery: encoder, model, private search, repair."""
    X, y, groups = table(4000)
    X = X.assign(sex=groups, joined=pd.Timestamp("2010-01-01"))
    X.loc[::9, "income"] = None
    search = DPGridSearchCV(
        pipeline(), {"dpwassersteinlogisticregression__C": [0.1, 10.0]}, classes=[0, 1]
    )
    repair = DP2DPClassifier(search, sensitive_features="sex", classes=[0, 1], **GROUPS)
    model = with_budget(repair, 1.0, 1e-5)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", RepairWarning)  # few rows: it may stand back
        model.fit(X, y)
    guarantee = privacy_report(model).guarantee
    assert 0.999 <= guarantee.epsilon_at(1e-5) <= 1.0
    assert not guarantee.conditional_on
    assert not guarantee.uncovered
    assert set(model.predict(X)) <= {0, 1}


class Failing(FunctionTransformer):
    """Learns nothing, and fails."""

    __fairpriv_row_pure__ = True

    def transform(self, X):
        raise RuntimeError("on purpose")


def test_what_a_step_says_of_its_release_stops_no_later_step():
    """As an error it left an encoder that had spent, and nothing behind it."""
    n = 600  # so that the noise, which has no seed, leaves the texts texts
    X = pd.DataFrame({"a": [f"text {i}" for i in range(n)], "b": np.arange(float(n))})
    y, ledger = np.arange(n) % 2, PrivacyLedger(50.0, 1e-3)
    repair = DP2DPClassifier(classifier(), classes=[0, 1], groups=[0, 1], max_iter=2)
    steps = DPTableEncoder(ledger=ledger), repair.set_params(ledger=ledger)
    model, given = with_budget(make_pipeline(*steps), 3.0), {"sensitive_features": y}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(UserWarning, match="hold texts that too few records share"):
            model.fit(X, y, **given)
    assert len(ledger.spends()) == 2
    assert set(model.predict(X, **given)) <= {0, 1}
    with pytest.warns(UserWarning, match="hold texts that too few") as said:
        model.fit(X, y, **given)
    assert said[0].filename == __file__
    # Where a later step fails, who has spent is fitted, and says so.
    failing = with_budget(make_pipeline(DPTableEncoder(), Failing(), classifier()), 3.0)
    failing[0].set_params(min_records=None)
    failing[-1].set_params(min_records=None)
    with pytest.warns(UserWarning, match="hold texts that too few"):
        with pytest.raises(RuntimeError, match="on purpose"):
            failing.fit(X, y)
    # What a fit inside of a repair says is for nobody.
    inside = make_pipeline(DPTableEncoder(), classifier())
    repair = clone(model[-1]).set_params(estimator=inside, ledger=None)
    model = with_budget(make_pipeline("passthrough", repair), 3.0)
    model[-1].estimator[0].set_params(min_records=None)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        model.fit(X, y, **given)
    assert not any("hold texts" in str(one.message) for one in said)


def test_a_model_of_the_codes_of_an_autoencoder():
    """It tells no constant where there are few records, so no step does."""
    coder = DPWassersteinAutoencoder(fairness_weight=0, bounds=(-1, 1), max_iter=5)
    model = with_budget(make_pipeline(DPTableEncoder(), coder, classifier()), 1.0)
    assert model[0].min_records is None and model[-1].min_records is None
    # The draws of two steps that take many may cost a little, and do not.
    assert 0.99 <= privacy_report(fitted(model)).guarantee.epsilon_at(1e-5) <= 1.0
    assert expected_guarantee(model).epsilon <= 1.0
    alone = with_budget(make_pipeline(DPTableEncoder(), coder), 1.0)
    assert alone[0].min_records is None


def whole_pipeline(relation="replace_one"):
    """Encoder, model, private search and repair, from the raw table on."""
    search = DPGridSearchCV(
        make_pipeline(DPTableEncoder(), classifier()),
        {"dpwassersteinlogisticregression__C": [0.1, 10.0]},
        classes=[0, 1],
    )
    repair = DP2DPClassifier(
        search,
        sensitive_features="sex",
        groups=["a", "..."],
        classes=[0, 1],
        max_iter=3,
    )
    steps = [k for k in repair.get_params() if k.rpartition("__")[2] == "neighboring"]
    # Much budget, or so few rows end in a constant model.
    return with_budget(repair.set_params(**dict.fromkeys(steps, relation)), 20.0)


def raw_pairs(relation):
    """25 neighbours of a raw table: the last record has a cell like no other, or is
    another one. Under add/remove it is absent."""
    X, y, groups = table(160)
    X = X.assign(sex=groups, joined=pd.Timestamp("2010-01-01"))
    X.loc[::9, "income"] = None
    last = len(X) - 1
    for k in range(25):
        other, labels, name = X.copy(), y.copy(), f"row {k}"
        if k < len(CELLS):
            column, cell = CELLS[k]
            other[column] = other[column].astype(object)
            other.loc[last, column] = cell
            other[column] = other[column].infer_objects()
            name = f"{column} becomes {str(cell)[:9]}"
        else:
            other.iloc[last], labels[last] = X.iloc[k], 1 - y[k]
        one = Table(X, y) if relation == "replace_one" else Table(X[:last], y[:last])
        yield Neighbours(name, one, Table(other, labels))


CELLS = [
    ("age", "old"),  # a number becomes text
    ("age", None),  # missing in a column of integers
    ("age", 10**400),  # too large for any float
    ("work", "new"),  # a category of its own
    ("work", None),
    ("sex", "new"),  # a group that nobody listed
    ("income", 1e300),
    ("income", -np.inf),
    ("income", True),
    ("joined", "yesterday"),
]


@pytest.mark.parametrize("relation", ["replace_one", "add_remove"])
def test_replay_of_the_whole_pipeline(relation):
    pairs = list(raw_pairs(relation))
    n_pairs = 25 if relation == "replace_one" else len(CELLS)
    model = whole_pipeline(relation)
    # The draws of this seed give the last record to the model, and then to the repair.
    report = audit.replay(model, pairs[:n_pairs], random_state=5)
    assert report.n_pairs == n_pairs
    assert not report.findings, str(report)
    assert report.largest_ratio <= 1 + 1e-9
    # The record fits the model, which does not see its group, ...
    ratios = report.ratios
    if relation == "replace_one":
        assert ratios["age becomes old"] > 0.1 > ratios["sex becomes new"]
    # ... and now it calibrates the repair.
    model.set_params(calibration_size=0.8)
    report = audit.replay(model, pairs[: len(CELLS)], random_state=5)
    assert not report.findings, str(report)
    assert 0.1 < report.ratios["sex becomes new"] <= 1 + 1e-9


@pytest.mark.parametrize(
    "make",
    [
        lambda inner: BaggingRegressor(inner, n_estimators=3, bootstrap=False),
        OneVsRestClassifier,
        lambda inner: make_pipeline(MultiOutputRegressor(inner)),
        lambda inner: GridSearchCV(make_pipeline(DPTableEncoder(), inner), {}),
        lambda inner: StackingRegressor([("one", inner)], final_estimator=inner),
        lambda inner: make_pipeline(RFE(inner), LinearRegression()),
    ],
)
def test_what_fits_copies_is_refused(make):
    """The budget was given to each copy: 1.71 instead of 1."""
    inner = DPLinearRegression(bounds=(0, 1), target_bounds=(0, 1))
    with pytest.raises(ValueError, match="several times"):
        with_budget(make(inner), 1.0)


def test_all_of_scikit_learn_that_fits_copies_is_known():
    """Its own are asked: each fit of a model inside is counted."""
    fits = []

    class Counted(DPWassersteinLogisticRegression):
        def fit(self, X, y, **given):
            fits.append(len(X))
            return super().fit(X, y, **given)

    X = np.random.default_rng(0).random((60, 3))
    y = np.tile([0, 1], 30)
    inner = Counted(bounds=(0, 1), classes=[0, 1], fairness_weight=0, max_iter=1)
    checked = 0
    for name, kind in all_estimators():
        arguments = inspect.signature(kind).parameters
        of = [a for a in ("estimator", "estimators") if a in arguments]
        needed = [a for a, p in arguments.items() if p.default is p.empty]
        if not of or set(needed) - {*of, "param_grid", "param_distributions"}:
            continue
        given = {of[0]: inner if of[0] == "estimator" else [("a", inner)]}
        given |= {a: {"C": [1.0]} for a in needed if a.startswith("param_")}
        fits.clear()
        try:
            kind(**given).fit(X, y)
        except Exception:  # arguments or targets of another kind
            continue
        checked += 1
        assert (len(fits) > 1) <= (name in COPIES), name
    assert checked > 10


@pytest.mark.parametrize("delta", [1e-5, 1e-8])
@pytest.mark.parametrize("encoders", [[], [DPTableEncoder()]])
def test_the_model_of_the_groups_has_the_delta_of_the_other_one(encoders, delta):
    """A blind repair of numbers has none of its own: 1e-5 was taken, whatever asked."""
    rng = np.random.default_rng(0)
    X, group = rng.uniform(-1, 1, (60, 2)), rng.integers(0, 2, 60)
    model = DPLinearRegression(target_bounds=(-1, 1))
    repair = DPBarycenterRegressor(
        make_pipeline(*encoders, model),
        target_bounds=(-1, 1),
        groups=[0, 1],
        blind=True,
    )
    repair = with_budget(repair, 1.0, delta).fit(X, X[:, 0], sensitive_features=group)
    assert 0.999 <= repair.privacy_.epsilon_at(delta) <= 1.0


@pytest.mark.parametrize("delta", [1e-5, 1e-8])
@pytest.mark.parametrize("kind", ["public", "none", "frozen"])
def test_a_model_of_the_groups_that_is_given_gets_its_part(kind, delta):
    """Nothing else here has a delta, and what the default one would take is no part."""
    rng = np.random.default_rng(0)
    X, group = rng.uniform(-1, 1, (60, 2)), rng.integers(0, 2, 60)
    public = FrozenEstimator(LinearRegression().fit(X, X[:, 0]))
    shared = {"groups": [0, 1], "blind": True, "epsilon": 5.0}
    if kind == "none":
        repair = DPBarycenterTransformer(bounds=(-1, 1), **shared)
    else:
        repair = DPBarycenterRegressor(
            public, base_guarantee="public", target_bounds=(-1, 1), **shared
        )
    with pytest.raises(ValueError, match="give it a group_estimator"):
        with_budget(repair, 1.0, delta)
    guess = DPWassersteinLogisticRegression(
        epsilon=7.0, fairness_weight=0.0, classes=[0, 1]
    )
    repair.set_params(group_estimator=guess)
    if kind == "frozen":
        guess = FrozenEstimator(LogisticRegression().fit(X, group))
        repair.set_params(group_estimator=guess, group_guarantee="public")
    model = with_budget(repair, 1.0, delta)
    scores = X[:, :1] if kind == "none" else X
    model.fit(scores, X[:, 0], sensitive_features=group)
    # (epsilon, delta) of the dearer phase, or the repair's epsilon alone
    assert 0.999 <= model.privacy_.epsilon_at(delta) <= 1.0
    if kind == "frozen":
        assert model.group_estimator is not None and model.privacy_.delta == 0


def test_steps_that_are_fitted_declared_or_searched_over_get_no_part():
    linear = DPLinearRegression(bounds=(-1, 1), target_bounds=(-1, 1))
    encoded = make_pipeline(DPTableEncoder(), linear)
    guess = DPWassersteinLogisticRegression(fairness_weight=0.0, classes=[0, 1])
    shared = {"target_bounds": (-1, 1), "groups": [0, 1]}
    blind = {**shared, "blind": True, "group_estimator": make_pipeline(guess)}
    step = "dpwassersteinlogisticregression"
    frozen = FrozenEstimator(linear)

    def paths(estimator):
        return set(private_steps(estimator))

    assert paths(DPBarycenterRegressor(linear, **shared)) == {"", "estimator"}
    assert paths(DPBarycenterRegressor(frozen, **shared)) == {""}
    for base in (linear, encoded):
        assert paths(
            DPBarycenterRegressor(base, base_guarantee="public", **shared)
        ) == {""}
    repair = DPBarycenterRegressor(frozen, base_guarantee="public", **blind)
    assert paths(repair) == {"", f"group_estimator__{step}"}
    assert paths(make_pipeline(repair)) == {
        "dpbarycenterregressor",
        f"dpbarycenterregressor__group_estimator__{step}",
    }
    assert paths(repair.set_params(group_guarantee="public")) == {""}
    assert paths(repair.set_params(group_estimator=guess)) == {""}
    search = DPGridSearchCV(linear, {"alpha": [1.0]})
    assert paths(search) == {""}
    assert paths(make_pipeline(DPTableEncoder(), search)) == {
        "dptableencoder",
        "dpgridsearchcv",
    }


def test_a_repair_of_a_model_out_of_one_budget_has_room_in_a_ledger_of_its_epsilon():
    ledger = PrivacyLedger(1.0, 1e-5)
    model = DPLinearRegression(bounds=(0, 1), target_bounds=(0, 1))
    model = with_budget(model, 1.0)
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(600, 2))
    repair = DPBarycenterRegressor(
        model, epsilon=1.0, target_bounds=(0, 1), groups=[0, 1], ledger=ledger
    ).fit(X, X[:, 0], sensitive_features=np.arange(600) % 2)
    assert_allclose(ledger.total().epsilon, repair.privacy_.epsilon, rtol=1e-9)


@pytest.mark.parametrize("is_repair", [False, True])
def test_batches_hold_the_groups(is_repair):
    """They were said to be missing; without them nothing is spent."""
    X, y, codes = table()
    step = classifier(fairness_weight=0.0 if is_repair else 0.5, random_state=0)
    step = DP2DPClassifier(step, classes=[0, 1], random_state=0) if is_repair else step
    step.set_params(groups=["a", "b"])
    model = with_budget(make_pipeline(DPTableEncoder(random_state=0), step), 1.0)
    blocks = [slice(0, 700), slice(700, None)]
    batches = Batches([(X[rows], y[rows], codes[rows]) for rows in blocks])
    asked = {"sensitive_features": codes} if is_repair else {}
    batched = clone(model).fit(batches).predict(X, **asked)
    whole = clone(model).fit(X, y, sensitive_features=codes).predict(X, **asked)
    assert np.array_equal(batched, whole)
    ledger = PrivacyLedger(1.0, 1e-5)
    for _, one in model.steps:
        one.set_params(ledger=ledger)
    with pytest.raises(ValueError, match="needs the sensitive features"):
        model.fit(Batches([(X[rows], y[rows], None) for rows in blocks]))
    assert ledger.spends() == []
