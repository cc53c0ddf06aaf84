"""Fair classification by post-processing: private sums or counts, then a shifted rule.

Here is the public face. What is released and how the rule is found: `_decisions`; the
mathematics: `_parity` and `_blind`.
"""

from collections.abc import Iterable
from numbers import Integral, Real

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.metrics import accuracy_score
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from .._door.estimator import DELTA_CONSTRAINT
from .._door.groups import fit_groups
from .._door.labels import encode_labels
from .._shared.arguments import number
from .._shared.arrays import project_simplex
from .._shared.domain import check_given, same_length
from .._shared.rowwise import RowDraws
from .._shared.sklearn import (
    HasProbabilities,
    Interval,
    StrOptions,
    fit_context,
    safe_indexing,
)
from .._wall import noise_source, read_rows
from . import _parity as parity
from ._blind import UNPAID, Reach
from ._blind import reach as read_reach
from ._decisions import DecisionRepair
from ._phases import PHASE_CONSTRAINTS, Coded, ConstantClassifier
from ._repair import REACH_SIZES, class_probabilities


def _has_histogram(estimator) -> bool:
    """Whether there are, or will be, counts, by what the arguments say by now."""
    if estimator._resolved_method() != "histogram":
        raise AttributeError(
            "path needs method='histogram': offsets found by gradient steps hold for "
            "one tolerance only, and another one costs another release."
        )
    return True


class DP2DPClassifier(ClassifierMixin, DecisionRepair):
    r"""Fit a classifier and shift its probabilities so that groups are treated alike.

    Some rows, drawn at random, fit the wrapped classifier; on the others a private
    release finds the most accurate rule

    .. math::

        \max_{\nu} \; P(\hat y = y), \quad
        &\hat y(x, s) = \arg\max_k \; p_k(x, s) - \nu_{s,k}, \\
        \text{subject to} \quad
        &\max_{k, s, r} |P(\hat y = k \mid s) - P(\hat y = k \mid r)| \le \rho

    with the class probabilities p taken as calibrated (demographic parity), or a rule
    whose error rates agree between groups (equalized odds, equal opportunity), which
    is randomised for two classes.

    .. rubric:: Privacy

    The calibration is (epsilon, delta)-DP for the records (x, y, group). "gradient"
    releases `max_iter` tables of soft decision counts, and one of the decisions at the
    end; each record adds a vector of norm at most one to one row of each table, so that
    the Euclidean sensitivity is sqrt(2) under replace-one and 1 under add/remove, and
    Gaussian noise composes exactly. "histogram" releases counts of the scores once,
    with discrete Laplace noise, for pure epsilon. The published algorithm [1]_ was
    analysed wrongly; this is the corrected mechanism, see the user guide. A record
    either fits the classifier or calibrates, by a draw that does not look at it, so the
    whole costs the larger of the calibration's and the classifier's own guarantee. A
    classifier without one leaves the whole uncovered: `privacy_.epsilon` is infinite.
    With a `FrozenEstimator` all rows calibrate and the two guarantees add up. Public:
    `groups`, `classes`, the draws and, under replace-one, the number of rows.

    Parameters
    ----------
    estimator : classifier
        Anything with `fit` and `predict_proba`, a pipeline for example; already fitted
        if wrapped in `FrozenEstimator`. It is fitted without the sensitive columns
        that the constructor names. Where its probabilities take few values (one tree,
        the nearest neighbour) or are next to zero or one for most people, "gradient"
        may have to draw decisions, which a note tells; "histogram" for demographic
        parity draws none, and a note tells where many are in the bin of a threshold.
    epsilon : float, default=1.0
        Privacy budget of the calibration. Range: (0, inf]; infinity adds no noise.
    delta : float, default=1e-5
        Used by "gradient" only. Range: [1e-300, 1).
    fairness_tolerance : float, default=0.0
        Largest difference :math:`\rho` between two groups' rates, up to estimation
        error; counts by true class allow a standard error of a rate more. Range:
        [0, 1].
    constraint : str, default="demographic_parity"
        Which rates the groups must share. "demographic_parity": how often each class
        is chosen. "equalized_odds": how often within each true class.
        "equal_opportunity": how often a true class is recognised (of two classes, the
        second one of `classes_` only, which are sorted, in whatever order `classes`
        lists them).
    method : {"auto", "gradient", "histogram"}, default="auto"
        "auto" takes "gradient" for demographic parity and where `classes` lists more
        than two, and "histogram" otherwise. "gradient" takes any number of classes; its
        rule is deterministic, but where its decisions are counted and the groups surely
        differ still: then some are drawn. By true class it errs less than "histogram",
        and may leave more of the gap. "histogram" is pure
        epsilon-DP and serves every tolerance (`path`); demographic parity needs two
        classes, the other constraints give a randomised rule.
    max_iter : int, default=30
        Number of steps of "gradient"; they share nine tenths of its budget, and the
        decisions are counted with the rest. Range: [1, inf).
    learning_rate : float, default=1.0
        Size of the first step of "gradient". Range: [1e-6, 1e6].
    smoothing : float, default=0.02
        Temperature of the softmax that "gradient" counts instead of decisions, in
        units of probability; of two classes and demographic parity finer where these
        are next to zero or one. Range: [1e-6, inf).
    n_bins : int or "auto", default="auto"
        Regions of the probability simplex that "histogram" counts: equal bins of the
        second class's probability, or, for more classes, most probable class times
        runner-up times equal bins of their margin. "auto" is 32 for demographic
        parity, otherwise 16 for two classes and about 32 for more.
        Range: [2, 10000].
    {calibration_size}
    base_guarantee : PrivacyGuarantee, "public" or None, default=None
        What fitting the wrapped classifier costs. None reads it from our estimators and
        from diffprivlib's; "public" says that it saw no data under protection, so it
        has to come fitted, in a `FrozenEstimator`.
    blind : bool, default=False
        Whether prediction does without the group: the rule then reads an estimate of it
        off `X`, and `predict` takes no sensitive features. `fit` needs them as before.
    group_estimator : classifier or None, default=None
        Blind only: estimates the group from the columns that the classifier sees; a
        public one comes in a `FrozenEstimator`. None fits a private one: the wrapped
        classifier with the groups as its classes if it is private and takes `classes`
        (without a threshold or a bag around it), a `DPWassersteinLogisticRegression`
        without penalty otherwise.
    {group_guarantee}
    group_size : float, default=0.25
        Blind only: chance of a row to fit `group_estimator`. Range: (0, 1); what this
        and `calibration_size` leave fits the classifier.
    reach_size : float, default=0.0
        Blind only: share of the calibration's budget that `reach` may read.
        Range: 0, or [.001, .9].
    classes : array-like of shape (n_classes,), default=None
        Public list of labels. None takes it from the data, with a warning.
    handle_unknown : {"error", "pooled"}, default="error"
        What prediction does with a label that is not in `groups`: raise, or decide
        without a shift (for a randomised rule, by the average rule).
    {neighboring}
    {sensitive_features}
    {groups}
    ledger : PrivacyLedger, default=None
        Budget from which each fit takes the cost of both phases, or of the second
        alone if the wrapped classifier has a ledger of its own or no guarantee.
    {random_state}

    Attributes
    ----------
    estimator_ : classifier
        The fitted classifier.
    privacy_ : PrivacyGuarantee
        What both phases of `fit` released and what they cost.
    classes_ : ndarray of shape (n_classes,)
    offsets_ : ndarray of shape (n_groups, n_classes)
        :math:`\nu`, of "gradient" and of thresholds. By true class they are of shape
        (n_groups, n_classes, n_classes), and the rule is
        :math:`\arg\max_k p_k - \sum_y p_y \nu_{s,y,k}`.
    rule_ : ndarray of shape (n_groups, n_regions, n_classes)
        Chance of each class by group and region, for a randomised rule. With
        `offsets_`, where decisions had to be drawn, a region is a decision by them,
        with another one near or far. Blind: one rule for all, in place of `n_groups`;
        a region is a decision and the group that is likelier than among all people.
    counts_ : ndarray of shape (n_conditions, n_groups, n_bins), int64
        The noisy counts of "histogram"; one condition, or one for each true class.
    n_iter_ : int
        Steps of "gradient", or 1.
    pooled_groups_ : ndarray
        Groups that noise does not let be told from the others (in some true class).
        "gradient": they are decided for without a shift (in these classes), as unknown
        ones; not those whose decisions are drawn by their own rates. "histogram": as
        all people together. Blind: those with next
        to nobody, which are left out of what is made equal and of its interval.
    repair_notes_ : list of str
        What a `RepairWarning` said: which groups cannot be told from the others, that
        decisions are drawn, or why the repair stood back. Otherwise empty.
    group_estimator_ : classifier
        Blind only: the fitted model of the group.
    group_strength_ : float
        Blind only: what it tells about the groups, from 0 (nothing) to 1 (all), by the
        noisy counts.
    repair_ : {"repaired", "none", "constant"}
        Blind only: whether the repair is used, or stood back because a noisy
        certificate says that it does not help.
    parity_interval_ : tuple of float
        Blind only: private 95 % interval of the disparity that was reached; by true
        class, in those of which every group has enough people for its noise.
    groups_ : ndarray of shape (n_groups,)
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the columns of `X`, if `fit` saw a DataFrame with string names.

    Raises
    ------
    ValueError
        If the sensitive features are not given, have a missing label or one outside
        `groups`, a label of `y` is outside `classes`, an argument is out of range, or
        at prediction `estimator.predict_proba` does not return probabilities.
    BudgetExceededError
        If the ledger has not enough left.

    Warns
    -----
    PrivacyLeakWarning
        If `groups` or `classes` are taken from the data.

    See Also
    --------
    DPBarycenterRegressor : The same for regression.

    Notes
    -----
    A randomised rule draws by a keyed hash of the row and its group: distinct rows get
    the same answer in every batch, and equal rows of a batch share the chances. That of
    "histogram" is for two classes the best common point of the groups' ROC curves [2]_;
    that of "gradient" changes as few decisions as parity needs. `predict_proba` is then
    the chance of each class, otherwise the Euclidean projection of the shifted scores
    on the probability simplex: its argmax is the prediction, but it is no estimate of
    :math:`P(y | x)`. A threshold, a soft vote, a stack or a calibration around this
    classifier decides by that instead, and undoes the repair: put them inside.

    References
    ----------
    .. [1] L. Say, C. Denis, R. Pinot. "Fairness Meets Privacy: Integrating Differential
       Privacy and Demographic Parity in Multi-class Classification".
       arXiv:2511.18876, 2025.
    .. [2] M. Hardt, E. Price, N. Srebro. "Equality of Opportunity in Supervised
       Learning". NeurIPS 2016.

    Examples
    --------
    >>> from sklearn.linear_model import LogisticRegression
    >>> from fairpriv_sklearn.datasets import make_spurious_bias
    >>> from fairpriv_sklearn.metrics import demographic_parity_difference
    >>> from fairpriv_sklearn.postprocessing import DP2DPClassifier
    >>> X, y, group = make_spurious_bias(n_samples=8000, random_state=0)
    >>> model = DP2DPClassifier(
    ...     LogisticRegression(), classes=[0, 1], groups=[0, 1], random_state=0
    ... )
    >>> model = model.fit(X, y, sensitive_features=group)
    >>> y_fair = model.predict(X, sensitive_features=group)
    >>> bool(demographic_parity_difference(y, y_fair, sensitive_features=group) < 0.05)
    True
    """

    def __init__(
        self,
        estimator,
        *,
        epsilon=1.0,
        delta=1e-5,
        fairness_tolerance=0.0,
        constraint="demographic_parity",
        method="auto",
        max_iter=30,
        learning_rate=1.0,
        smoothing=0.02,
        n_bins="auto",
        calibration_size=0.25,
        base_guarantee=None,
        blind=False,
        group_estimator=None,
        group_guarantee=None,
        group_size=0.25,
        reach_size=0.0,
        classes=None,
        handle_unknown="error",
        neighboring="replace_one",
        sensitive_features=None,
        groups=None,
        ledger=None,
        random_state=None,
    ) -> None:
        self.estimator = estimator
        self.epsilon = epsilon
        self.delta = delta
        self.fairness_tolerance = fairness_tolerance
        self.constraint = constraint
        self.method = method
        self.max_iter = max_iter
        self.learning_rate = learning_rate
        self.smoothing = smoothing
        self.n_bins = n_bins
        self.calibration_size = calibration_size
        self.base_guarantee = base_guarantee
        self.blind = blind
        self.group_estimator = group_estimator
        self.group_guarantee = group_guarantee
        self.group_size = group_size
        self.reach_size = reach_size
        self.classes = classes
        self.handle_unknown = handle_unknown
        self.neighboring = neighboring
        self.sensitive_features = sensitive_features
        self.groups = groups
        self.ledger = ledger
        self.random_state = random_state

    _base_method = "predict_proba"

    _parameter_constraints: dict = {
        **DecisionRepair._parameter_constraints,
        **DELTA_CONSTRAINT,
        **PHASE_CONSTRAINTS,
        "reach_size": REACH_SIZES,
        "estimator": [HasProbabilities()],
        "fairness_tolerance": [Interval(Real, 0, 1, closed="both")],
        "constraint": [
            StrOptions({"demographic_parity", "equalized_odds", "equal_opportunity"})
        ],
        "method": [StrOptions({"auto", "gradient", "histogram"})],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "learning_rate": [Interval(Real, 1e-6, 1e6, closed="both")],
        # Below, differences of probabilities over it could overflow.
        "smoothing": [Interval(Real, 1e-6, None, closed="left")],
        "n_bins": [StrOptions({"auto"}), Interval(Integral, 2, 10_000, closed="both")],
        "classes": ["array-like", None],
    }

    @fit_context(prefer_skip_nested_validation=False)
    def fit(self, X, y, *, sensitive_features=None):
        """Fit the classifier on some rows and calibrate its rule on the others.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_samples, n_features)
            Rows, one for each person.
        y : array-like of shape (n_samples,)
            Target of each row.
        sensitive_features : array-like of shape (n_samples,) or (n_samples, k), \
                default=None
            Group label of each row; several columns name the intersections. Not
            needed if the constructor names the columns.

        Returns
        -------
        self : DP2DPClassifier
        """
        self._check_arguments()
        rows = read_rows(self._read, X, y, sensitive_features)
        self._check_method()
        noise = noise_source(self.random_state)
        (plan, delta), stand_in = self._plan(), ConstantClassifier(self.classes_)
        reads = ("codes", "labels")
        phases, wall, rows, scores = self._fit_both(
            rows, plan, stand_in, reads=reads, noise=noise, delta=delta
        )
        if self.blind:
            self._calibrate_blind(wall, rows, scores)
        else:
            self._calibrate(wall, rows, scores)
        self.privacy_ = phases.guarantee()
        return self

    def _read(self, X, y, sensitive_features) -> dict:
        """The private columns of one table; sets public facts."""
        codes, X, about_groups = fit_groups(self, X, sensitive_features)
        check_given(self, y)
        labels, self.classes_, about_classes = encode_labels(y, self.classes)
        same_length(X, labels)
        facts, y = (about_groups, about_classes), Coded(self.classes_, labels)
        return self._private_table(
            X, y, codes, facts, sensitive_features, labels=labels
        )

    def predict(self, X, *, sensitive_features=None) -> np.ndarray:
        """Choose a class for each row.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_samples, n_features)
            Rows, one for each person.
        sensitive_features : array-like of shape (n_samples,) or (n_samples, k), \
                default=None
            Group label of each row, as in `fit`.

        Returns
        -------
        y_pred : ndarray of shape (n_samples,)
        """
        chosen = []
        for scores in self._decision_scores("predict", X, sensitive_features):
            if scores.shape[1] == 2:  # five times as fast as argmax
                chosen.append(self.classes_[(scores[:, 1] > scores[:, 0]).astype(int)])
            else:
                chosen.append(self.classes_[scores.argmax(axis=1)])
        return np.concatenate(chosen)

    def decision_function(self, X, *, sensitive_features=None) -> np.ndarray:
        """Shifted class probabilities; the largest is chosen.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_samples, n_features)
            Rows, one for each person.
        sensitive_features : array-like of shape (n_samples,) or (n_samples, k), \
                default=None
            Group label of each row, as in `fit`.

        Returns
        -------
        scores : ndarray of shape (n_samples, n_classes) or (n_samples,)
            For two classes the difference second minus first: positive means the
            second class. Under a randomised rule, the chances of the classes plus one
            for the class that was drawn.
        """
        blocks = self._decision_scores("decision_function", X, sensitive_features)
        scores = np.concatenate(list(blocks))
        return scores[:, 1] - scores[:, 0] if scores.shape[1] == 2 else scores

    def predict_proba(self, X, *, sensitive_features=None) -> np.ndarray:
        """Class probabilities under the fair rule.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_samples, n_features)
            Rows, one for each person.
        sensitive_features : array-like of shape (n_samples,) or (n_samples, k), \
                default=None
            Group label of each row, as in `fit`.

        Returns
        -------
        probabilities : ndarray of shape (n_samples, n_classes)
            The shifted scores, projected on the probability simplex; under a
            randomised rule, the chances of the classes.
        """
        check_is_fitted(self)
        chances = self._chances if self._spreads() else None
        probabilities = []
        for scores, groups, _ in self._scores("predict_proba", X, sensitive_features):
            if chances is None:
                nearest = project_simplex(self._shifted(scores, groups))
                probabilities.append(nearest / nearest.sum(axis=1, keepdims=True))
            else:
                regions = self._regions(scores, groups)
                probabilities.append(chances[self._rule_codes(groups), regions])
        return np.concatenate(probabilities)

    def score(self, X, y, sample_weight=None, *, sensitive_features=None) -> float:
        """Accuracy of the predictions.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_samples, n_features)
            Rows, one for each person.
        y : array-like of shape (n_samples,)
            Target of each row.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows in the score.
        sensitive_features : array-like of shape (n_samples,) or (n_samples, k), \
                default=None
            Group label of each row, as in `fit`.

        Returns
        -------
        accuracy : float
        """
        return self._score_by(accuracy_score, X, y, sample_weight, sensitive_features)

    @available_if(_has_histogram)
    def path(self, fairness_tolerances: Iterable[float]) -> list:
        """Solve again for other tolerances, from the same release and at no cost.

        Only with ``method="histogram"``, whose counts serve every tolerance.

        Parameters
        ----------
        fairness_tolerances : iterable of float
            Each in [0, 1].

        Returns
        -------
        classifiers : list of DP2DPClassifier
            Fitted copies, one per tolerance. They share the release and `privacy_`:
            using all of them costs no more than using one.
        """
        self._check_is_fitted()
        if getattr(self, "counts_", np.empty(0)).shape != self._table_shape():
            raise ValueError(
                "path solves again for the counts of fit, and method, constraint or "
                "n_bins, which say what is counted, have changed since: set them back, "
                "or fit again."
            )
        return self._along(fairness_tolerances, number(0, 1))

    def reach(self, fairness_tolerances: Iterable[float]) -> Reach:
        """Tell what parity costs where the group is not known at prediction.

        Weaker repairs, from none to the one that was fitted, were measured by counts
        that `reach_size` paid for in `fit`; reading them is free.

        Parameters
        ----------
        fairness_tolerances : iterable of float
            Each in [0, 1].

        Returns
        -------
        reach : Reach
            Violation and error of the weakest repair that meets each tolerance, with
            intervals; its text says it in words. `violation` and `error` are what
            `inspection.TradeoffDisplay` draws.

        Raises
        ------
        ValueError
            If no share of the budget was set aside for it.
        """
        check_is_fitted(self)
        if getattr(self, "_measured", None) is None:
            raise ValueError(UNPAID)
        return read_reach(self._measured, fairness_tolerances)

    # --- the rule --------------------------------------------------------------------

    def _base_scores(self, X, metadata, *, private) -> np.ndarray:
        """Probabilities of the wrapped classifier, one column per public class."""
        classes = self.classes_.tolist()
        return class_probabilities(
            self, self.estimator_, X, metadata, classes, private=private
        )

    def _scores(self, caller, X, sensitive_features):
        """Probabilities, groups (or their shares) and the model's columns, by block."""
        codes, blocks = self._scored(caller, X, sensitive_features)
        for rows, scores, block in blocks:
            if self.blind:
                groups = self._recalibration(self._group_shares(block, private=False))
            else:
                groups = codes[rows]
            yield scores, groups, block

    def _decision_scores(self, caller, X, sensitive_features):
        """Scores by block, of which a row's largest is the decision."""
        check_is_fitted(self)
        blocks = self._scores(caller, X, sensitive_features)
        if not self._spreads():
            for scores, groups, _ in blocks:
                yield self._shifted(scores, groups)
            return
        # Most regions decide for one class: only rows of the others need a draw.
        table = self._chances
        mixed = table.max(axis=2) < 1.0
        draws, places = RowDraws(self._key), []
        for scores, codes, X_block in blocks:
            bins = self._regions(scores, codes).astype(np.int32)
            codes = self._rule_codes(codes)
            places.append((codes, bins))
            rows = np.flatnonzero(mixed[codes, bins])
            if len(rows):
                draws.add(safe_indexing(X_block, rows), codes[rows])
        u = draws.uniforms(spread=self._may_spread())
        for codes, bins in places:
            chances, rows = table[codes, bins], np.flatnonzero(mixed[codes, bins])
            drawn = chances.argmax(axis=1)
            u_block, u = u[: len(rows), None], u[len(rows) :]
            passed = u_block >= chances[rows].cumsum(axis=1)[:, :-1]
            drawn[rows] = passed.sum(axis=1)
            yield chances + np.eye(chances.shape[1])[drawn]

    def _shifted(self, scores, codes) -> np.ndarray:
        """Probabilities minus the offsets of the group; unknown groups have none."""
        if self.blind and self.repair_ == "constant":
            return np.eye(scores.shape[1])[np.full(len(scores), self._constant)]
        offsets = self.offsets_
        offsets = offsets[None] if offsets.ndim == 2 else offsets.swapaxes(0, 1)
        return parity.shifted_scores(scores, codes, offsets).T

    def _rule_codes(self, groups) -> np.ndarray:
        """Which of the rules each row is under: a blind repair has one."""
        return np.zeros(len(groups), dtype=np.int64) if self.blind else groups

    @property
    def _chances(self) -> np.ndarray:
        """Chance of each class by group and region; code -1 reads the average rule."""
        weights = self._group_weights / self._group_weights.sum()
        pooled = np.tensordot(weights, self.rule_, axes=1)[None]
        return np.concatenate([self.rule_, pooled])

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.classifier_tags.poor_score = True  # noise, on a few dozen rows
        tags.classifier_tags.multi_class = not self._two_classes_only
        return tags
