"""Whether the callbacks that a user has given can be pickled, found out before the rest is."""

from __future__ import annotations

import io
import pickle
from collections.abc import Callable, Mapping
from typing import Any

from fredfw.errors import InputError


class _Probe(pickle.Pickler):
    """Pickles what callbacks hold, up to the networks, which would ask about their callbacks in turn."""

    def __init__(self, network: type) -> None:
        super().__init__(io.BytesIO(), protocol=pickle.HIGHEST_PROTOCOL)
        self._network = network

    def persistent_id(self, obj: Any) -> int | None:
        """Return something for what is not to be looked into."""
        return 0 if isinstance(obj, self._network) else None


def check_picklable(callbacks: Mapping[str, Callable[[], object]], network: type) -> None:
    """Make sure that ``callbacks``, by what they are for, can be pickled.

    Args:
        callbacks: What is to be pickled.
        network: Class of the objects that they may hold and that are not looked into.

    Raises:
        InputError: One cannot; names it.
    """
    try:
        _Probe(network).dump(list(callbacks.values()))
    except Exception:  # whatever an object's own methods raise
        for what, callback in callbacks.items():
            try:
                _Probe(network).dump(callback)
            except Exception as error:
                raise InputError(
                    f"the callback {callback!r} of {what} cannot be pickled: {error}",
                    key="on_complete",
                    accepted="functions of a module, methods of objects that can be pickled, partials of these",
                ) from error
        raise
