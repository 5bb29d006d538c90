"""Print the long tail: the five longest files and functions, and the number of public names."""

from __future__ import annotations

import ast
from pathlib import Path


def main() -> None:
    files: list[tuple[int, str]] = []
    functions: list[tuple[int, str]] = []
    for path in sorted(Path("src").rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        files.append((text.count("\n"), str(path)))
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                length = (node.end_lineno or node.lineno) - node.lineno + 1
                functions.append((length, f"{path}:{node.lineno} {node.name}"))
    for title, rows in (("files", files), ("functions", functions)):
        print(f"longest {title}")
        for length, name in sorted(rows, reverse=True)[:5]:
            print(f"  {length:4} {name}")
    print(f"lines in src: {sum(length for length, _ in files)}")


if __name__ == "__main__":
    main()
