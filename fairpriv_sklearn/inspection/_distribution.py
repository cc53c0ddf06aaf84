"""Distribution functions of the scores in each group."""

from functools import partial
from typing import Self

import numpy as np
from sklearn.utils import assert_all_finite

from .._shared.arguments import checked, having, numbers, one_of, optional
from .._shared.domain import same_length
from .._shared.figures import NOT_PRIVATE, footnote, group_name, legend, new_axes, style
from ..metrics import group_cdfs, group_codes, group_predictions

_in_order = partial(sorted, key=lambda group: (str(type(group)), group))
_PREDICTS = having("a fitted estimator", "predict")


class GroupDistributionDisplay:
    r"""Distribution functions of the scores in each group, before and after.

    .. math:: F_a(t) = P(\hat y \le t \mid a)

    The largest vertical distance between two curves is the Kolmogorov-Smirnov parity
    difference, which the titles state. The picture shows the data as they are, and
    says so: it is not private.

    Parameters
    ----------
    groups : list
        Groups, one for each curve.
    values : list of ndarray of shape (n_points,)
        Increasing scores, one array for each panel.
    cdfs : list of ndarray of shape (n_groups, n_points)
        Distribution functions at these scores, one array for each panel.
    names : list of str
        Title of each panel.
    score_name : str, default="score"
        Label of the horizontal axis, with the unit if there is one.

    Attributes
    ----------
    axes_ : ndarray of Axes
    figure_ : Figure
    lines_ : list of list of Line2D
        Curves of each panel, in the order of `groups`.

    See Also
    --------
    fairpriv_sklearn.metrics.ks_parity_difference : The number in the titles.
    TransportDisplay : The map from one panel to the other.

    Examples
    --------
    >>> import numpy as np
    >>> from fairpriv_sklearn.inspection import GroupDistributionDisplay
    >>> display = GroupDistributionDisplay(
    ...     groups=["a", "b"],
    ...     values=[np.array([0.0, 1.0])],
    ...     cdfs=[np.array([[0.5, 1.0], [0.2, 1.0]])],
    ...     names=["scores"],
    ... )
    >>> display.differences
    [0.3]
    """

    def __init__(self, *, groups, values, cdfs, names, score_name="score") -> None:
        self.groups = groups
        self.values = values
        self.cdfs = cdfs
        self.names = names
        self.score_name = score_name

    @property
    def differences(self):
        """Largest distance between two curves of each panel."""
        return [float(np.max(np.ptp(cdf, axis=0))) for cdf in self.cdfs]

    @classmethod
    @checked(before=numbers, after=optional(numbers))
    def from_predictions(
        cls,
        before,
        after=None,
        *,
        sensitive_features,
        score_name="score",
        ax=None,
        **kwargs,
    ):
        """Compute and draw the distributions of given scores.

        Parameters
        ----------
        before : array-like of shape (n_samples,)
            Scores.
        after : array-like of shape (n_samples,) or None, default=None
            Scores of the same rows after a repair, for a second panel.
        sensitive_features : array-like of shape (n_samples,) or (n_samples, n_columns)
            One label per row, or several columns whose intersections are the groups.
        score_name : str, default="score"
            Label of the horizontal axis.
        ax : Axes, sequence of Axes or None, default=None
            As many axes as panels. None: a new figure.
        **kwargs : dict
            Keywords of :class:`matplotlib.lines.Line2D` for all lines.

        Returns
        -------
        display : GroupDistributionDisplay
            Drawn.
        """
        groups, codes = group_codes(sensitive_features, _in_order)
        drawn = [_checked_cdfs("before", before, codes)]
        if after is not None:
            drawn.append(_checked_cdfs("after", after, codes))
        values, cdfs = map(list, zip(*drawn, strict=True))
        names = ["Predictions"] if after is None else ["Before", "After"]
        display = cls(
            groups=groups, values=values, cdfs=cdfs, names=names, score_name=score_name
        )
        return display.plot(ax=ax, **kwargs)

    @classmethod
    @checked(
        estimator=_PREDICTS,
        estimator_before=optional(_PREDICTS),
        response_method=one_of("predict", "predict_proba", "decision_function"),
    )
    def from_estimator(
        cls,
        estimator,
        X,
        *,
        sensitive_features,
        estimator_before=None,
        response_method="predict",
        score_name="prediction",
        ax=None,
        **kwargs,
    ):
        """Compute and draw the distributions of an estimator's predictions.

        Parameters
        ----------
        estimator : estimator
            Fitted. It is handed the sensitive features if its method takes them.
        X : array-like of shape (n_samples, n_features)
            Rows to predict.
        sensitive_features : array-like of shape (n_samples,) or (n_samples, n_columns)
            One label per row, or several columns whose intersections are the groups.
        estimator_before : estimator or None, default=None
            Fitted estimator without the repair, for a panel to compare with.
        response_method : {"predict", "predict_proba", "decision_function"}, \
                default="predict"
            With ``"predict_proba"`` the probability of the second of two classes.
        score_name : str, default="prediction"
            Label of the horizontal axis.
        ax : Axes, sequence of Axes or None, default=None
            As many axes as panels. None: a new figure.
        **kwargs : dict
            Keywords of :class:`matplotlib.lines.Line2D` for all lines.

        Returns
        -------
        display : GroupDistributionDisplay
            Drawn.
        """
        same_length(X, group_codes(sensitive_features)[1])
        models = [m for m in (estimator_before, estimator) if m is not None]
        scores = [
            group_predictions(model, X, sensitive_features, response_method)
            for model in models
        ]
        if any(np.asarray(answers).dtype.kind in "OUS" for answers in scores):
            raise ValueError(
                "The predictions are labels, which have no distribution function; "
                'response_method="predict_proba" draws the probability of the second '
                "of two classes."
            )
        shown = {"score_name": score_name, "ax": ax, **kwargs}
        return cls.from_predictions(
            *scores, sensitive_features=sensitive_features, **shown
        )

    def plot(self, *, ax=None, **kwargs) -> Self:
        """Draw the distributions.

        Parameters
        ----------
        ax : Axes, sequence of Axes or None, default=None
            As many axes as panels. None: a new figure.
        **kwargs : dict
            Keywords of :class:`matplotlib.lines.Line2D` for all lines.

        Returns
        -------
        display : GroupDistributionDisplay
            Drawn.
        """
        self.axes_, self.figure_ = new_axes(ax, len(self.values))
        self.lines_ = []
        panels = zip(self.axes_, self.values, self.cdfs, strict=True)
        for panel, (axes, values, cdf) in enumerate(panels):
            lines = []
            for a, group in enumerate(self.groups):
                look, name = style(a, len(values), kwargs), group_name(group)
                lines += axes.step(values, cdf[a], where="post", label=name, **look)
            self.lines_.append(lines)
            axes.set_title(
                f"{self.names[panel]}: largest distance {self.differences[panel]:.3f}"
            )
            axes.set_xlabel(self.score_name)
            axes.grid(alpha=0.25)
        self.axes_[0].set_ylabel("share of the group at or below")
        self.axes_[0].set_ylim(-0.02, 1.02)
        legend(self.axes_[-1], ax is None, "group", loc="lower right")
        footnote(self.axes_[0], NOT_PRIVATE)
        return self


def _checked_cdfs(name, scores, codes):
    """Distribution functions of scores, if these are finite and one for each row."""
    scores = np.asarray(scores, dtype=np.float64).ravel()
    if len(scores) != len(codes):
        raise ValueError(
            f"{name} and sensitive_features must have the same number of rows, got "
            f"{len(scores)} and {len(codes)}."
        )
    assert_all_finite(scores, input_name=name)
    return group_cdfs(scores, codes)
