"""What a comparison finds: a row for each quantity of a model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

from otel_itl.tools.compare.quantities import Quantity
from otel_itl.tools.compare.requests import Side
from otel_itl.tools.compare.verdicts import Answer, Estimate


class Reading(Enum):
    """Which of the numbers that the figures of both sides can be are compared. The value is a clause."""

    MEASURED = "as measured"
    LOWEST = "if all chunks came as early as they may have"
    HIGHEST = "if all gaps were as long as they may have been"


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A quantity of one side. `value` is in the quantity's unit; None: no sample."""

    value: float | None
    lowest: float | None
    """The least that the value can be; None: it is no less, or None."""
    highest: float | None
    """The most that it can be; None likewise."""
    clusters: int
    samples: int
    effective_samples: int
    """As many independent samples would be known as well; its samples over it is the design effect."""

    @property
    def design_effect(self) -> float | None:
        """How many samples are worth one independent sample; None without a sample."""
        return self.samples / self.effective_samples if self.effective_samples else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One quantity of one model on both sides."""

    model: str
    quantity: Quantity
    a: Figure
    b: Figure
    measured: Estimate = field(default_factory=Estimate)
    bounds: Mapping[Reading, Estimate] = field(default_factory=dict)
    """The same with the least and with the most that the figures can be; a reading that changes neither is left out."""
    sides: Sequence[str] = ()
    """`A`, `B`: the sides whose figure is uncertain by the larger part."""

    @property
    def otherwise(self) -> Reading | None:
        """The reading that has another answer, where the answer is that the machine decides; else None.

        A row that more data would have to decide as measured remains one of not enough data.
        """
        measured = self.measured.answer
        if measured is Answer.NOT_ENOUGH_DATA or not self.bounds:
            return None
        return next((reading for reading, one in self.bounds.items() if one.answer is not measured), None)

    @property
    def answer(self) -> Answer:
        """The answer, which holds only where it is the same whatever the figures are within their bounds."""
        return self.measured.answer if self.otherwise is None else Answer.MACHINE_DECIDES

    @property
    def why(self) -> str:
        """Why it is not known, in one clause; empty for the other answers."""
        if self.otherwise is None:
            return self.measured.why
        other = self.bounds[self.otherwise].answer
        said = "not known" if other is Answer.NOT_ENOUGH_DATA else other.value
        uncertain = "both sides are" if len(self.sides) > 1 else f"side {self.sides[0]} is"
        measured = f"{self.measured.answer.value} {Reading.MEASURED.value}"
        return f"{measured}, {said} {self.otherwise.value}; {uncertain} uncertain"

    @property
    def may_be_slower(self) -> bool:
        """The caller's machine decides, and one of the answers is that B is slower."""
        return self.otherwise is not None and Answer.SLOWER in {
            one.answer for one in (self.measured, *self.bounds.values())
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """The answers on two sides."""

    a: Side
    b: Side
    rows: Sequence[Row]
    margin: float
    is_paired: bool
    """Both sides played the same sessions, each of which is compared with itself."""
    is_identical: bool = False
    """Both sides have the same streams: a file is compared with itself, and all rows are the same."""
    only_in: Sequence[tuple[str, str]] = ()
    """Model and name of the side, of models that one side alone has."""
    has_no_common_model: bool = False
    """All models of A are compared to all of B, as the sides have none in common."""
    is_of_models: bool = False
    """The sides were chosen by their models: that they have none in common is what was asked for."""

    @property
    def sides(self) -> dict[str, Side]:
        """Letter → side."""
        return {"A": self.a, "B": self.b}
