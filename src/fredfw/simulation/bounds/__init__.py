"""Lower bounds on times: of collectives on a fabric, whatever the algorithm, and of given schedules."""
