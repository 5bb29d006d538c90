"""A session in time: `timeline(events)`, and `chrome_trace(timeline)` as a file for viewers."""

from prong.timeline.chrome import chrome_trace
from prong.timeline.chronicle import (
    Chronicle,
    Counted,
    Linked,
    Marked,
    SpanClosed,
    SpanOpened,
    Timeline,
    TimelineChange,
    TimeSpan,
    timeline,
)

__all__ = [
    "Chronicle",
    "Counted",
    "Linked",
    "Marked",
    "SpanClosed",
    "SpanOpened",
    "TimeSpan",
    "Timeline",
    "TimelineChange",
    "chrome_trace",
    "timeline",
]
