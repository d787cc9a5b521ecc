"""Lines of a CSV file by column, and what is wrong in them."""

import csv
import io
import math
from collections.abc import Callable, Iterator, Mapping, Sequence

from attrs import frozen

from fredfw.errors import InputError

TIME = "a number of microseconds above 0, without a unit"  # what a column of times has


@frozen
class Line:
    """One line of a table: its number, and text by column."""

    number: int
    cells: Mapping[str, str]

    def __getitem__(self, column: str) -> str:
        return self.cells.get(column, "")

    def place(self, column: str) -> str:
        return f"line {self.number}, column {column}"

    def refusal(self, column: str, message: str, accepted: str) -> InputError:
        return InputError(message, key=self.place(column), accepted=accepted)

    def quantity(self, column: str, accepted: str, fits: Callable[[float], bool] = lambda value: value > 0) -> float:
        text = self[column]
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not math.isfinite(value) or not fits(value):
            raise self.refusal(column, f"{text!r} cannot be used", accepted)
        return value

    def count(self, column: str, least: int) -> int:
        accepted = f"a whole number from {least}"
        return int(self.quantity(column, accepted, lambda value: value.is_integer() and value >= least))

    def seconds(self, column: str) -> float:
        return self.quantity(column, TIME) * 1e-6


def lines(text: str, check: Callable[[Sequence[str]], None] = lambda _: None) -> Iterator[Line]:
    """Yield the lines of CSV below its header, which ``check`` may refuse; each has as many cells as that."""
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    try:
        header = [name.strip() for name in next(reader, [])]
        check(header)
        for cells in reader:
            if not any(map(str.strip, cells)):
                continue
            if len(cells) != len(header):
                key, accepted = f"line {reader.line_num}", f"{len(header)}, as many as the header has"
                raise InputError(f"there are {len(cells)} cells", key=key, accepted=accepted)
            yield Line(reader.line_num, dict(zip(header, map(str.strip, cells), strict=True)))
    except csv.Error as error:
        accepted = "CSV, whose first line names the columns"
        raise InputError(f"is not CSV: {error}", key=f"line {reader.line_num}", accepted=accepted) from None
