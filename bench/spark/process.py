"""The Spark program (`program.py`) as a process: jobs go in, what came of them comes out."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self, cast

from bench.machine import ROOT
from bench.spark.loads import Job
from bench.tally import Invalid

START_TIMEOUT_S: Final = 180.0
JOB_TIMEOUT_S: Final = 1800.0


class SparkProgram:
    """`with SparkProgram(folder, class_path) as spark: spark.run(job)`."""

    def __init__(self, scratch: Path, class_path: str, *, pure: bool = False) -> None:
        scratch.mkdir(parents=True, exist_ok=True)
        self.log = scratch / "spark.log"
        with open(self.log, "ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "bench.spark.program", str(scratch), class_path], cwd=ROOT,
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log,
                env=os.environ | ({"COMETMQ_PURE": "1"} if pure else {}),
            )  # fmt: skip

    def __enter__(self) -> Self:
        try:
            self._answer(START_TIMEOUT_S)
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    def _end(self) -> None:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.close()  # which tells it to end
        self._process.stdout.close()
        try:
            self._process.wait(30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def run(self, job: Job) -> dict[str, Any]:
        """What came of a job; a fault makes the run invalid."""
        assert self._process.stdin is not None
        self._process.stdin.write(job.to_json().encode() + b"\n")
        self._process.stdin.flush()
        answer = self._answer(JOB_TIMEOUT_S)
        if "fault" in answer:
            raise Invalid(f"{job.kind} {job.format}: {answer['fault']}")
        return answer

    def _answer(self, timeout_s: float) -> dict[str, Any]:
        assert self._process.stdout is not None
        ready, _, _ = select.select([self._process.stdout], [], [], timeout_s)
        line = self._process.stdout.readline() if ready else b""
        if not line:
            tail = "\n".join(self.log.read_text(errors="replace").splitlines()[-20:])
            raise Invalid(f"Spark {'ended' if ready else 'said nothing in time'}:\n{tail}")
        return cast("dict[str, Any]", json.loads(line))
