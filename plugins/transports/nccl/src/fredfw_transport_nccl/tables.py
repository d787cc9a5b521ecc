"""The numbers: NCCL's published constants, and what is fitted to measurements on top of them."""

from collections.abc import Collection, Mapping
from functools import cache
from importlib.resources import files
from types import MappingProxyType
from typing import Any

from fredfw import File
from fredfw.errors import InputError, placed
from fredfw.tables import parse_toml

LL, LL128, SIMPLE = range(3)
PROTOCOLS = "LL", "LL128", "Simple"
MICROSECOND, GIGABYTE = 1e-6, 1e9
PUBLISHED, FITTED = "published.toml", "fitted.toml"  # files of this package


class Fit:
    """What is fitted to measurements of one family of GPUs; the rest is published."""

    def __init__(self, entry: Mapping[str, Any], own: Collection[str] = ()) -> None:
        networks = entry["networks"]
        # Where it was not measured, a message alone is as on the network on which it was.
        sends = next((one["sends"] for one in networks.values() if "sends" in one), 1.0)
        # Seconds before its first step, by pattern; ``all-reduce``: those that are not there. As these, blocks that the
        # last receive of a ring adds, for it overlaps no send.
        self.launch: dict[str, float] = {name: one * MICROSECOND for name, one in entry["launch"].items()}
        self.tail: dict[str, float] = dict(entry["tail"])
        # By protocol, what the published latency of a hop inside a node is multiplied by.
        self.hops = entry["hops"]["ll"], entry["hops"]["ll"], entry["hops"]["simple"]
        self.messages = entry["messages"]  # share of the rate of links that all-to-alls reach
        # The same of one message alone, which files of the first release do not have.
        self.sends = entry.get("sends", 1.0)
        self.nvls = entry["nvls"]  # what the published latency of a collective in the switch is multiplied by
        # By network, what the published latency of a hop between nodes is multiplied by, the share of the rate of
        # network cards that is reached, and the share of that that a message alone reaches.
        self.networks = {name: (one["hops"], one["nic"], one.get("sends", sends)) for name, one in networks.items()}
        self.own = own  # networks that its GPUs were measured with; others are as with other GPUs

    def between(self, network: str) -> tuple[float, float, float]:
        """Return what ``networks`` has for ``network``, or for the one that it is like; as published without either."""
        return self.networks.get(self.network_of(network), (1.0, 1.0, 1.0))

    def network_of(self, network: str) -> str:
        known: Mapping[str, Any] = published()["networks"]
        while network not in self.networks and "like" in known[network]:
            network = known[network]["like"]
        return network

    def launch_of(self, pattern: str) -> float:
        return self.launch.get(pattern, self.launch["all-reduce"])

    def tail_of(self, pattern: str) -> float:
        return self.tail.get(pattern, self.tail["all-reduce"])


def published() -> Mapping[str, Any]:
    """Return ``published.toml``; microseconds and 10^9 bytes per second."""
    return _read(PUBLISHED)


def families() -> tuple[str, ...]:
    return tuple(published()["families"])


def networks() -> tuple[str, ...]:
    return tuple(published()["networks"])


def origin(family: str) -> str:
    """Return the family that the constants of ``family`` were fitted to: itself, unless nothing was."""
    return str(published()["families"][family].get("like", family))


@cache
def fitted(family: str, without: str | None = None, file: File | None = None) -> Fit:
    """Return what the package or a ``file`` has for a family, fitted to all sources, or to all but one."""
    written, source = _written(file), origin(family)
    try:
        mine = written[source]["constants"]
        if without is not None:
            known = written[source].get("without", {})
            if without not in known:
                accepted = ", ".join(known) or "none"
                raise InputError(f"there is no fit without {without!r}", key="without", accepted=accepted)
            mine = known[without]
        # A network that the family was not measured on is as it is with another one.
        others = [written[other]["constants"] for other in families() if other != source and other in written]
        networks = {name: one for entry in (*others, mine) for name, one in _networks(entry).items()}
        return Fit({**mine, "networks": networks}, _networks(mine))
    except (KeyError, TypeError, AttributeError) as error:
        message = f"has no constants of {family}, or not all of them: {error}"
        path = None if file is None else file.path
        raise InputError(message, file=path, key="constants", accepted=_ACCEPTED) from None


def given_families(file: File) -> tuple[str, ...]:
    written = _written(file)
    if not (found := tuple(family for family in families() if family in written)):
        message = f"has no constants of {' or '.join(families())}"
        raise InputError(message, file=file.path, key="constants", accepted=_ACCEPTED)
    return found


def ratio_error(file: File | None, family: str) -> float | None:
    """Return how far ratios of two predictions are off, as a share; ``None`` where nothing was held out."""
    found: float | None = _written(file).get(origin(family), {}).get("ratios")
    return found


def sources(file: File | None = None) -> tuple[str, ...]:
    return tuple(str(one).rpartition(" ")[2] for one in _written(file).get("sources", ()))


@cache
def _written(file: File | None) -> Mapping[str, Any]:
    if file is None:
        return _read(FITTED)
    with placed(file=file.path, key="constants"):
        return parse_toml(file.text(), accepted=_ACCEPTED)


def _networks(entry: Mapping[str, Any]) -> dict[str, Any]:
    return dict(entry.get("networks", {"infiniband": entry["network"]} if "network" in entry else {}))


_ACCEPTED = "a file that the command 'fredfw nccl fit' wrote"


@cache
def _read(name: str) -> Mapping[str, Any]:
    return MappingProxyType(parse_toml(files(__package__).joinpath(name).read_text(encoding="utf-8")))
