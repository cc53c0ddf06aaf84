"""Pictures, after scikit-learn's Display API: the numbers first, the drawing second.

Every display keeps what it shows as attributes. The class methods ``from_...`` compute
the numbers and draw them; ``plot`` draws them again. Colours (Okabe and Ito), line
styles and markers change together, so that a picture can be read in grey.
"""

from fairpriv_sklearn._shared.figures import families, picture_text, printable
from fairpriv_sklearn.inspection._distribution import GroupDistributionDisplay
from fairpriv_sklearn.inspection._profile import PrivacyProfileDisplay
from fairpriv_sklearn.inspection._shapes import AdditiveShapesDisplay
from fairpriv_sklearn.inspection._tradeoff import TradeoffDisplay
from fairpriv_sklearn.inspection._transport import TransportDisplay

__all__ = [
    "AdditiveShapesDisplay",
    "GroupDistributionDisplay",
    "PrivacyProfileDisplay",
    "TradeoffDisplay",
    "TransportDisplay",
]
