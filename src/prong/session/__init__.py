"""A session, and what can be known of sessions: the only door through which faces come in.

Names are looked up when they are first used: a list of sessions need not load what opens one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from prong.agent.life import Turn
    from prong.agent.spec import AgentType, AgentTypes
    from prong.config.memory import MemoryState
    from prong.config.option import Options
    from prong.config.plugin_store import PluginRequest
    from prong.cost.breakeven import BreakEven
    from prong.cost.mark import LIFETIME
    from prong.cost.price import Price
    from prong.cost.receipt import (
        FanReceipt,
        Receipt,
        as_json,
        describe,
        in_brief,
        line,
        money,
        saving,
    )
    from prong.cost.schedule import Rates
    from prong.host.http_server import HttpExchange
    from prong.host.http_server import listen as listen_http
    from prong.journal.book import Books, CostLine
    from prong.journal.compare import Explanation
    from prong.journal.entry_trail import StoredEntry, WholeSession
    from prong.journal.store import SessionInfo
    from prong.journal.verify import VerifyReport
    from prong.session.bus import Subscription
    from prong.session.catalogue import (
        Forecast,
        books_of,
        explain,
        find_session,
        forecast,
        jsonl_of,
        list_sessions,
        open_feed,
        outlines,
        recorded_events,
        unknown_servers,
        verify_session,
        whole_session,
    )
    from prong.session.cleaning import CleanReport, clean_sessions
    from prong.session.control_client import ControlLink, act_in
    from prong.session.control_message import OutsideCommand
    from prong.session.diagnosis import Checkup, diagnose
    from prong.session.feed import SessionFeed
    from prong.session.importing import Importable, ImportedSession, import_session, importable
    from prong.session.integration import describe_cleanup, describe_merge
    from prong.session.member_start import take_start
    from prong.session.moving_cost import ResumingCost, resuming_cost
    from prong.session.opening import open_session
    from prong.session.outside_control import ControlRequest
    from prong.session.plain_client import Client, run
    from prong.session.plugin_catalogue import (
        add_plugins,
        describe_plugins,
        list_plugins,
        offered_plugins,
        plugin_question,
        remove_plugin,
        update_plugins,
    )
    from prong.session.project import (
        FolderTrust,
        TypeReport,
        TypesFound,
        agent_types,
        clean_children,
        clear_memory,
        decide_trust,
        describe_backends,
        diff_children,
        folder_memory,
        folder_trust,
        merge_children,
        missing_key,
        open_trust,
        type_report,
        undo_merge,
    )
    from prong.session.records import Records
    from prong.session.remote_check import check_remote
    from prong.session.server_admin import (
        ServerReport,
        add_server,
        check_servers,
        list_servers,
        log_in_at,
        log_out_of,
        remove_server,
        show_server,
    )
    from prong.session.session import Session
    from prong.session.status_command import StatusText
    from prong.session.team_end import delete_team, end_member
    from prong.session.team_report import (
        list_shared_tasks,
        list_teams,
        send_from_outside,
        show_team,
    )
    from prong.session.telemetry_reader import replay_telemetry
    from prong.session.worker import run_worker
    from prong.tools.files.picture import inspect as inspect_picture
    from prong.wire.raw import dump

_HOMES = {
    "AgentType": "agent.spec",
    "AgentTypes": "agent.spec",
    "Books": "journal.book",
    "BreakEven": "cost.breakeven",
    "PluginRequest": "config.plugin_store",
    "Checkup": "session.diagnosis",
    "CleanReport": "session.cleaning",
    "Client": "session.plain_client",
    "ControlLink": "session.control_client",
    "ControlRequest": "session.outside_control",
    "CostLine": "journal.book",
    "Explanation": "journal.compare",
    "FanReceipt": "cost.receipt",
    "FolderTrust": "session.project",
    "Forecast": "session.catalogue",
    "Importable": "session.importing",
    "ImportedSession": "session.importing",
    "HttpExchange": "host.http_server",
    "LIFETIME": "cost.mark",
    "MemoryState": "config.memory",
    "Options": "config.option",
    "OutsideCommand": "session.control_message",
    "Price": "cost.price",
    "Rates": "cost.schedule",
    "Receipt": "cost.receipt",
    "Records": "session.records",
    "ResumingCost": "session.moving_cost",
    "ServerReport": "session.server_admin",
    "Session": "session.session",
    "SessionFeed": "session.feed",
    "StatusText": "session.status_command",
    "SessionInfo": "journal.store",
    "StoredEntry": "journal.entry_trail",
    "Subscription": "session.bus",
    "Turn": "agent.life",
    "TypeReport": "session.project",
    "TypesFound": "session.project",
    "VerifyReport": "journal.verify",
    "WholeSession": "journal.entry_trail",
    "act_in": "session.control_client",
    "add_plugins": "session.plugin_catalogue",
    "add_server": "session.server_admin",
    "agent_types": "session.project",
    "as_json": "cost.receipt",
    "books_of": "session.catalogue",
    "check_remote": "session.remote_check",
    "check_servers": "session.server_admin",
    "clean_children": "session.project",
    "clean_sessions": "session.cleaning",
    "clear_memory": "session.project",
    "decide_trust": "session.project",
    "delete_team": "session.team_end",
    "describe": "cost.receipt",
    "describe_backends": "session.project",
    "describe_cleanup": "session.integration",
    "describe_merge": "session.integration",
    "describe_plugins": "session.plugin_catalogue",
    "diagnose": "session.diagnosis",
    "diff_children": "session.project",
    "dump": "wire.raw",
    "end_member": "session.team_end",
    "explain": "session.catalogue",
    "find_session": "session.catalogue",
    "folder_memory": "session.project",
    "folder_trust": "session.project",
    "forecast": "session.catalogue",
    "import_session": "session.importing",
    "importable": "session.importing",
    "in_brief": "cost.receipt",
    "inspect_picture": "tools.files.picture:inspect",
    "jsonl_of": "session.catalogue",
    "line": "cost.receipt",
    "list_plugins": "session.plugin_catalogue",
    "list_servers": "session.server_admin",
    "list_sessions": "session.catalogue",
    "listen_http": "host.http_server:listen",
    "list_shared_tasks": "session.team_report",
    "list_teams": "session.team_report",
    "log_in_at": "session.server_admin",
    "log_out_of": "session.server_admin",
    "merge_children": "session.project",
    "missing_key": "session.project",
    "money": "cost.receipt",
    "offered_plugins": "session.plugin_catalogue",
    "open_feed": "session.catalogue",
    "open_session": "session.opening",
    "open_trust": "session.project",
    "outlines": "session.catalogue",
    "recorded_events": "session.catalogue",
    "replay_telemetry": "session.telemetry_reader",
    "plugin_question": "session.plugin_catalogue",
    "remove_plugin": "session.plugin_catalogue",
    "remove_server": "session.server_admin",
    "resuming_cost": "session.moving_cost",
    "run": "session.plain_client",
    "run_worker": "session.worker",
    "saving": "cost.receipt",
    "send_from_outside": "session.team_report",
    "show_server": "session.server_admin",
    "show_team": "session.team_report",
    "take_start": "session.member_start",
    "type_report": "session.project",
    "undo_merge": "session.project",
    "unknown_servers": "session.catalogue",
    "update_plugins": "session.plugin_catalogue",
    "verify_session": "session.catalogue",
    "whole_session": "session.catalogue",
}

__all__ = [
    "LIFETIME",
    "AgentType",
    "AgentTypes",
    "Books",
    "BreakEven",
    "Checkup",
    "CleanReport",
    "Client",
    "ControlLink",
    "ControlRequest",
    "CostLine",
    "Explanation",
    "FanReceipt",
    "FolderTrust",
    "Forecast",
    "HttpExchange",
    "Importable",
    "ImportedSession",
    "MemoryState",
    "Options",
    "OutsideCommand",
    "PluginRequest",
    "Price",
    "Rates",
    "Receipt",
    "Records",
    "ResumingCost",
    "ServerReport",
    "Session",
    "SessionFeed",
    "SessionInfo",
    "StatusText",
    "StoredEntry",
    "Subscription",
    "Turn",
    "TypeReport",
    "TypesFound",
    "VerifyReport",
    "WholeSession",
    "act_in",
    "add_plugins",
    "add_server",
    "agent_types",
    "as_json",
    "books_of",
    "check_remote",
    "check_servers",
    "clean_children",
    "clean_sessions",
    "clear_memory",
    "decide_trust",
    "delete_team",
    "describe",
    "describe_backends",
    "describe_cleanup",
    "describe_merge",
    "describe_plugins",
    "diagnose",
    "diff_children",
    "dump",
    "end_member",
    "explain",
    "find_session",
    "folder_memory",
    "folder_trust",
    "forecast",
    "import_session",
    "importable",
    "in_brief",
    "inspect_picture",
    "jsonl_of",
    "line",
    "list_plugins",
    "list_servers",
    "list_sessions",
    "list_shared_tasks",
    "list_teams",
    "listen_http",
    "log_in_at",
    "log_out_of",
    "merge_children",
    "missing_key",
    "money",
    "offered_plugins",
    "open_feed",
    "open_session",
    "open_trust",
    "outlines",
    "plugin_question",
    "recorded_events",
    "remove_plugin",
    "remove_server",
    "replay_telemetry",
    "resuming_cost",
    "run",
    "run_worker",
    "saving",
    "send_from_outside",
    "show_server",
    "show_team",
    "take_start",
    "type_report",
    "undo_merge",
    "unknown_servers",
    "update_plugins",
    "verify_session",
    "whole_session",
]


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'prong.session' has no attribute {name!r}")
    from importlib import import_module

    home, _, own = _HOMES[name].partition(":")
    value = getattr(import_module(f"prong.{home}"), own or name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return list(__all__)
