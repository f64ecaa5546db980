"""Lists the programs that measure and prove what tests cannot: `python -m tests.tools`."""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Final

HERE: Final = Path(__file__).parent


def tools() -> Iterator[tuple[str, str]]:
    """(name, what it is for) of every program here, by name."""
    for path in sorted((*HERE.glob("*.py"), *HERE.glob("*/__main__.py"))):
        name = path.parent.name if path.name == "__main__.py" else path.stem
        docstring = ast.get_docstring(ast.parse(path.read_text()))
        if (path.parent == HERE and path.name.startswith("__")) or docstring is None:
            continue
        yield name, docstring.split("\n\n")[0].replace("\n", " ")


def main() -> None:
    """Print them, a line each."""
    found = dict(tools())
    width = max(map(len, found))
    for name, purpose in found.items():
        print(f"python -m tests.tools.{name:<{width}}  {purpose}")


if __name__ == "__main__":
    main()
