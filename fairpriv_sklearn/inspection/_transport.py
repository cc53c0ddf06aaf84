"""The maps of a barycenter repair."""

from typing import Self

import numpy as np

from .._shared.arguments import checked, having, listed, position, word
from .._shared.figures import footnote, group_name, legend, new_axes, style


class TransportDisplay:
    """Where a repair sends the scores of each group.

    One curve per group: the mean of the repaired score given the score. The band
    around it holds all values to which a score may be sent at random.

    Parameters
    ----------
    grid : ndarray of shape (n_points,)
        Scores before the repair, increasing.
    maps : ndarray of shape (n_groups, n_points)
        Mean scores after the repair.
    groups : list
        Groups, one for each curve.
    low, high : ndarray of shape (n_groups, n_points) or None, default=None
        Ends of the bands.
    note : str, default=""
        Small print below the picture.

    Attributes
    ----------
    ax_ : Axes
    figure_ : Figure
    lines_ : list of Line2D
        Curves, in the order of `groups`.

    See Also
    --------
    GroupDistributionDisplay : The distributions before and after.

    Examples
    --------
    >>> import numpy as np
    >>> from fairpriv_sklearn.inspection import TransportDisplay
    >>> display = TransportDisplay(
    ...     grid=np.array([0.0, 1.0]),
    ...     groups=["a", "b"],
    ...     maps=np.array([[0.1, 0.8], [0.0, 1.0]]),
    ... )
    >>> display.maps[0] - display.grid
    array([ 0.1, -0.2])
    """

    def __init__(self, *, grid, maps, groups, low=None, high=None, note="") -> None:
        self.grid = grid
        self.maps = maps
        self.groups = groups
        self.low = low
        self.high = high
        self.note = note

    @classmethod
    @checked(estimator=having("a fitted barycenter estimator", "transports_"))
    def from_estimator(cls, estimator, *, column=0, ax=None, **kwargs):
        """Draw the maps of a fitted barycenter estimator.

        Parameters
        ----------
        estimator : DPBarycenterRegressor or DPBarycenterTransformer
            Fitted.
        column : int, default=0
            Which score column, for a transformer of several.
        ax : Axes or None, default=None
            None: a new figure.
        **kwargs : dict
            Keywords of :class:`matplotlib.lines.Line2D` for all lines.

        Returns
        -------
        display : TransportDisplay
            Drawn.

        Notes
        -----
        The maps follow from the released counts: the picture costs no further privacy.
        """
        groups = list(np.asarray(estimator.groups_).tolist())
        note = "Computed from the noisy counts alone: costs no further privacy."
        column = position("column", column, len(estimator.transports_))
        transport = estimator.transports_[column]
        if estimator.output_[column] != "continuous":
            return cls.from_transport(
                transport, groups=groups, note=note, ax=ax, **kwargs
            )
        grid = transport.grid
        codes = np.arange(len(groups))[:, None] + np.zeros(len(grid), dtype=np.int64)
        maps = [estimator._maps[column](grid, code) for code in codes]
        display = cls(grid=grid, maps=np.array(maps), groups=groups, note=note)
        return display.plot(ax=ax, **kwargs)

    @classmethod
    @checked(
        transport=having("a BarycenterResult", "conditional_mean"),
        groups=listed,
        note=word,
    )
    def from_transport(cls, transport, *, groups, note="", ax=None, **kwargs):
        """Draw the maps of a solved barycenter problem.

        Parameters
        ----------
        transport : transport.BarycenterResult
            Solution of :func:`fairpriv_sklearn.transport.fair_barycenter`.
        groups : list
            Groups, in the order of the solution.
        note : str, default=""
            Small print below the picture.
        ax : Axes or None, default=None
            None: a new figure.
        **kwargs : dict
            Keywords of :class:`matplotlib.lines.Line2D` for all lines.

        Returns
        -------
        display : TransportDisplay
            Drawn.
        """
        if len(groups) != len(transport.source_cdf):
            raise ValueError("groups must be as many as those of transport.")
        # Scores live on the points with mass; an output grid may be finer
        points = np.flatnonzero(transport.source_pmf.sum(axis=0) > 0)
        grid, maps = transport.grid[points], transport.conditional_mean[:, points]
        low, high = maps.copy(), maps.copy()
        for a, plan in enumerate(transport.couplings):
            position = points.searchsorted(plan.source)
            targets = transport.grid[plan.target]
            np.minimum.at(low[a], position, targets)
            np.maximum.at(high[a], position, targets)
        shown = cls(grid=grid, maps=maps, groups=groups, low=low, high=high, note=note)
        return shown.plot(ax=ax, **kwargs)

    def plot(self, *, ax=None, **kwargs) -> Self:
        """Draw the maps, over the diagonal that leaves every score in place.

        Parameters
        ----------
        ax : Axes or None, default=None
            None: a new figure.
        **kwargs : dict
            Keywords of :class:`matplotlib.lines.Line2D` for all lines.

        Returns
        -------
        display : TransportDisplay
            Drawn.
        """
        (self.ax_,), self.figure_ = new_axes(ax)
        ends = self.grid[[0, -1]]
        self.ax_.plot(ends, ends, color="0.6", linewidth=1, label="unchanged")
        self.lines_ = []
        for a, group in enumerate(self.groups):
            look = style(a, len(self.grid), kwargs)
            self.lines_ += self.ax_.plot(
                self.grid, self.maps[a], label=group_name(group), **look
            )
            if self.low is not None:
                shade = {"color": look["color"], "alpha": 0.12, "linewidth": 0}
                self.ax_.fill_between(self.grid, self.low[a], self.high[a], **shade)
        self.ax_.set(
            xlabel="score before (units of the target)",
            ylabel="score after (units of the target)",
            title="Where scores are sent",
        )
        self.ax_.grid(alpha=0.25)
        legend(self.ax_, ax is None, "group")
        if self.note:
            footnote(self.ax_, self.note)
        return self
