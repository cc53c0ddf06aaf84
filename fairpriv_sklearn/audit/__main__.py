"""Try to refute an estimator's privacy guarantee: a step of continuous integration.

The factory is a function without arguments. It returns the estimator, or a dictionary
with the arguments of fairpriv_sklearn.audit.audit_estimator: "estimator", "X", "y",
"sensitive_features", "claim", ... Where it gives no X, a table is simulated: 100 rows
of three numbers in [0, 1] with classes 0 and 1, and without groups.

exit codes: 0 not violated, 1 violated, 2 not conclusive, or the audit could not run
"""

import argparse
import importlib
import json
import os
import sys
import traceback
from pathlib import Path

from . import audit_estimator


def main(arguments=None) -> int:
    """Run the audit and return the exit code.

    Parameters
    ----------
    arguments : list of str or None, default=None
        None: those of the command line.

    Returns
    -------
    int
        0 not violated, 1 violated, 2 not conclusive or not run, 130 stopped by Ctrl-C.
    """
    parser = argparse.ArgumentParser(
        prog="python -m fairpriv_sklearn.audit",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("factory", help="module:function")
    parser.add_argument("--epsilon", type=float, help="the claim, if not the guarantee")
    parser.add_argument("--delta", type=float, help="of that claim (default: 0)")
    parser.add_argument("--neighboring", choices=["replace_one", "add_remove"])
    parser.add_argument("--max-seconds", type=float, default=60.0)
    parser.add_argument("--max-fits", type=int)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", action="store_true", help="print the report as JSON")
    parser.add_argument(
        "--allow-inconclusive",
        action="store_true",
        help="exit with 0 also where a bound did not reach half of the claim",
    )
    options = parser.parse_args(arguments)
    if options.delta is not None and options.epsilon is None:
        parser.error("--delta belongs to a claim: give its --epsilon as well")
    try:
        report = audit_estimator(**_audited(options))
    except KeyboardInterrupt:
        print("\nThe audit was stopped: it says nothing.", file=sys.stderr)
        return 130
    except (Exception, SystemExit) as error:  # a script that exits was no audit
        said = f"{type(error).__name__}: {error}{_place(error)}"
        print(f"The audit could not run: {said}", file=sys.stderr)
        return 2
    _show(json.dumps(report.to_dict(), indent=2) if options.json else str(report))
    if report.violated:
        return 1
    return 0 if report.conclusive or options.allow_inconclusive else 2


def _place(error: BaseException) -> str:
    """Where code that is not ours raised it: the text of a KeyError is a key."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    file = Path(last.filename)
    ours = file.is_relative_to(Path(__file__).parents[1])
    return "" if ours or not file.is_file() else f" ({file.name}, line {last.lineno})"


def _show(report: str) -> None:
    """Print the report; that nobody can read it does not change the exit code."""
    try:
        print(report, flush=True)
    except OSError as error:
        print(f"The report cannot be written: {error.strerror}", file=sys.stderr)
        # What is left of it is written again at the exit of Python.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _audited(options) -> dict:
    module, _, name = options.factory.partition(":")
    if not name:
        raise ValueError(
            f"factory must be module:function, got {options.factory!r}: an audit is of "
            "a model, and python -m fairpriv_sklearn takes a table."
        )
    if module.endswith(".py"):
        raise ValueError(
            f"factory must be module:function, not the name of a file: write "
            f"{Path(module).stem}:{name} in the folder of the file."
        )
    sys.path.insert(0, os.getcwd())
    made = getattr(importlib.import_module(module), name)()
    audited = dict(made) if isinstance(made, dict) else {"estimator": made}
    if "X" not in audited:
        audited |= _simulated()
    if options.epsilon is not None:
        audited["claim"] = (options.epsilon, options.delta or 0.0)
    if options.neighboring is not None:
        audited["neighboring"] = options.neighboring
    limits = {"max_seconds": options.max_seconds, "max_fits": options.max_fits}
    return {"random_state": options.seed, **limits, **audited}


def _simulated() -> dict:
    import numpy as np

    rng = np.random.default_rng(0)
    X = rng.uniform(size=(100, 3))
    return {"X": X, "y": (X[:, 0] + 0.2 * rng.normal(size=100) > 0.5).astype(int)}


if __name__ == "__main__":
    sys.exit(main())
