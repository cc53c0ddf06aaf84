"""Breaches of the past, in small replicas, are found without being told where."""

import numpy as np
import pytest
from _mistakes import table
from _replicas import REPLICAS, Sums

from fairpriv_sklearn.audit import audit_estimator


def find(replica):
    """Audit a replica with the defaults, on an ordinary table."""
    _, estimator, claim, relation, number = replica
    X, y = table(0, n=60)
    y = X[:, 0] if number else y
    return audit_estimator(
        estimator, X, y, claim=claim, neighboring=relation, random_state=0
    )


@pytest.mark.parametrize("replica", REPLICAS, ids=lambda r: r[0])
def test_replica_is_convicted(replica):
    assert find(replica).violated


def test_what_they_are_built_on_is_not():
    X, y = table(0, n=60)
    report = audit_estimator(Sums(), X, y, random_state=0, max_fits=3000)
    assert not report.violated, str(report)
    assert np.isfinite(report.epsilon_lower)
