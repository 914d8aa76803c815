"""A client of Tollgate, an exact rate limiter that many processes share.

`Tollgate` is for threads, `AsyncTollgate` for asyncio; both have the same methods.
They follow the contract in `docs/clients.md` of the repository, whose rules the
comments in this package cite by number.
"""

from ._answers import Count, Decision, Failure, HoldAnswer
from ._async_client import AsyncHold, AsyncTollgate
from ._client import Hold, Tollgate
from ._keys import Attributes, attributes_of
from ._limited import RateLimited
from ._settings import OnFailure
from ._version import __version__

__all__ = [
    "AsyncHold",
    "AsyncTollgate",
    "Attributes",
    "Count",
    "Decision",
    "Failure",
    "Hold",
    "HoldAnswer",
    "OnFailure",
    "RateLimited",
    "Tollgate",
    "__version__",
    "attributes_of",
]
