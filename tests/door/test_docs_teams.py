"""docs/teams.md says how the files of a team are written, and that is how they are read."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import get_args

import msgspec
import pytest

from prong.mail import Cursor, MailBody, Member, Message, Team, TeamFolder
from prong.mail.shared_task import TaskEvent

pytestmark = pytest.mark.door

PAGE = (Path(__file__).parents[2] / "docs/teams.md").read_text("utf-8")


def rows(heading: str) -> dict[str, set[str]]:
    """Give the words in code of the second column by the one of the first."""
    section = PAGE.partition(f"\n### {heading}\n")[2].partition("\n##")[0]
    cells = [line.split(" | ") for line in section.splitlines() if line.startswith("| `")]
    found = {row[0].strip("|` "): set(re.findall(r"`(\w+)`", row[1])) for row in cells}
    return {name: words for name, words in found.items() if name != "type"}


@pytest.mark.spec("M5")
def test_mail_written_as_documented_is_read(tmp_path: Path):
    """The program on the page sends a mail from outside, after a torn line too."""
    folder = TeamFolder.create(tmp_path, "crew", session="s")
    folder.add(Member(name="bob"))
    (code,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    send = [sys.executable, "-c", code, str(folder.path), "bob"]
    subprocess.run([*send, "Hello."], check=True)
    with (folder.path / "inbox/bob.jsonl").open("ab") as file:
        file.write(b'{"crc":"torn')
    subprocess.run([*send, "Grüße\n…"], check=True)

    batch = folder.read("bob", Cursor())
    assert [mail.body for mail, _ in batch.mails] == [
        Message(text="Hello."),
        Message(text="Grüße\n…"),
    ]
    assert {mail.sender for mail, _ in batch.mails} == {"outside"}
    assert len(batch.damaged) == 1


def test_the_page_names_every_kind_of_mail():
    """Each kind of body has a row with all its members, and each event of the task list too."""
    infos = [msgspec.inspect.type_info(kind) for kind in get_args(MailBody)]
    structs = [info for info in infos if isinstance(info, msgspec.inspect.StructType)]
    assert rows("What can be said, and by whom") == {
        str(info.tag): {field.name for field in info.fields} for info in structs
    }
    infos = [msgspec.inspect.type_info(kind) for kind in get_args(TaskEvent)]
    structs = [info for info in infos if isinstance(info, msgspec.inspect.StructType)]
    assert rows("The shared task list") == {
        str(info.tag): {field.name for field in info.fields} for info in structs
    }


@pytest.mark.parametrize("kind", [Team, Member])
def test_the_page_names_every_field_of_a_team(kind: type[msgspec.Struct]):
    """Nothing stands in team.json that the page does not name."""
    (text,) = re.findall(r"\n(`team\.json` has .*?)\n\n", PAGE, re.DOTALL)
    assert set(kind.__struct_fields__) <= set(re.findall(r"`(\w+)`", text))
