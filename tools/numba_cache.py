"""Name the folder for Numba's compiled code after the content of src/, and remove the folders of older sources.

Numba's own cache looks at the file of a compiled function only. It misses a change in a function that was inlined from
another file, so one folder per state of the sources is the only safe key.

Usage: numba_cache.py ROOT            print the folder of the present sources
       numba_cache.py ROOT --prune    also remove folders of other sources that are over two hours old
"""

import hashlib
import shutil
import sys
import time
from pathlib import Path

KEEP_SECONDS = 2 * 3600  # a run that began before the sources changed may still be using its folder


def source_hash(root: Path) -> str:
    digest = hashlib.sha256()
    for path in sorted((root / "src").rglob("*.py")):
        content = path.read_bytes()
        digest.update(f"{path.relative_to(root).as_posix()}\0{len(content)}\0".encode())
        digest.update(content)
    return digest.hexdigest()[:16]


def prune(cache: Path, keep: str) -> None:
    for folder in cache.glob("numba-*"):
        if not folder.name.startswith(keep) and time.time() - folder.stat().st_mtime > KEEP_SECONDS:
            shutil.rmtree(folder, ignore_errors=True)


def main(arguments: list[str]) -> None:
    root = Path(arguments[0]).resolve()
    name = f"numba-{source_hash(root)}"
    if "--prune" in arguments[1:]:
        prune(root / ".cache", name)
    print(root / ".cache" / name)


if __name__ == "__main__":
    main(sys.argv[1:])
