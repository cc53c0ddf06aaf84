"""What a fit reserves is the budget that it was given: no more, and not much less.

The fit stops at the reserve, so that many settings can be asked.
"""

import math

import numpy as np
import pytest
from common import ENTRIES, fit, table

LEVELS = {i: [False, True] for i in range(3)}
VARIANTS = {
    "DP2DPClassifier": [{"method": "histogram"}, {"max_iter": 7}],
    "DPBarycenterTransformer": [{"output": "continuous"}, {"n_bins": 8}],
    "DPLinearRegression": [
        {"solver": "gradients"},
        {"solver": "gradients", "fit_intercept": False},
        {"solver": "moments"},
        {"solver": "gradients", "n": 20_000},
    ],
    "DPOutputPerturbationLogisticRegression": [{"C": 0.1}],
    "DPSinkhornGenerator": [
        {"n_points": 1},
        {"n_points": 3, "max_iter": 2},
        {"categories": LEVELS},
    ],
    "DPSlicedWassersteinGenerator": [{"n_projections": 5, "n_bins": 4}],
    "DPWassersteinLogisticRegression": [
        {"fairness_weight": 0.0},
        {"fairness_weight": 0.0, "n": 20_000},
        {"min_group_size": 20},
        {"constraint": "equalized_odds"},
        {"max_iter": 3},
    ],
    "DPWassersteinMLPClassifier": [{"min_group_size": 20}, {"fairness_weight": 0.0}],
    "DPWassersteinMLPRegressor": [{"fairness_weight": 0.0}],
}
CASES = [
    (entry, variant)
    for entry in ENTRIES
    for variant in [{}, *VARIANTS.get(entry.name, [])]
]
SMALLEST = 0.98  # share of the budget that is used at least


class Reserved(Exception):
    def __init__(self, guarantee):
        self.guarantee = guarantee


class Stop:
    """A ledger that tells what a fit asks for, and stops it there."""

    def spend(self, guarantee, *, label=""):
        raise Reserved(guarantee)


@pytest.mark.parametrize("epsilon", [0.4, 5.0])
@pytest.mark.parametrize("relation", ["replace_one", "add_remove"])
@pytest.mark.parametrize(
    ("entry", "variant"), CASES, ids=lambda part: getattr(part, "name", str(part))
)
def test_the_whole_budget_is_reserved_and_no_more(entry, variant, relation, epsilon):
    variant = dict(variant)
    X, y = table(entry, n=variant.pop("n", 200))
    if "categories" in variant:
        X = (X > 0).astype(object)
        variant["bounds"] = None
    params = {**entry.public, "neighboring": relation, "ledger": Stop(), **variant}
    estimator = entry.make(**params).set_params(epsilon=epsilon)
    with pytest.raises(Reserved) as reserved:
        fit(entry, estimator, X, y)
    asked = reserved.value.guarantee
    assert asked.neighboring == relation and asked.delta <= max(
        getattr(estimator, "delta", 0.0), 0.0
    )
    assert SMALLEST * epsilon <= asked.epsilon <= epsilon * (1 + 1e-9)


@pytest.mark.parametrize("relation", ["replace_one", "add_remove"])
def test_a_release_of_group_rates_reserves_its_epsilon(relation):
    from fairpriv_sklearn.metrics import dp_group_rates

    groups = np.arange(40) % 2
    with pytest.raises(Reserved) as reserved:
        dp_group_rates(
            groups,
            groups,
            sensitive_features=groups,
            groups=[0, 1],
            classes=[0, 1],
            epsilon=0.7,
            neighboring=relation,
            ledger=Stop(),
        )
    guarantee = reserved.value.guarantee
    assert guarantee.delta == 0.0
    assert math.isclose(guarantee.epsilon, 0.7, rel_tol=1e-9)
