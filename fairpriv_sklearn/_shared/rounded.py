"""Numbers with few digits that never promise more than they do."""

import math
from decimal import ROUND_CEILING, ROUND_FLOOR, Context

# An excess of so much is rounding error: 1.0000000001 should read 1, not 1.001.
_NOISE = 1e-9


def round_up(value: float, digits: int = 4) -> str:
    """Write a cost so that it never looks smaller than it is (beyond 1e-9).

    >>> round_up(1.23401), round_up(1.0), round_up(5.0000000000000004e-08)
    ('1.235', '1', '5e-08')
    """
    return _rounded(value * (1 - _NOISE), digits, ROUND_CEILING)


def round_down(value: float, digits: int = 4) -> str:
    """Write what is left, or is shown, so that it never looks larger (beyond 1e-9).

    >>> round_down(1.23499), round_down(1.0), round_down(0.49999)
    ('1.234', '1', '0.4999')
    """
    return _rounded(value * (1 + _NOISE), digits, ROUND_FLOOR)


def _rounded(value: float, digits: int, rounding: str) -> str:
    if not math.isfinite(value):
        return f"{value:g}"
    context = Context(prec=digits, rounding=rounding)
    return f"{float(context.create_decimal_from_float(float(value))):.{digits}g}"
