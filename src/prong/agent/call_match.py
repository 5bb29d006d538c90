"""A call as the rules of hooks see it: by what it would do, not by what it is called."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec.structs import replace

from prong.tools.policy import Policy, decide
from prong.tools.rule import Rule
from prong.tools.tool import Context, Tool


class CallMatch(msgspec.Struct, frozen=True):
    """A call that hooks are told of, and where it would run."""

    tool: Tool
    args: Any
    context: Context
    policy: Policy

    def falls_under(self, rule: Rule) -> bool:
        """Say whether a call may do what a forbidding rule names; in doubt it may.

        A rule counts as it does where it forbids: each command of a line, through links.
        """
        try:
            accesses = self.tool.access(self.args, self.context)
        except OSError:
            return True
        free = replace(self.policy, rules=(), mode="bypassPermissions", reader=False)
        name, resolve = self.tool.name, self.context.host.follow
        without = decide(free, name, accesses, resolve=resolve)
        ruled = decide(replace(free, rules=(rule,)), name, accesses, resolve=resolve)
        return ruled != without or getattr(ruled, "unsure", False)
