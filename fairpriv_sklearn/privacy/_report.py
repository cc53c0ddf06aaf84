"""The privacy of a whole pipeline, step by step."""

import math
from dataclasses import dataclass
from typing import Any

from sklearn.utils.validation import check_is_fitted

from .._shared.arguments import fits
from .._shared.markdown import markdown_line, markdown_table
from .._shared.rounded import round_up
from ..accounting import compose_epsilon
from ._composed import composed, total_of
from ._guarantee import PrivacyGuarantee
from ._step import StepPrivacy
from ._walk import found_in


@dataclass(frozen=True)
class PrivacyReport:
    """The privacy of a fitted estimator or pipeline, from `privacy_report`.

    Parameters
    ----------
    estimator : str
        Name of its class.
    guarantee : PrivacyGuarantee
        All steps composed; `uncovered` names the steps without a guarantee.
    steps : tuple of StepPrivacy
        In the order of the pipeline.
    """

    estimator: str
    guarantee: PrivacyGuarantee
    steps: tuple[StepPrivacy, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return plain data that `json.dumps` accepts.

        Returns
        -------
        dict
            The fields by name.
        """
        return {
            "estimator": self.estimator,
            "guarantee": self.guarantee.to_dict(),
            "steps": [step.to_dict() for step in self.steps],
        }

    def to_card(self, context=None) -> Any:
        """Return the card to hand over: for the registry and for the officer.

        Parameters
        ----------
        context : mapping or None, default=None
            What the model does not know of itself; see `deployment_card`.

        Returns
        -------
        DeploymentCard
            With `to_yaml()`, `to_json()`, `to_markdown()`, `to_html()`.
        """
        from ._card import DeploymentCard

        return DeploymentCard(self, context)

    def to_markdown(self) -> str:
        """Return the report as Markdown.

        Returns
        -------
        str
            Sections with tables.
        """
        header = ["step", "estimator", "status", "epsilon", "delta"]
        rows = [
            [step.name or "-", step.estimator, step.status, *_prices(step)]
            for step in self.steps
        ]
        fixes = [
            f"- **{markdown_line(step.title)}**: {step.fix}"
            for step in self.steps
            if step.fix
        ]
        title = "### To cover the whole, and fit again"
        to_do = [title, "\n".join(fixes)] if fixes else []
        sections = [
            f"## Privacy of {markdown_line(self.estimator)}",
            markdown_line(self.guarantee),
            *self._covered_phase(),
            markdown_table(header, rows),
            *to_do,
            "### All steps together",
            self.guarantee.to_markdown().rstrip(),
        ]
        return "\n\n".join(sections) + "\n"

    __str__ = _repr_markdown_ = to_markdown

    def _covered_phase(self) -> list[str]:
        if not (self.guarantee.uncovered and self.guarantee.events):
            return []
        cost = compose_epsilon(self.guarantee.events, self.guarantee.delta)
        return [
            f"The covered steps cost epsilon = {round_up(cost)} at delta = "
            f"{round_up(self.guarantee.delta)}, which counts only once the others are "
            "covered."
        ]


def privacy_report(estimator, *, before=None) -> PrivacyReport:
    r"""Report the privacy of each step of a fitted estimator, and of the whole.

    The steps see the same records, so that their guarantees compose:

    .. math:: M_{\rm pipeline} = M_1 \otimes \dots \otimes M_k .

    .. rubric:: Privacy

    Reads fitted attributes and constructor arguments only; the report may be published.
    A step is *private* if it has a `privacy_`, *public* if it learnt nothing from the
    data, *conditional* if one of these holds on a condition that it names, and
    otherwise *uncovered*, which voids the guarantee of the whole.

    Public are `Normalizer`, `Binarizer`, `AdditiveChi2Sampler`, `FeatureHasher` and
    `HashingVectorizer`, and on these conditions: `OneHotEncoder` and `OrdinalEncoder`
    with lists of `categories`, no counting of rare ones and no warning of unknown ones;
    `SimpleImputer` with a constant `fill_value`, keeping empty columns and without
    indicator (all three keep types of columns, which are assumed to be public where a
    cell may have decided them); `SplineTransformer` with an array of `knots`;
    `PolynomialFeatures`; `RBFSampler` with a number as `gamma`; `FunctionTransformer`
    around a NumPy ufunc, with `check_inverse=False` if it has an inverse (whether that
    check warns depends on the rows), which goes for `TransformedTargetRegressor` too.
    That no cell is one that NumPy warns of, such as one that is too large, is assumed.
    Around another function, or in a class of somebody's own, nothing here can see
    whether rows are treated one by one: that is a condition, unless the function or
    class has an attribute `__fairpriv_row_pure__` that says so; what draws rows anew
    (`fit_resample`) is uncovered. A `ColumnTransformer` is uncovered if it chooses
    columns by a callable, or between sparse and dense output by the rows; unless
    `sparse_threshold=0`, it is assumed to be handed no sparse table. A pipeline is
    uncovered if it caches its steps (`memory`), since what comes from the cache tells
    whether the rows are those of an earlier fit; so is bagging if it draws with
    replacement or by weights, or if the number of rows is private, which it keeps.

    Models of diffprivlib are judged one by one: a tree or forest costs twice its
    epsilon for one replaced record, on the condition that `bounds` and `classes` were
    given (its fit overwrites them; `before` shows them); all others are uncovered.

    Parameters
    ----------
    estimator : estimator
        Fitted. Pipelines, voting, one-vs-rest, multi-output, chained, bagged, stacked
        and target-transforming estimators of scikit-learn are looked into, and
        `FrozenEstimator`. A grid search of scikit-learn is always uncovered, since it
        selects by scores without noise.
    before : estimator, default=None
        The same estimator before its fit, such as the one that was cloned.

    Returns
    -------
    PrivacyReport
        With `guarantee`, `steps`, `to_markdown()` and `to_dict()`.

    Raises
    ------
    sklearn.exceptions.NotFittedError
        If the estimator is not fitted.
    ValueError
        If the steps' neighbouring relations differ.

    See Also
    --------
    PrivacyLedger : The cost of all fits, not of one fitted object.

    Notes
    -----
    Data may only enter through `fit`: constants that were read from the data and passed
    to a constructor cannot be seen here. Arguments of what is not private itself are
    read as they are now: what was set after the fit says nothing of it, so fit again.

    A step that was fitted behind another fit of a private transformer, as in a pipeline
    whose second fit stopped half-way, is uncovered; where a step between hides that, it
    is listed as assumed that it was not. A pipeline out of `with_budget` is unfitted
    there. Of a model that is taken out of its pipeline, or fitted on what an encoder
    gave, it is listed as assumed that the cost of that encoder comes on top: but not
    where a step between, or a copy, hid that there was one.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import MinMaxScaler, PolynomialFeatures
    >>> from fairpriv_sklearn.privacy import privacy_report
    >>> X = np.array([[0.0], [1.0]])
    >>> report = privacy_report(
    ...     make_pipeline(MinMaxScaler(), PolynomialFeatures()).fit(X)
    ... )
    >>> [(step.name, step.status) for step in report.steps]
    [('minmaxscaler', 'uncovered'), ('polynomialfeatures', 'public')]
    >>> report.guarantee.epsilon
    inf
    """
    fits("estimator", estimator)
    if before is not None:
        fits("before", before)
    check_is_fitted(estimator)
    steps = [one.step for one in found_in(estimator, before)]
    return PrivacyReport(type(estimator).__name__, total_of(steps), tuple(steps))


def guarantee_of(estimator, *, before=None) -> PrivacyGuarantee | None:
    """Return the guarantee of a fitted estimator, None if no part of it has one.

    So it is where private models are put together in a way that is not accounted for,
    as by calibration in folds: `privacy_report` says what is not covered, and why.

    Parameters
    ----------
    estimator : estimator
        Looked into as by `privacy_report`.
    before : estimator, default=None
        The same before its fit.

    Returns
    -------
    PrivacyGuarantee or None
        Of all steps composed, as `privacy_report` has it.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.pipeline import make_pipeline
    >>> from fairpriv_sklearn.linear_model import DPLinearRegression
    >>> from fairpriv_sklearn.preprocessing import DPTableEncoder
    >>> from fairpriv_sklearn.privacy import guarantee_of
    >>> X = np.linspace(-1, 1, 1000).reshape(500, 2)
    >>> encoder = DPTableEncoder(epsilon=0.5)
    >>> model = DPLinearRegression(epsilon=0.5, target_bounds=(-1, 1))
    >>> both = guarantee_of(make_pipeline(encoder, model).fit(X, X[:, 0]))
    >>> bool(0.5 < both.epsilon < 1.0)
    True
    """
    fits("estimator", estimator)
    return composed(found_in(estimator, before))


def _prices(step: StepPrivacy) -> tuple[str, str]:
    if step.guarantee is None:
        return ("0", "0") if step.status == "public" else ("inf", "-")
    epsilon = math.inf if step.status == "uncovered" else step.guarantee.epsilon
    return round_up(epsilon), round_up(step.guarantee.delta)
