"""Black-box audit of DPGridSearchCV and dp_cross_validate on worst-case pairs.

Whole fits, noise and all, are run many times on two tables that differ in one record.
What comes out bounds the privacy loss from below with confidence 99.9 %; the bound has
to stay below the claim. The same audit has to catch variants that are wrong on
purpose: scores without noise, and fits that each have the whole budget.

    python examples/benchmarks/audit_model_selection.py [scale]

A scale of 1 takes about six minutes on one core. Run it from a checkout: the bounds
come from tests/_audit.py.
"""

import math
import platform
import sys
import time
import warnings
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import scipy
import sklearn
from sklearn.base import ClassifierMixin
from sklearn.model_selection import PredefinedSplit

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests"))
from _audit import gaussian_audit, pure_audit  # noqa: E402

from fairpriv_sklearn._door.estimator import DPEstimator  # noqa: E402
from fairpriv_sklearn._wall import PrivacyFilter  # noqa: E402
from fairpriv_sklearn.accounting import (  # noqa: E402
    GaussianEvent,
    PureEvent,
    calibrate_gaussian,
)
from fairpriv_sklearn.mechanisms import (  # noqa: E402
    GaussianMechanism,
    PermuteAndFlip,
    noise_source,
)
from fairpriv_sklearn.model_selection import (  # noqa: E402
    DPGridSearchCV,
    _plan,
    dp_cross_validate,
)
from fairpriv_sklearn.model_selection._scoring import Reading  # noqa: E402
from fairpriv_sklearn.privacy import PrivacyGuarantee  # noqa: E402

DELTA = 1e-5


class Fixed(ClassifierMixin, DPEstimator):
    """Predicts a column of X; its fit releases a noisy sum of column 0."""

    neighboring, random_state = "replace_one", None

    def __init__(self, epsilon=1.0, delta=DELTA, column=1, ledger=None):
        self.epsilon, self.delta = epsilon, delta
        self.column, self.ledger = column, ledger

    def fit(self, X, y):
        mu = calibrate_gaussian(self.epsilon, self.delta, n_draws=1)
        mechanism = GaussianMechanism(1.0, mu, 1)
        self.scale_ = mechanism.scale
        self.value_ = float(mechanism.release(X[:, 0].sum(), noise_source()))
        self.privacy_ = PrivacyGuarantee.from_events(
            [GaussianEvent(mu, 1)],
            delta=self.delta,
            neighboring=self.neighboring,
            mechanism="a noisy sum",
        )
        return self

    def predict(self, X):
        return X[:, self.column].astype(int)


class Response(Fixed):
    """Its fit is the worst epsilon-DP release of one bit; a good bit predicts well."""

    def __init__(self, epsilon=1.0, column=1, ledger=None):
        super().__init__(epsilon, DELTA, column, ledger)

    def fit(self, X, y):
        low = 0.045  # about one right answer among twice as many runs as there are
        high = min(math.exp(self.epsilon) * low, 1 - (1 - low) / math.exp(self.epsilon))
        chance = high if X[0, 0] > 0.5 else low
        self.value_ = int(noise_source().bernoulli(1, chance)[0])
        self.privacy_ = PrivacyGuarantee.from_events(
            [PureEvent(self.epsilon)],
            delta=0.0,
            neighboring=self.neighboring,
            mechanism="randomised response",
        )
        return self

    def predict(self, X):
        return np.full(len(X), self.value_)


class Largest(Fixed):
    """Predicts well if its noisy sum is large: the search looks for the largest."""

    def predict(self, X):
        right = X[:, 2] < self.value_ / self.scale_
        return np.where(right, 1, 0)


@contextmanager
def patched(owner, name, value):
    before = getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, before)


def sent_to(holdout):
    """Fix the draws; the analysis holds for every outcome of them."""
    drawn = np.asarray(holdout)
    return patched(PrivacyFilter, "random_split", lambda self, n_rows, p: drawn)


def selection(n_runs, epsilon, exact=False):
    """Name of the winner; the changed record decides which of two is better."""
    y = np.array([1, 1])
    tables = [np.array([first, [0.0, 1, 0]]) for first in ([0.0, 1, 0], [0.0, 0, 1])]
    search = DPGridSearchCV(
        Fixed(), {"column": [1, 2]}, epsilon=epsilon, method="compose"
    )
    take_best = PermuteAndFlip.release
    if exact:

        def take_best(self, utilities, noise):
            return int(np.argmax(utilities))

    with sent_to([True, False]), patched(PermuteAndFlip, "release", take_best):
        return [
            [search.fit(X, y).best_params_["column"] for _ in range(n_runs)]
            for X in tables
        ]


def repeat(estimator, n_runs, epsilon, whole_budget=False):
    """Value of the winner of repeat and select, fitted on the changed record."""
    n_scored, calibrate = 60, _plan.calibrate_repeat
    if whole_budget:

        def calibrate(kind, epsilon, *_):
            return epsilon

    ladder = np.linspace(-3, 9, n_scored)
    y = np.ones(n_scored + 1, dtype=int)
    search = DPGridSearchCV(
        estimator, {"column": [1, 2, 3]}, epsilon=epsilon, method="repeat"
    )
    outputs = []
    holdout = np.arange(n_scored + 1) > 0
    with sent_to(holdout), patched(_plan, "calibrate_repeat", calibrate):
        for bit in (0.0, 1.0):
            X = np.column_stack([np.zeros(n_scored + 1), y, np.append(0, ladder)])
            X[0, 0] = bit
            runs = (search.fit(X, y).best_estimator_.value_ for _ in range(n_runs))
            outputs.append(np.array(list(runs), dtype=float))
    return outputs


def cross_validation(n_runs, epsilon, fraction, exact=False):
    """Fold score and two fits that see the changed record, in one number."""
    y = np.ones(6, dtype=int)
    given = {
        "cv": PredefinedSplit([0, 0, 1, 1, 2, 2]),
        "epsilon": epsilon,
        "score_fraction": fraction,
        "return_estimator": True,
    }
    score_mu = math.sqrt(fraction) * calibrate_gaussian(epsilon, DELTA, n_draws=20_001)
    release = honest = GaussianMechanism.release
    if exact:  # a score is a vector, what a fit releases here is a number

        def release(self, value, noise):
            return value if np.ndim(value) else honest(self, value, noise)

    # A score is clipped to its range on the way out, which only hides its noise: the
    # attacker is given what was released before.
    def unclipped(reading, index=0):
        return float(reading.vector[index])

    outputs = []
    for first in ([0.0, 1.0], [1.0, 0.0]):
        X = np.tile([0.0, 1.0], (6, 1))
        X[0] = first
        numbers = np.empty(n_runs)
        for i in range(n_runs):
            with (
                patched(Reading, "score", unclipped),
                patched(GaussianMechanism, "release", release),
            ):
                result = dp_cross_validate(Fixed(), X, y, **given)
            sound = result.scores["accuracy"].scores[0]
            # The log-likelihood ratio, where everything is Gaussian.
            fits = sum(m.value_ / m.scale_**2 for m in result.estimators[1:])
            numbers[i] = sound if exact else fits - score_mu**2 * sound
        outputs.append(numbers)
    return outputs


def line(what, claim, bound, wrong, start):
    verdict = "caught" if bound > claim else "below the claim"
    as_it_should = "" if (bound > claim) == wrong else "  <-- NOT AS IT SHOULD BE"
    seconds = time.process_time() - start
    print(
        f"{what:58}{claim:>8.3f}{bound:>9.3f}  {verdict:16}{seconds:>7.0f} s"
        f"{as_it_should}",
        flush=True,
    )


def main(scale=1.0):
    warnings.simplefilter("ignore")
    print("Command: python examples/benchmarks/audit_model_selection.py", scale)
    print(
        f"Python {platform.python_version()}, NumPy {np.__version__}, "
        f"SciPy {scipy.__version__}, scikit-learn {sklearn.__version__}\n"
    )
    print(f"{'release':58}{'claim':>8}{'bound':>9}")

    def n(runs):
        return max(200, int(runs * scale))

    start = time.process_time()
    bound = pure_audit(*selection(n(4000), 1.0))
    line("search, compose: winner's name (epsilon)", 1.0, bound, False, start)
    start = time.process_time()
    bound = pure_audit(*selection(n(1000), 1.0, exact=True))
    line("  wrong: scores without noise", 1.0, bound, True, start)

    start = time.process_time()
    bound = pure_audit(*repeat(Response(), n(3000), 3.0), delta=DELTA)
    line("search, repeat: winner, pure fits (epsilon)", 3.0, bound, False, start)
    start = time.process_time()
    bound = pure_audit(*repeat(Response(), n(3000), 3.0, True), delta=DELTA)
    line("  wrong: every fit has the whole budget", 3.0, bound, True, start)

    start = time.process_time()
    bound = pure_audit(*repeat(Largest(), n(2000), 3.0), delta=DELTA)
    line("search, repeat: winner, Gaussian fits (epsilon)", 3.0, bound, False, start)

    start = time.process_time()
    mu = calibrate_gaussian(4.0, DELTA)
    bound = gaussian_audit(*cross_validation(n(3000), 4.0, 0.3))
    line("cross-validation: two fits and a score (mu)", mu, bound, False, start)
    start = time.process_time()
    exact = cross_validation(n(3000), 4.0, 0.3, exact=True)
    bound = pure_audit(*exact, delta=DELTA)
    line("  wrong: scores without noise (epsilon)", 4.0, bound, True, start)


if __name__ == "__main__":
    main(*map(float, sys.argv[1:]))
