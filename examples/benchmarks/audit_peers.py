"""Peers under the auditor: each claim, what was tried, the bound, the version.

Models of other packages, fitted to an ordinary simulated table with every public
argument given (bounds, norms, classes). The claim is theirs: epsilon as passed. They
state no neighbouring relation; both are tried. A violation here says that the claim
does not hold for that relation on some pair of tables, which their authors may not have
meant to promise. Needs diffprivlib and a scikit-learn that it can be imported beside
(1.6), and interpret-core[dp] for the last.

    python examples/benchmarks/audit_peers.py > audit_peers.txt
"""

import platform
import warnings
from importlib.metadata import PackageNotFoundError, version

import numpy as np

from fairpriv_sklearn.audit import audit_estimator

warnings.simplefilter("ignore")
SECONDS = 25


def table(n=60):
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(n, 2))
    return X, (X[:, 0] + 0.2 * rng.normal(size=n) > 0.5).astype(int)


def peers():
    """Yield name, package, estimator, features, target."""
    X, y = table()
    try:
        from diffprivlib import models as dpl
    except ImportError:
        return
    box = {"bounds": (0.0, 1.0)}
    yield (
        "LinearRegression",
        dpl.LinearRegression(epsilon=1.0, bounds_X=(0, 1), bounds_y=(0, 1)),
        (X, X[:, 0]),
    )
    yield (
        "LinearRegression, bounds (0, 100)",
        dpl.LinearRegression(epsilon=1.0, bounds_X=(0, 100), bounds_y=(0, 100)),
        (100 * X, 100 * X[:, 0]),
    )
    yield (
        "LogisticRegression",
        dpl.LogisticRegression(epsilon=1.0, data_norm=1.5),
        (X, y),
    )
    yield "GaussianNB", dpl.GaussianNB(epsilon=1.0, **box), (X, y)
    yield (
        "DecisionTreeClassifier",
        dpl.DecisionTreeClassifier(epsilon=1.0, max_depth=1, classes=[0, 1], **box),
        (X, y),
    )
    yield (
        "RandomForestClassifier",
        dpl.RandomForestClassifier(
            epsilon=1.0, n_estimators=1, max_depth=1, classes=[0, 1], **box
        ),
        (X, y),
    )
    yield "StandardScaler", dpl.StandardScaler(epsilon=1.0, **box), (X, None)
    yield "KMeans", dpl.KMeans(n_clusters=2, epsilon=1.0, **box), (X, None)
    yield (
        "PCA",
        dpl.PCA(n_components=1, epsilon=1.0, data_norm=1.5, centered=False, **box),
        (X, None),
    )
    try:
        from interpret.privacy import DPExplainableBoostingClassifier
    except ImportError:
        return
    yield (
        "DPExplainableBoostingClassifier",
        DPExplainableBoostingClassifier(
            epsilon=1.0,
            delta=1e-5,
            privacy_bounds=np.array([[0.0, 1.0]] * 2),
            privacy_target_min=0,
            privacy_target_max=1,
            max_rounds=10,
            n_jobs=1,
        ),
        (X, y),
    )


def version_of(estimator):
    name = type(estimator).__module__.partition(".")[0]
    try:
        return f"{name} {version(name)}"
    except PackageNotFoundError:
        return f"{name} {version(f'{name}-core')}"


def main():
    names = ("numpy", "scikit-learn")
    print(
        f"python {platform.python_version()}, "
        + ", ".join(f"{n} {version(n)}" for n in names)
    )
    print(f"at most {SECONDS} s each; confidence 0.999; claim: epsilon = 1")
    for name, estimator, (X, y) in peers():
        delta = getattr(estimator, "delta", 0.0)
        for relation in ("replace_one", "add_remove"):
            head = f"{name} ({version_of(estimator)}), {relation}"
            try:
                report = audit_estimator(
                    estimator,
                    X,
                    y,
                    claim=(1.0, delta if isinstance(delta, float) else 0.0),
                    neighboring=relation,
                    max_seconds=SECONDS,
                    random_state=0,
                )
            except Exception as error:
                print(f"{head}: not run ({type(error).__name__})", flush=True)
                continue
            verdict = "VIOLATED" if report.violated else "not violated"
            print(
                f"{head}: {verdict}; epsilon >= {report.epsilon_lower:.3g}; "
                f"{report.n_fits} fits, {report.n_pairs} pairs, {report.seconds:.0f} s"
            )
            for finding in report.findings:
                if finding.violates:
                    print(f"    {finding.kind}, {finding.pair}: {finding.text}")
                    break
            print(end="", flush=True)


if __name__ == "__main__":
    main()
