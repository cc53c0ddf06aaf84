"""Peers under the auditor: each claim, what was tried, the bound, the version.

Models of other packages, and two of ours, fitted to an ordinary simulated table with
every public argument given (bounds, norms, classes). The claim is theirs: epsilon, and
delta, as passed. Where a peer states no neighbouring relation both are tried, and the
claim is refuted only if it holds for neither; tables of fewer than ten rows, or of one
class, are left out. One row is a research script: the published
DP2DP algorithm, whose error was reported in `docs/errata.rst`.

Defects go to their maintainers first: rows of models that are named in `WITHHELD` show
the version and no detail, unless the option --details is given.

    python examples/benchmarks/audit_peers.py [--details] [name ...] > audit_peers.txt

Needs diffprivlib beside a scikit-learn that it can be imported with (1.6), and for
the other rows interpret-core, and opendp with randomgen; what is missing is left out.
"""

import pathlib
import platform
import sys
import time
import warnings
from importlib.metadata import PackageNotFoundError, version

import numpy as np
from sklearn.base import BaseEstimator

from fairpriv_sklearn.audit import (
    Neighbours,
    Table,
    _estimator,
    audit_estimator,
    neighbours,
)
from fairpriv_sklearn.linear_model import (
    DPLinearRegression,
    DPWassersteinLogisticRegression,
)

warnings.simplefilter("ignore")
sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
_estimator._clock = time.process_time  # seconds are CPU seconds: the machine is shared
SECONDS = 10
BOTH = ("replace_one", "add_remove")
DETAILS = "--details" in sys.argv
CHOSEN = [name for name in sys.argv[1:] if name != "--details"]
WITHHELD = {"LinearRegression", "LogisticRegression", "GaussianNB", "KMeans"}


def table(n=60):
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(n, 2))
    return X, (X[:, 0] + 0.2 * rng.normal(size=n) > 0.5).astype(int)


def peers():
    """Yield package, estimator, data, relations, further arguments of the audit."""
    for several in (_diffprivlib, _interpret, _opendp, _published, _ours):
        try:
            yield from several(*table())
        except ImportError as missing:
            print(f"{several.__name__[1:]}: not installed ({missing.name})")


def _diffprivlib(X, y):
    from diffprivlib import models as dpl

    box = {"epsilon": 1.0, "bounds": (0.0, 1.0)}
    tree = {"max_depth": 1, "classes": [0, 1], **box}
    two_boxes = {"epsilon": 1.0, "bounds_X": (0, 1), "bounds_y": (0, 1)}
    for model, *data in (
        (dpl.LinearRegression(**two_boxes), X, X[:, 0]),
        (dpl.LogisticRegression(epsilon=1.0, data_norm=1.5), X, y),
        (dpl.GaussianNB(**box), X, y),
        (dpl.DecisionTreeClassifier(**tree), X, y),
        (dpl.RandomForestClassifier(n_estimators=1, **tree), X, y),
        (dpl.StandardScaler(**box), X),
        (dpl.KMeans(n_clusters=2, **box), X),
        (dpl.PCA(n_components=1, data_norm=1.5, centered=False, **box), X),
    ):
        yield "diffprivlib", model, data, BOTH, {"claim": 1.0}


def _interpret(X, y):
    from interpret import privacy

    limits = {"privacy_bounds": np.array([[0.0, 1.0]] * 2), "n_jobs": 1}
    small = {"max_rounds": 5, "max_bins": 4, "feature_types": ["continuous"] * 2}
    budget = {"epsilon": 1.0, "delta": 1e-5, **limits, **small}
    classifier = privacy.DPExplainableBoostingClassifier(**budget)
    target = {"privacy_target_min": 0.0, "privacy_target_max": 1.0}
    regressor = privacy.DPExplainableBoostingRegressor(**budget, **target)
    claim = {"claim": (1.0, 1e-5)}
    yield "interpret-core", classifier, (X, y), BOTH, claim
    yield "interpret-core", regressor, (X, X[:, 0]), BOTH, claim


def _opendp(X, y):
    import opendp.prelude as dp
    import randomgen  # noqa: F401
    from opendp.extras.sklearn.decomposition import PCA

    dp.enable_features("contrib", "floating-point", "honest-but-curious")
    model = PCA(epsilon=1.0, row_norm=1.5, n_samples=60, n_features=2, n_components=1)
    yield "opendp", model, (X,), ("replace_one",), {"claim": 1.0}


class PublishedDP2DP(BaseEstimator):
    """Algorithm 1 with the noise of Theorem 4.1; all noisy gradients are released."""

    def __init__(self, multiplier):
        self.multiplier = multiplier

    def fit(self, X, y=None, sensitive_features=None):
        from dp2dp_erratum_audit import published_algorithm

        rng = np.random.default_rng()
        arguments = X, sensitive_features, self.multiplier, 1, rng, 0.01
        self.multipliers_, self.gradients_ = published_algorithm(*arguments)
        self.mean_gradient_ = self.gradients_.mean(axis=0)
        return self


def _published(X, y):
    import dp2dp_erratum_audit as erratum

    group, tables = erratum.neighbouring_tables()
    first, second = (Table(p, None, group) for p in tables)
    pair = Neighbours("a record of the small group", first, second)
    rate = erratum.BATCH / erratum.N_ROWS
    model = PublishedDP2DP(erratum.published_multiplier(1.0, rate))
    options = {"claim": (1.0, erratum.DELTA), "pairs": [pair]}
    data = {"X": tables[0], "sensitive_features": group}
    yield "Algorithm 1 as published", model, data, ("replace_one",), options


def _ours(X, y):
    box = {"bounds": (0, 1)}
    yield "", DPLinearRegression(target_bounds=(0, 1), **box), (X, X[:, 0]), BOTH, {}
    classifier = DPWassersteinLogisticRegression(classes=[0, 1], groups=[0, 1], **box)
    data = {"X": X, "y": y, "sensitive_features": y}
    yield "", classifier, data, BOTH, {}


def version_of(package):
    if not package:
        return "fairpriv_sklearn, this commit"
    try:
        return f"{package} {version(package)}"
    except PackageNotFoundError:
        return package


def audited(model, data, relation, options):
    """Audit one peer for one relation; None if it cannot be fitted."""
    if hasattr(model, "neighboring"):
        model.set_params(neighboring=relation)
    data = data if isinstance(data, dict) else dict(zip("Xy", data, strict=False))
    if "pairs" not in options:
        made = neighbours(**data, neighboring=relation)
        options = {**options, "pairs": [one for one in made if is_ordinary(one)]}
    budget = {"max_seconds": SECONDS, "random_state": 0, "neighboring": relation}
    try:
        return audit_estimator(model, **data, **options, **budget)
    except Exception as error:
        return error


def is_ordinary(pair):
    """Ten rows at least and, of few labels, both: a peer need not take other tables."""
    for one in (pair.first, pair.second):
        if one.n_rows < 10:
            return False
        if one.y is not None and one.y.dtype.kind == "i" and len(set(one.y)) < 2:
            return False
    return True


def main():
    names = ("numpy", "scikit-learn")
    print(
        f"python {platform.python_version()}, "
        + ", ".join(f"{n} {version(n)}" for n in names)
    )
    print(f"At most {SECONDS} CPU seconds each; bounds hold with confidence 0.999.\n")
    for package, model, data, relations, options in peers():
        name = type(model).__name__
        if CHOSEN and name not in CHOSEN:
            continue
        print(f"{name}, {version_of(package)}")
        if name in WITHHELD and not DETAILS:
            print("  withheld: goes to its maintainers first, details once answered\n")
            continue
        for relation in relations:
            report = audited(model, data, relation, options)
            if isinstance(report, Exception):
                print(f"  {relation}: not run, {type(report).__name__}: {report}")
                continue
            verdict = "REFUTED" if report.violated else "not refuted"
            verdict += "" if report.conclusive else ", not conclusive"
            print(
                f"  {report.claim}: {verdict}; epsilon >= {report.epsilon_lower:.3g}; "
                f"{report.n_fits} fits, {report.n_pairs} pairs, {report.seconds:.0f} s"
            )
            for finding in [one for one in report.findings if one.violates][:1]:
                print(f"    {finding.kind}; {finding.pair}: {finding.text}")
        print(flush=True)


if __name__ == "__main__":
    main()
