"""Delta against epsilon of privacy guarantees."""

from typing import Self

import numpy as np

from .._shared.arguments import checked, each, having, number, numbers, optional
from .._shared.figures import legend, new_axes, printable, style

_FLOOR = 1e-12  # smallest delta shown
_GUARANTEE = having("a PrivacyGuarantee or several", "epsilon", "delta_at")
_OF_STEPS = "of a pipeline draw from_guarantees(privacy_report(pipeline).guarantee)"
_PLACES = optional(each(number(0, np.inf)))


class PrivacyProfileDisplay:
    r"""Delta against epsilon of one or several privacy guarantees.

    A guarantee is not one pair :math:`(\epsilon, \delta)` but a curve of them: below
    it nothing is promised. A dot marks the pair that the guarantee states.

    Parameters
    ----------
    epsilon : ndarray of shape (n_points,)
        Increasing values of epsilon.
    delta : ndarray of shape (n_guarantees, n_points)
        Smallest known delta at these values.
    names : list of str
        Names of the guarantees.
    stated : list of tuple of float
        The pair (epsilon, delta) that each guarantee states.

    Attributes
    ----------
    ax_ : Axes
    figure_ : Figure
    lines_ : list of Line2D
        Curves, in the order of `names`.

    See Also
    --------
    fairpriv_sklearn.privacy.PrivacyGuarantee : What is drawn.

    Examples
    --------
    >>> from fairpriv_sklearn.accounting import GaussianEvent
    >>> from fairpriv_sklearn.inspection import PrivacyProfileDisplay
    >>> from fairpriv_sklearn.privacy import PrivacyGuarantee
    >>> guarantee = PrivacyGuarantee.from_events(
    ...     [GaussianEvent(1.0, 0)],
    ...     delta=1e-5,
    ...     neighboring="replace_one",
    ...     mechanism="one Gaussian release",
    ... )
    >>> PrivacyProfileDisplay(
    ...     epsilon=[0.0],
    ...     delta=[[guarantee.delta_at(0.0)]],
    ...     names=["one release"],
    ...     stated=[(guarantee.epsilon, guarantee.delta)],
    ... ).delta.round(3)
    array([[0.383]])
    """

    @checked(epsilon=numbers, delta=numbers)
    def __init__(self, *, epsilon, delta, names, stated) -> None:
        self.epsilon = np.asarray(epsilon, dtype=np.float64)
        self.delta = np.asarray(delta, dtype=np.float64)
        self.names = names
        self.stated = stated

    @classmethod
    @checked(epsilons=_PLACES)
    def from_guarantees(cls, guarantees, *, epsilons=None, ax=None, **kwargs):
        """Compute and draw the profiles of guarantees.

        Parameters
        ----------
        guarantees : PrivacyGuarantee, list, or dict of str to PrivacyGuarantee
            What to draw; the keys of a dict are the names.
        epsilons : array-like of shape (n_points,) or None, default=None
            Where to evaluate. None: from 0 to twice the largest finite epsilon stated.
        ax : Axes or None, default=None
            None: a new figure.
        **kwargs : dict
            Keywords of :class:`matplotlib.lines.Line2D` for all lines.

        Returns
        -------
        display : PrivacyProfileDisplay
            Drawn.
        """
        if not isinstance(guarantees, dict):
            if not isinstance(guarantees, list | tuple):
                guarantees = [guarantees]
            guarantees = {f"guarantee {i}": g for i, g in enumerate(guarantees, 1)}
        for guarantee in guarantees.values():
            _GUARANTEE("guarantees", guarantee)
        stated = [(g.epsilon, g.delta) for g in guarantees.values()]
        if epsilons is None:
            finite = [epsilon for epsilon, _ in stated if np.isfinite(epsilon)]
            epsilons = np.linspace(0.0, 2 * max(finite, default=0.5), 81)
        display = cls(
            epsilon=epsilons,
            delta=[[g.delta_at(e) for e in epsilons] for g in guarantees.values()],
            names=list(guarantees),
            stated=stated,
        )
        return display.plot(ax=ax, **kwargs)

    @classmethod
    @checked(estimator=having(f"fitted, with a guarantee ({_OF_STEPS})", "privacy_"))
    def from_estimator(cls, estimator, *, epsilons=None, ax=None, **kwargs):
        """Compute and draw the profile of a fitted estimator's guarantee.

        Parameters
        ----------
        estimator : estimator
            Fitted, with the attribute `privacy_`.
        epsilons : array-like of shape (n_points,) or None, default=None
            Where to evaluate. None: from 0 to twice the epsilon stated.
        ax : Axes or None, default=None
            None: a new figure.
        **kwargs : dict
            Keywords of :class:`matplotlib.lines.Line2D` for all lines.

        Returns
        -------
        display : PrivacyProfileDisplay
            Drawn.
        """
        name = type(estimator).__name__
        return cls.from_guarantees(
            {name: estimator.privacy_}, epsilons=epsilons, ax=ax, **kwargs
        )

    def plot(self, *, ax=None, **kwargs) -> Self:
        """Draw the profiles, delta on a logarithmic axis.

        Parameters
        ----------
        ax : Axes or None, default=None
            None: a new figure.
        **kwargs : dict
            Keywords of :class:`matplotlib.lines.Line2D` for all lines.

        Returns
        -------
        display : PrivacyProfileDisplay
            Drawn.
        """
        (self.ax_,), self.figure_ = new_axes(ax)
        self.lines_ = []
        curves = zip(self.names, self.delta, self.stated, strict=True)
        for i, (name, delta, (epsilon, stated_delta)) in enumerate(curves):
            look = style(i, len(self.epsilon), kwargs) | {"label": printable(name, 40)}
            # Zero has no logarithm: the curve leaves the picture at its lower edge
            shown = np.maximum(delta, _FLOOR**2)
            self.lines_ += self.ax_.plot(self.epsilon, shown, **look)
            if np.isfinite(epsilon) and stated_delta > 0:
                self.ax_.plot(
                    epsilon, stated_delta, "o", color=look["color"], markersize=9
                )
        self.ax_.set_yscale("log")
        self.ax_.set(
            xlabel="epsilon",
            ylabel="delta",
            title="Privacy profile: lower is better",
            ylim=(_FLOOR, 2.0),
        )
        self.ax_.grid(alpha=0.25)
        legend(self.ax_, ax is None)
        return self
