"""Many agents: background work and what becomes of it."""

from prong.team.notice import Notice, TaskUsage, neutral, render
from prong.team.outbox import Expected, Outbox
from prong.team.task import TaskBoard

__all__ = ["Expected", "Notice", "Outbox", "TaskBoard", "TaskUsage", "neutral", "render"]
