"""The auditor on every estimator of the registry, in every variant."""

import pytest
from test_replay import CASES, IDS, make, pairs_of

from fairpriv_sklearn.audit import audit_estimator

# One relation each: replay, in its own tests, sees both on all pairs.
CHOSEN = {name.rpartition("-")[0]: case for case, name in zip(CASES, IDS, strict=True)}


@pytest.mark.parametrize("name", CHOSEN)
def test_no_variant_is_convicted(name):
    entry, variant, relation = CHOSEN[name]
    pair = pairs_of(entry, variant, relation)[0]
    report = audit_estimator(
        make(entry, variant, relation),
        pair.first.X,
        pair.first.y,
        sensitive_features=pair.first.sensitive_features,
        pairs=[pair],
        max_fits=3,  # one to know the claim, and a pair
        random_state=0,
    )
    assert not report.violated, str(report)
    assert report.n_pairs == 1 and report.largest_ratio <= 1 + 1e-9
    assert report.epsilon_lower <= report.claimed_epsilon * (1 + 1e-9)
