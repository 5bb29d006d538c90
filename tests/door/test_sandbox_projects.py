"""Real projects in the *working* profile: they build, test, install and commit as without one."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import pytest

from prong.config.sandboxing import CACHES
from prong.host import LocalHost
from prong.host.sandbox.ability import detect
from prong.tools.derive import reading, working
from prong.tools.ground import Policy, Sandboxing
from prong.tools.rule import Rule, parse_rule

ABLE = detect()
pytestmark = [
    pytest.mark.anyio,
    pytest.mark.door,
    pytest.mark.spec("L13"),
    pytest.mark.timeout(300),
    pytest.mark.skipif(not (ABLE.writes and ABLE.views), reason=f"needs namespaces: {ABLE.why}"),
]

PYTHON = shutil.which("python3", path=os.defpath) or sys.executable
FILES = {
    "test_it.py": "import tempfile\n\n\ndef test_it(tmp_path):\n    (tmp_path / 'a').write_text('x')\n"
    "    assert tempfile.mkdtemp()\n",
    "pyproject.toml": '[project]\nname = "sample"\nversion = "1"\n[build-system]\n'
    'requires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n',
    "backend.py": "import zipfile\n\n\ndef build_wheel(folder, *_):\n    name = 'sample-1-py3-none-any.whl'\n"
    "    meta = 'Metadata-Version: 2.1\\nName: sample\\nVersion: 1\\n'\n"
    "    with zipfile.ZipFile(f'{folder}/{name}', 'w') as made:\n"
    "        made.writestr('sample_made.py', 'x = 1\\n')\n"
    "        made.writestr('sample-1.dist-info/METADATA', meta)\n"
    "        made.writestr('sample-1.dist-info/WHEEL', 'Wheel-Version: 1.0\\nGenerator: x\\n"
    "Root-Is-Purelib: true\\nTag: py3-none-any\\n')\n"
    "        made.writestr('sample-1.dist-info/RECORD', '')\n    return name\n",
    "package.json": '{"name": "sample", "version": "1.0.0", "scripts": {"test": "node -e 0", '
    '"postinstall": "node -e \\"fs.writeFileSync(\'made.txt\',\'x\')\\""}, '
    '"dependencies": {"part": "file:./part"}}\n',
    "part/package.json": '{"name": "part", "version": "1.0.0"}\n',
    "Makefile": "all: main\n\nmain: main.c\n\t$(CC) -o $@ $<\n\ntest: all\n\t./main\n",
    "main.c": "int main(void) { return 0; }\n",
    "CMakeLists.txt": "cmake_minimum_required(VERSION 3.10)\nproject(s C)\nadd_executable(s main.c)\n",
    "Cargo.toml": '[package]\nname = "sample"\nversion = "0.1.0"\nedition = "2021"\n',
    "src/main.rs": "fn main() {}\n\n#[test]\nfn works() {}\n",
    "go/go.mod": "module sample\n\ngo 1.19\n",
    "go/main_test.go": 'package main\n\nimport "testing"\n\nfunc TestIt(t *testing.T) {}\n',
    "go/main.go": "package main\n\nfunc main() {}\n",
    ".env": "SECRET=1\n",
}
LINES = {
    "pytest": f"{sys.executable} -m pytest -q test_it.py",
    "venv, pip": f"{PYTHON} -m venv .venv && .venv/bin/pip install --no-index . "
    "&& .venv/bin/python -c 'import sample_made'",
    "npm install": "npm install --no-audit --no-fund && test -e node_modules/part -a -e made.txt",
    "npm test": "npm test",
    "npm ci": "npm install --no-audit --no-fund && npm ci --no-audit --no-fund",
    "make": "make && make test",
    "cc": "cc -o main main.c && ./main",
    "cmake": "cmake -S . -B build && cmake --build build",
    "cargo": "cargo build --offline && cargo test -q --offline",
    "go": "cd go && go build ./... && go vet ./... && go test ./... && go run . && go mod tidy",
    "git": "git add -A && git commit -qm x && git checkout -qb other && echo y > y && git add y && "
    "git commit -qm y && git rebase -q main && git stash list && git merge -q main && git gc -q && "
    "git tag v1 && git worktree add -q wt && git reset -q --hard HEAD~0",
    "sqlite": "sqlite3 a.db 'create table a(b); insert into a values(1)'",
    "server": f'{sys.executable} -c \'import socket as s; a=s.create_server(("127.0.0.1",0)); '
    'b=s.create_connection(a.getsockname()); u=s.socket(s.AF_UNIX); u.bind("sock")\'',
    "workers": f"{sys.executable} -c 'import multiprocessing as m; m.Pool(2).map(abs, [1, -2])'",
    "shell": "mkdir -p out && for f in *.py; do cp $f out/; done; chmod +x out/*.py; ln -s out o2; "
    "mktemp && echo x > /dev/null && cat <<< here && diff <(ls) <(ls)",
}
NEEDED = {"go": "go", "venv, pip": PYTHON, "git": "git", "shell": "bash", "sqlite": "sqlite3"}


class Project:
    """A project of many languages, and a home where nobody has built anything."""

    def __init__(self, folder: Path) -> None:
        self.root, self.home, temp = (folder / n for n in ("project", "home", "temp"))
        for one in (self.root, self.home, temp):
            one.mkdir()
        for name, text in FILES.items():
            path = self.root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        self.host = LocalHost(self.root, str(self.home), storage=str(folder / "store"))
        caches = tuple(str(self.home) + one[1:] for one in CACHES)
        denied = parse_rule("Read(.env)", effect="deny", source="user")
        assert isinstance(denied, Rule)
        self.policy = Policy(
            root=str(self.root),
            home=str(self.home),
            rules=(denied,),
            sandbox=Sandboxing(on=True, ability=ABLE, temp=(str(temp),), caches=caches),
        )
        self.env = {"HOME": str(self.home), "TMPDIR": str(temp), "GIT_CONFIG_NOSYSTEM": "1"}
        for kind in ("AUTHOR", "COMMITTER"):
            self.env |= {f"GIT_{kind}_NAME": "x", f"GIT_{kind}_EMAIL": "x@x.invalid"}
        rust = os.environ.get("RUSTUP_HOME", str(Path.home() / ".rustup"))
        self.env |= {"RUSTUP_HOME": rust, "PYTEST_ADDOPTS": "", "npm_config_offline": "true"}

    async def run(self, line: str) -> tuple[int, str]:
        profile = working(self.policy)
        process = await self.host.start(line, env=self.env, profile=profile)
        with anyio.fail_after(240):
            said = b"".join([chunk async for chunk in process.output()])
            code = await process.wait()
        await process.kill()
        undone = process.leave()
        return code, said.decode(errors="replace") + "".join(undone)


@pytest.fixture
async def project(tmp_path: Path) -> AsyncIterator[Project]:
    made = Project(tmp_path.resolve())
    await made.host.run(["git", "init", "-q", "-b", "main"])
    yield made
    await made.host.close()


@pytest.mark.parametrize("name", LINES)
async def test_a_project_builds_where_it_may_write(name: str, project: Project) -> None:
    """The usual programs do their work in a fresh home, without a setting."""
    program = NEEDED.get(name, LINES[name].split()[0])
    if shutil.which(program) is None:
        pytest.skip(f"there is no {program} here")

    code, said = await project.run(LINES[name])

    assert code == 0, said
    assert "protected" not in said


async def test_programs_can_keep_what_they_download(project: Project) -> None:
    """Folders for it are made if their program is there, since a command could not make them."""
    code, said = await project.run("echo x > ~/.cache/x && ls -A ~")

    assert (code, "protected" in said) == (0, False), said
    made = {path.name for path in project.home.iterdir()}
    assert ".cache" in made
    assert (".npm" in made) is (shutil.which("npm") is not None)
    assert (".gradle" in made) is (shutil.which("gradle") is not None)
    assert ".nuget" not in made
    # Where only reading is possible nothing is made, for nothing could be kept.
    (project.home / ".cache/x").unlink()
    (project.home / ".cache").rmdir()
    process = await project.host.start("true", env=project.env, profile=reading(project.policy))
    await process.wait()
    process.leave()
    assert not (project.home / ".cache").exists()
