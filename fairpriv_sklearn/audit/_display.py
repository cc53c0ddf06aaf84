"""Lower bounds of an audit beside the claim."""

import math
from typing import Self

from .._shared.arguments import checked, having, listed, real
from .._shared.figures import footnote, new_axes, printable
from .._shared.rounded import round_down

_SHOWN = 12


class AuditDisplay:
    """Lower bounds on epsilon, pair by pair, beside what was claimed.

    Parameters
    ----------
    bounds : dict
        Name of a pair of tables to the lower bound on epsilon.
    claimed : float
        The claim.
    title : str, default=""
        Name of the estimator.
    violated : tuple of str, default=()
        Names of the pairs whose findings refute the claim.

    Attributes
    ----------
    ax_ : Axes
    figure_ : Figure

    Examples
    --------
    >>> from fairpriv_sklearn.audit import AuditDisplay
    >>> AuditDisplay(bounds={"twins": 0.4, "one row": 0.9}, claimed=1.0).largest
    'one row'
    """

    @checked(bounds=having("a dict", "items"), claimed=real, violated=listed)
    def __init__(self, *, bounds, claimed, title="", violated=()) -> None:
        self.bounds = dict(bounds)
        self.claimed = claimed
        self.title = title
        self.violated = tuple(violated)

    @property
    def largest(self):
        """Name of the pair with the largest bound."""
        return max(self.bounds, key=self.bounds.get, default=None)

    @classmethod
    @checked(report=having("an AuditReport", "findings", "bounds"))
    def from_report(cls, report, *, ax=None):
        """Draw an audit report.

        Parameters
        ----------
        report : AuditReport
            From `audit_estimator`.
        ax : Axes or None, default=None
            None: a new figure.

        Returns
        -------
        display : AuditDisplay
            Drawn.
        """
        violated = dict.fromkeys(f.pair for f in report.findings if f.violates)
        bounds = {name: math.inf for name in violated} | report.bounds
        claimed, title = report.claimed_epsilon, report.estimator
        display = cls(bounds=bounds, claimed=claimed, title=title, violated=violated)
        return display.plot(ax=ax)

    def plot(self, *, ax=None) -> Self:
        """Draw a bar for each pair and a line at the claim.

        Parameters
        ----------
        ax : Axes or None, default=None
            None: a new figure.

        Returns
        -------
        display : AuditDisplay
            Drawn.
        """
        (self.ax_,), self.figure_ = new_axes(ax)
        shown = sorted(self.bounds.items(), key=lambda one: one[1])[-_SHOWN:]
        finite = [bound for _, bound in shown if math.isfinite(bound)]
        claim = self.claimed if math.isfinite(self.claimed) else max(finite, default=0)
        right = 1.5 * claim or 1.0
        for i, (name, bound) in enumerate(shown):
            refuted = name in self.violated or bound > self.claimed * (1 + 1e-6)
            color = "#D55E00" if refuted else "#0072B2"
            self.ax_.barh(i, min(bound, right), color=color, height=0.7)
            if right < bound < math.inf:  # the edge is not where it ends
                said, end = f"{round_down(bound)} ", {"ha": "right", "va": "center"}
                self.ax_.text(right, i, said, color="white", **end)
        names = [printable(name, 40) for name, _ in shown]
        self.ax_.set_yticks(range(len(shown)), names)
        if math.isfinite(self.claimed):
            self.ax_.axvline(self.claimed, color="black", linestyle="--")
        self.ax_.set(
            xlim=(0, right),
            xlabel="lower bound on epsilon",
            title=printable(self.title, 48),
        )
        footnote(self.ax_, "Dashed: claimed. Orange: refutes it.\nNot private.")
        return self
