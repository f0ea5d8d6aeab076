"""Record the golden files of the wire floor and of the client from Apache RocketMQ 5.5.0's own classes.

    python -m tests.golden.record

runs `java/{Golden,ClientGolden}.java` with the original's jars and rewrites `{wire,client}/*.json`. What is
recorded is committed: the tests that read it need no Java.
"""

from __future__ import annotations

import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.original.jars import class_path, original_jars

HERE = Path(__file__).parent
RECORD_TIMEOUT_S = 120


def record(folder: Path, program: str = "Golden.java") -> None:
    """Write all golden files of one program into `folder`."""
    folder.mkdir(exist_ok=True)
    with TemporaryDirectory() as home:  # where the original writes its logs
        command = ["java", "-Duser.timezone=UTC", "-Dfile.encoding=UTF-8", f"-Duser.home={home}"]
        command += ["-cp", class_path(original_jars()), str(HERE / "java" / program), str(folder)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=RECORD_TIMEOUT_S, check=False)
    if done.returncode != 0:
        raise SystemExit(f"the recorder failed with exit code {done.returncode}:\n{done.stderr[-4000:]}")


if __name__ == "__main__":
    record(HERE / "wire")
    record(HERE / "client", "ClientGolden.java")
