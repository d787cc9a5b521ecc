"""What all tests have in common."""

from contextlib import suppress

with suppress(ImportError):  # the tests of third-party packages run without it
    from hypothesis import settings

    # How long an example takes depends on what else the machine does.
    settings.register_profile("untimed", deadline=None)
    settings.load_profile("untimed")
