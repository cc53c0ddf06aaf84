"""Error against disparity, for several privacy budgets."""

from itertools import product
from typing import Self

import numpy as np
from sklearn.base import clone, is_classifier
from sklearn.metrics import mean_squared_error, zero_one_loss
from sklearn.model_selection import train_test_split
from sklearn.utils import check_random_state

from .._shared.arguments import (
    calls,
    checked,
    count,
    each,
    fits,
    listed,
    number,
    numbers,
    optional,
    real,
    seed,
    word,
)
from .._shared.domain import same_length
from .._shared.figures import NOT_PRIVATE, footnote, legend, new_axes, style
from .._shared.nested import owners
from ..metrics import (
    demographic_parity_difference,
    group_predictions,
    ks_parity_difference,
)


class TradeoffDisplay:
    """Error against disparity, one curve for each privacy budget.

    Parameters
    ----------
    epsilon, disparity, error : array-like of shape (n_points,)
        The points. Those with the same epsilon are joined in the order given.
    error_name : str, default="error"
        Label of an axis, with the unit if there is one.
    disparity_name : str, default="disparity"
        Label of the other one.
    note : str, default="Not private: drawn from the data as they are."
        Small print below the picture.

    Attributes
    ----------
    ax_ : Axes
    figure_ : Figure
    lines_ : list of Line2D
        Curves, by increasing epsilon.

    Notes
    -----
    Errors and disparities are usually measured on test data as they are; the picture
    says that it is not private.

    Examples
    --------
    >>> from fairpriv_sklearn.inspection import TradeoffDisplay
    >>> display = TradeoffDisplay(
    ...     epsilon=[1, 1, 5], disparity=[0.1, 0.2, 0.1], error=[0.3, 0.2, 0.25]
    ... )
    >>> display.curve(1)
    (array([0.1, 0.2]), array([0.3, 0.2]))
    """

    @checked(epsilon=numbers, disparity=numbers, error=numbers)
    def __init__(
        self,
        *,
        epsilon,
        disparity,
        error,
        error_name="error",
        disparity_name="disparity",
        note=NOT_PRIVATE,
    ) -> None:
        self.epsilon = np.asarray(epsilon, dtype=np.float64)
        self.disparity = np.asarray(disparity, dtype=np.float64)
        self.error = np.asarray(error, dtype=np.float64)
        self.error_name = error_name
        self.disparity_name = disparity_name
        self.note = note

    @checked(epsilon=real)
    def curve(self, epsilon):
        """Return the points of one budget.

        Parameters
        ----------
        epsilon : float
            The budget, one of those given.

        Returns
        -------
        disparity, error : ndarray of shape (n_points_of_the_curve,)
            In the order given.
        """
        rows = self.epsilon == epsilon
        return self.disparity[rows], self.error[rows]

    @classmethod
    @checked(
        estimator=fits,
        epsilons=each(number(0, np.inf, closed="right")),
        param_name=word,
        param_values=listed,
        error=optional(calls),
        disparity=optional(calls),
        n_repeats=count(1),
        test_size=number(0, 1, closed="neither"),
        random_state=seed,
    )
    def from_estimator(
        cls,
        estimator,
        X,
        y,
        *,
        sensitive_features,
        epsilons,
        param_name,
        param_values,
        error=None,
        disparity=None,
        n_repeats=1,
        test_size=0.3,
        random_state=None,
        ax=None,
        **kwargs,
    ):
        """Fit an estimator for every budget and parameter, and draw test results.

        Parameters
        ----------
        estimator : estimator
            With the parameters `epsilon` and `param_name`; cloned for every fit.
        X : array-like of shape (n_samples, n_features)
            Features.
        y : array-like of shape (n_samples,)
            Target.
        sensitive_features : array-like of shape (n_samples,) or (n_samples, n_columns)
            Handed to `fit` and `predict` unless the estimator reads them from `X`.
        epsilons : sequence of float
            Budgets, one for each curve.
        param_name : str
            Parameter that trades error for parity, such as ``"fairness_tolerance"``.
        param_values : sequence
            Its values, in the order in which they are joined.
        error, disparity : callable or None, default=None
            ``error(y_true, y_pred)`` and ``disparity(y_true, y_pred, *,
            sensitive_features)``. None: error rate and demographic parity difference
            for a classifier, mean squared error and Kolmogorov-Smirnov difference
            otherwise.
        n_repeats : int, default=1
            Random splits to average over.
        test_size : float, default=0.3
            Share of the rows to measure on.
        random_state : int, RandomState instance or None, default=None
            Fixes the splits; the noise of the fits is left as the estimator has it.
        ax : Axes or None, default=None
            None: a new figure.
        **kwargs : dict
            Keywords of :class:`matplotlib.lines.Line2D` for all lines.

        Returns
        -------
        display : TradeoffDisplay
            Drawn.

        Notes
        -----
        Every point is one more fit to the data and costs privacy; give the estimator a
        ledger to see how much. Arguments of all points, and `ax` and `**kwargs`, are
        checked before the first fit.
        """
        same_length(X, y, sensitive_features)
        classes = is_classifier(estimator)
        error = error or (zero_one_loss if classes else mean_squared_error)
        disparity = disparity or (
            demographic_parity_difference if classes else ks_parity_difference
        )
        points = list(product(epsilons, param_values))
        models = [
            clone(estimator).set_params(epsilon=epsilon, **{param_name: value})
            for epsilon, value in points
        ]
        # What is wrong with any of them, or with the picture, is said before a fit.
        for one in (one for model in models for one in owners(model).values()):
            if hasattr(one, "_check_arguments"):
                one._check_arguments()
        _try_to_draw(ax, kwargs)
        rng = check_random_state(random_state)
        measured = np.zeros((n_repeats, len(points), 2))
        for repeat in range(n_repeats):
            parts = train_test_split(
                *(X, y, sensitive_features),
                test_size=test_size,
                random_state=rng.randint(2**31 - 1),
            )
            for i, model in enumerate(map(clone, models)):
                measured[repeat, i] = _fit_and_measure(model, parts, disparity, error)
        mean_disparity, mean_error = measured.mean(axis=0).T
        display = cls(
            epsilon=[epsilon for epsilon, _ in points],
            disparity=mean_disparity,
            error=mean_error,
            error_name=error.__name__.replace("_", " "),
            disparity_name=disparity.__name__.replace("_", " "),
        )
        return display.plot(ax=ax, **kwargs)

    def plot(self, *, ax=None, **kwargs) -> Self:
        """Draw the curves.

        Parameters
        ----------
        ax : Axes or None, default=None
            None: a new figure.
        **kwargs : dict
            Keywords of :class:`matplotlib.lines.Line2D` for all lines.

        Returns
        -------
        display : TradeoffDisplay
            Drawn.
        """
        (self.ax_,), self.figure_ = new_axes(ax)
        self.lines_ = []
        for i, epsilon in enumerate(np.unique(self.epsilon)):
            label = "no noise" if np.isinf(epsilon) else f"{epsilon:g}"
            self.lines_ += self.ax_.plot(
                *self.curve(epsilon), label=label, **style(i, 0, kwargs)
            )
        self.ax_.set(
            xlabel=self.disparity_name,
            ylabel=self.error_name,
            title="Error against disparity",
        )
        self.ax_.grid(alpha=0.25)
        legend(self.ax_, ax is None, "epsilon")
        footnote(self.ax_, self.note)
        return self


def _try_to_draw(ax, kwargs) -> None:
    """Raise where lines of this kind cannot be drawn here."""
    _, figure = new_axes(ax)
    from matplotlib import pyplot
    from matplotlib.lines import Line2D

    if ax is None:
        pyplot.close(figure)
    Line2D([], [], **style(0, 0, kwargs))


def _fit_and_measure(model, parts, disparity, error):
    """Disparity and error on the test part, after a fit to the other."""
    X_fit, X_test, y_fit, y_test, a_fit, a_test = parts
    if getattr(model, "sensitive_features", None) is None:
        model.fit(X_fit, y_fit, sensitive_features=a_fit)
    else:  # it reads them from X
        model.fit(X_fit, y_fit)
    y_pred = group_predictions(model, X_test, a_test)
    return disparity(y_test, y_pred, sensitive_features=a_test), error(y_test, y_pred)
