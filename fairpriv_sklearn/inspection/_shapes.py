"""What an additive model makes of each column of a table."""

import math
from typing import Self

import numpy as np
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from .._shared.arguments import checked, each, listed, number, optional, position, word
from .._shared.figures import families, new_axes, picture_text, style

_POINTS = 201


class AdditiveShapesDisplay:
    """Contribution of each column to the score of a linear model on an encoded table.

    Parameters
    ----------
    names : list of str
        Columns of the table.
    values : list of array-like
        Where each curve is drawn: numbers, or names of categories.
    contributions : list of ndarray
        Contribution of the column at its values, in units of the score, less its mean
        over them.
    errors : list of ndarray, default=None
        Standard deviations of the errors of the contributions, by the noise and by
        who happens to be in the table, against what the model would find with these
        columns in the whole population; see `coef_interval` of the linear models.

    Attributes
    ----------
    axes_ : ndarray of Axes
    figure_ : Figure

    Notes
    -----
    Everything drawn follows from what the encoder and the model released: it costs no
    further budget. A number is drawn within its learnt range, between the quantiles of
    1 % and 99 %. Not drawn is what missing cells, categories that the encoder does not
    show, and products of columns (`interactions` of the encoder) add.

    Examples
    --------
    >>> from fairpriv_sklearn.inspection import AdditiveShapesDisplay
    >>> display = AdditiveShapesDisplay(
    ...     names=["age"], values=[[20, 40]], contributions=[[-1.0, 1.0]]
    ... )
    >>> display.names
    ['age']
    """

    @checked(names=listed, values=listed, contributions=listed)
    def __init__(self, *, names, values, contributions, errors=None) -> None:
        self.names = names
        self.values = values
        self.contributions = contributions
        self.errors = errors

    @classmethod
    @checked(columns=optional(each(word)))
    def from_estimator(cls, estimator, *, columns=None, output=0, ax=None, **kwargs):
        """Compute the curves of a fitted pipeline and draw them.

        Parameters
        ----------
        estimator : Pipeline
            A fitted :class:`~fairpriv_sklearn.preprocessing.DPTableEncoder` and a
            fitted linear model.
        columns : list of str, default=None
            Which columns. None: all of which the encoder shows numbers or categories.
        output : int, default=0
            Which output of a model with several classes.
        ax : array of Axes, default=None
            One for each column; None makes a figure.
        **kwargs : dict
            For matplotlib's `plot`.

        Returns
        -------
        display : AdditiveShapesDisplay
        """
        if not (isinstance(estimator, Pipeline) and len(estimator.steps) == 2):
            raise ValueError(
                "estimator must be a pipeline of a table encoder and a linear model."
            )
        encoder, model = estimator[0], estimator[-1]
        if not hasattr(encoder, "shape_points"):
            raise ValueError(
                "The first step of estimator must be a DPTableEncoder, got "
                f"{type(encoder).__name__}."
            )
        check_is_fitted(model)
        coef = np.atleast_2d(model.coef_)
        coef = coef[position("output", output, len(coef))]
        covariance = getattr(model, "coef_covariance_", None)
        if covariance is not None:
            covariance = covariance.reshape(-1, len(coef), len(coef))[output]
        chosen = columns
        if columns is None:  # those of whose cells nothing is shown have no curve
            shown = encoder.feature_slices_
            chosen = [name for name in shown if len(encoder.shape_points(name, 2)[0])]
        if not chosen:
            raise ValueError("columns must list at least one column.")
        names, values, curves, errors = [], [], [], []
        for name in chosen:
            if name not in encoder.feature_slices_:
                raise ValueError(f"columns names {name!r}, which the encoder left out.")
            where, rows = encoder.shape_points(name, _POINTS)
            at = encoder.feature_slices_[name]
            centred = rows - rows.sum(axis=0) / max(len(rows), 1)
            names.append(name)
            values.append(where)
            curves.append(centred @ coef[at])
            if covariance is not None:
                part = covariance[at, at]
                errors.append(np.sqrt(np.einsum("ij,jk,ik->i", centred, part, centred)))
        display = cls(
            names=names, values=values, contributions=curves, errors=errors or None
        )
        return display.plot(ax=ax, **kwargs)

    @checked(level=number(0, 1, closed="neither"))
    def plot(self, *, ax=None, level=0.95, **kwargs) -> Self:
        """Draw the curves.

        Parameters
        ----------
        ax : array of Axes, default=None
            One for each column; None makes a figure.
        level : float, default=0.95
            Coverage of the bands on average over a curve, where errors are known.
        **kwargs : dict
            For matplotlib's `plot`.

        Returns
        -------
        self : object
        """
        from scipy.stats import norm

        if ax is None:
            from .._shared.figures import _pyplot

            n_columns = min(4, len(self.names))
            n_rows = math.ceil(len(self.names) / n_columns)
            size = 3.2 * n_columns, 2.6 * n_rows
            look = {"sharey": True, "squeeze": False, "layout": "constrained"}
            figure, grid = _pyplot().subplots(n_rows, n_columns, figsize=size, **look)
            axes = grid.ravel()
            for spare in axes[len(self.names) :]:
                spare.set_axis_off()
        else:
            axes, figure = new_axes(ax, len(self.names))
        width = norm.ppf(0.5 + level / 2)
        for i, name in enumerate(self.names):
            look = style(0, 0, kwargs) | {"marker": "", **kwargs}
            where, curve = self.values[i], np.asarray(self.contributions[i])
            error = None if self.errors is None else width * self.errors[i]
            if len(where) and isinstance(where[0], str):
                places = np.arange(len(where))
                axes[i].bar(places, curve, yerr=error, color=look["color"])
                said = [picture_text(category, most=20) for category in where]
                fonts = families("".join(said))
                axes[i].set_xticks(places, said, rotation=45, ha="right", family=fonts)
            else:
                axes[i].plot(where, curve, **look)
                axes[i].tick_params(axis="x", rotation=45)  # long numbers and dates
                if error is not None:
                    axes[i].fill_between(
                        where, curve - error, curve + error, alpha=0.25,
                        color=look["color"],
                    )  # fmt: skip
            axes[i].set_xlabel(picture_text(name), family=families(picture_text(name)))
        axes[0].set_ylabel("contribution\nto the score")
        self.axes_, self.figure_ = axes[: len(self.names)], figure
        return self
