"""The text of the batch script; that it runs as it should is for the tests with a real Slurm."""

import base64
import re
import subprocess

import pytest

from builders.connector_builders import a_workload
from connectors.protocol import Workload
from connectors.slurm.batch import batch_script, command_of

NASTY = (
    "'; touch /tmp/x; $(id) `id` @KEY@ @PAYLOAD@ TIDEGATE_PAYLOAD\nTIDEGATE_RANK\n#SBATCH -A root\n"
)


def text_of(workload: Workload) -> str:
    return batch_script(workload, tag="a-tag", directory="/out", gpus_per_node=2, path="/bin")


def payload_block(text: str) -> str:
    found = re.search(r"<< 'TIDEGATE_PAYLOAD'\n(.*?)\nTIDEGATE_PAYLOAD\n", text, re.DOTALL)
    assert found is not None
    return found[1]


def payload_of(text: str) -> bytes:
    return base64.b64decode(payload_block(text))


def test_nothing_of_a_user_s_is_in_the_text() -> None:
    """Mutant: the environment stood in the shell's text; a quote in it ended the string."""
    plain = text_of(a_workload("x", key="k"))
    nasty = text_of(
        a_workload("#!/bin/sh\n" + NASTY, key="k", environment={"A": NASTY, "B": NASTY})
    )
    fixed = [
        re.sub(r"[0-9]+ [0-9]+ \"\$tag\"", "", text.replace(payload_block(text), ""))
        for text in (plain, nasty)
    ]
    assert fixed[0] == fixed[1]
    assert payload_of(nasty).endswith(("#!/bin/sh\n" + NASTY).encode())


@pytest.mark.parametrize("value", [NASTY, "", " a  b ", "Grüße 🌊", "\\", "-n", "a=b", "\x01\t"])
def test_bash_reads_the_settings_as_they_were_meant(value: str) -> None:
    payload = payload_of(
        text_of(a_workload("S", environment={"A": value}, time_limit_s=10, notice_signal="USR1"))
    )
    printed = subprocess.run(
        [
            *("/bin/bash", "-c"),
            'eval "$1"; printf "%s\\0" "${variables[@]}" "${command[@]}" '
            "$notice_signal $grace_s $limit_ms $notice_ms",
            *("bash", payload.removesuffix(b"S").decode()),
        ],
        capture_output=True,
        check=True,
    ).stdout.decode()
    assert printed.split("\0")[:-1] == [f"A={value}", "/bin/sh", "USR1", "30", "10000", "5000"]


@pytest.mark.parametrize("ranks", [1, 3])
def test_the_shell_is_bash_and_its_syntax_is_right(ranks: int) -> None:
    text = text_of(a_workload(ranks=ranks))
    assert text.startswith("#!/bin/bash\n")
    assert not re.search(r"@[A-Z_]+@", text)
    assert f"--ntasks={ranks} " in text
    subprocess.run(["/bin/bash", "-n"], input=text.encode(), check=True)
    rank = text.partition("<< 'TIDEGATE_RANK'\n")[2].partition("\nTIDEGATE_RANK\n")[0]
    subprocess.run(["/bin/bash", "-n"], input=rank.encode(), check=True)


@pytest.mark.parametrize(
    ("script", "command"),
    [
        ("echo", ["/bin/sh"]),
        ("#!\n", ["/bin/sh"]),
        ("#! \t\n", ["/bin/sh"]),
        ("#!/bin/bash\necho", ["/bin/bash"]),
        ("#! /usr/bin/env python3 -I \nx", ["/usr/bin/env", "python3 -I"]),
        ("#!/bin/bash", ["/bin/bash"]),
        ("#!/opt/a=b/python -I\n", ["/bin/sh", "-c", 'exec "$@"', "sh", "/opt/a=b/python", "-I"]),
        (" #!/bin/bash\n", ["/bin/sh"]),
    ],
)
def test_the_interpreter(script: str, command: list[str]) -> None:
    assert command_of(script) == command
