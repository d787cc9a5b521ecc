"""What processes are asked to call: a module that they can import too."""

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path


def square(number: int, after: Path | None = None) -> int:
    while after is not None and not after.exists():
        time.sleep(0.01)
    return number**2


def die(attempts: Path, times: int) -> int:
    with attempts.open("a") as file:
        file.write(".")
    count = len(attempts.read_text())
    if count <= times:
        os.kill(os.getpid(), signal.SIGKILL)
    return count


def fail(error: Exception) -> None:
    raise error


class PickyError(Exception):
    def __init__(self, one: str, other: str) -> None:
        super().__init__(one + other)


def unreadable() -> None:
    raise PickyError("a", "b")


def unwritable() -> Callable[[], None]:
    return lambda: None


def deaf() -> bool:
    os.kill(os.getpid(), signal.SIGINT)
    return signal.getsignal(signal.SIGINT) == signal.SIG_IGN


def sleep(begun: Path) -> None:
    begun.touch()
    time.sleep(60)
