"""Names that time is charged to, and those of them that communication cannot have."""

COMPUTE = "compute"  # what computations are charged to, whatever their label
BUBBLE = "bubble"  # what waiting for another rank's computation is charged to
WAITING = "waiting"  # what waiting for a time is charged to where nothing else is said, such as for the start of a job
OWN = COMPUTE, BUBBLE, WAITING  # what is not communication, whatever the workload
RESERVED = frozenset({COMPUTE, BUBBLE})  # labels that would hide communication
ACCEPTED = "a word for what is communicated, such as 'dp'; not 'compute' or 'bubble', which are reserved"
EMPTY = "a word, such as 'compute' or 'dp'"
