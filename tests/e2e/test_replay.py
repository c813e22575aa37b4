"""Conversations recorded from a real kube-apiserver, replayed against the served HTTP face (RUN-9)."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from kubelab.server import ApiServer
from tests.support.patience import PATIENCE
from tests.support.server_thread import served, wall_clock

pytestmark = pytest.mark.slow

RECORDED = Path(__file__).resolve().parents[2].parent / "shared" / "apiserver"
CASES = 98


@pytest.mark.skipif(not (RECORDED / "replay.py").exists(), reason=f"no recorded conversations at {RECORDED}")
def test_every_recorded_conversation_is_answered_alike_RUN_9() -> None:
    with served(ApiServer(now=wall_clock)) as url:
        script, transcripts = str(RECORDED / "replay.py"), str(RECORDED / "transcripts")
        command = [sys.executable, script, "--server", url, "--settle", "0.3", transcripts]
        played = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    score = re.search(r"^total: (\d+) of (\d+) agree$", played.stdout, re.MULTILINE)
    assert score is not None, played.stdout + played.stderr
    assert (int(score[1]), int(score[2])) == (CASES, CASES), played.stdout
