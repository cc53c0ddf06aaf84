"""Pictures, after scikit-learn's Display API: the numbers first, the drawing second.

Every display keeps what it shows as attributes. The class methods ``from_...`` compute
the numbers and draw them; ``plot`` draws them again. Colours (Okabe and Ito), line
styles and markers change together, so that a picture can be read in grey.
"""

from .._shared.figures import families, picture_text, printable
from ._distribution import GroupDistributionDisplay
from ._profile import PrivacyProfileDisplay
from ._shapes import AdditiveShapesDisplay
from ._tradeoff import TradeoffDisplay
from ._transport import TransportDisplay

__all__ = [
    "AdditiveShapesDisplay",
    "GroupDistributionDisplay",
    "PrivacyProfileDisplay",
    "TradeoffDisplay",
    "TransportDisplay",
]
