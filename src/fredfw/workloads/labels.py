"""Names that time is charged to, and those of them that communication cannot have."""

from __future__ import annotations

COMPUTE = "compute"
"""What computations are charged to, whatever their label."""
BUBBLE = "bubble"
"""What waiting for another rank's computation is charged to."""
RESERVED = frozenset({COMPUTE, BUBBLE})
"""Labels that would hide communication."""
ACCEPTED = "a word for what is communicated, such as 'dp'; not 'compute' or 'bubble', which are reserved"
EMPTY = "a word, such as 'compute' or 'dp'"
