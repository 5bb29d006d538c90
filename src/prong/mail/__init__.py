"""Teams as files: members, mailboxes, the shared task list; no model and no agent."""

from prong.mail.aside import SetAside
from prong.mail.authority import EVERYONE, LEADER, OUTSIDE, check_name, may
from prong.mail.body import (
    Idle,
    Mail,
    MailBody,
    Message,
    PermissionRequest,
    PermissionResponse,
    PermissionSettled,
    PlanRequest,
    PlanResponse,
    ShutdownRequest,
    ShutdownResponse,
)
from prong.mail.doorbell import Doorbell, ring
from prong.mail.line_scan import Cursor
from prong.mail.mailbox import MailBatch
from prong.mail.shared_task import ClaimOutcome, SharedStatus, SharedTask
from prong.mail.socket_folder import new_socket_path, socket_paths
from prong.mail.task_log import SharedTasks
from prong.mail.team_file import Member, MemberState, Team
from prong.mail.team_folder import TeamFolder, teams, teams_folder

__all__ = [
    "EVERYONE",
    "LEADER",
    "OUTSIDE",
    "ClaimOutcome",
    "Cursor",
    "Doorbell",
    "Idle",
    "Mail",
    "MailBatch",
    "MailBody",
    "Member",
    "MemberState",
    "Message",
    "PermissionRequest",
    "PermissionResponse",
    "PermissionSettled",
    "PlanRequest",
    "PlanResponse",
    "SetAside",
    "SharedStatus",
    "SharedTask",
    "SharedTasks",
    "ShutdownRequest",
    "ShutdownResponse",
    "Team",
    "TeamFolder",
    "check_name",
    "may",
    "new_socket_path",
    "ring",
    "socket_paths",
    "teams",
    "teams_folder",
]
