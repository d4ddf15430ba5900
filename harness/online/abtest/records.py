"""The lines of an A/B test's event log, after its plan."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from harness.records.base import Record

EARLIEST, LATEST = -62_135_596_800, 253_402_300_799
"""The years 1 to 9999, in seconds since 1970: the range of times."""

Arm = Literal["a", "b"]
Time = Annotated[float, Meta(ge=EARLIEST, le=LATEST)]
Count = Annotated[int, Meta(ge=0, le=2**31 - 1)]


class Observation(Record):
    """What was measured of one request of a unit; `error`: the kind of error of its system."""

    time: Time
    unit_id: str
    arm: Arm
    metrics: dict[str, float]
    error: str | None = None


class Clicks(Record):
    """Clicks on the documents of each team."""

    a: Count
    b: Count


class Impression(Record):
    """Clicks on an interleaved ranking, or the `error` of the system of `arm`."""

    time: Time
    unit_id: str
    clicks: Clicks | None = None
    arm: Arm | None = None
    error: str | None = None

    def __post_init__(self) -> None:
        if (self.clicks is None) == (self.error is None):
            raise ValueError("one of clicks and error is needed")
        if (self.arm is None) != (self.error is None):
            raise ValueError("arm and error are needed together")

    @property
    def credit(self) -> Clicks:
        """The clicks; a failed system has lost the impression, with no click against one."""
        if self.clicks is not None:
            return self.clicks
        return Clicks(a=int(self.arm == "b"), b=int(self.arm == "a"))
