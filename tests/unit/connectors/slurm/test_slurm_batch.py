"""The text of the batch script; that it runs as it should is for the tests with a real Slurm."""

import base64
import contextlib
import re
import shutil
import signal
import subprocess
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from builders.connector_builders import a_workload
from connectors.protocol import Workload
from connectors.slurm.batch import batch_script, command_of, pyxis_image

#: From one signal to the next.
PAUSE_S = 0.0002
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
            "$notice_signal $grace_s $limit_ms $ahead_ms",
            *("bash", payload.removesuffix(b"S").decode()),
        ],
        capture_output=True,
        check=True,
    ).stdout.decode()
    assert printed.split("\0")[:-1] == [f"A={value}", "/bin/sh", "USR1", "30", "10000", "30000"]


@pytest.mark.parametrize("ranks", [1, 3])
def test_the_shell_is_bash_and_its_syntax_is_right(ranks: int) -> None:
    text = text_of(a_workload(ranks=ranks))
    assert text.startswith("#!/bin/bash\n")
    assert not re.search(r"@[A-Z_]+@", text)
    # A rank that is alone needs no step of its own.
    assert (f"--ntasks={ranks} " in text) == (ranks > 1)
    assert ("show hostnames" in text) == (ranks > 1)
    subprocess.run(["/bin/bash", "-n"], input=text.encode(), check=True)
    (setting,) = re.findall(r"^rank_program='.*?^exit 0'$", text, re.MULTILINE | re.DOTALL)
    rank = subprocess.run(
        ["/bin/bash", "-c", f'{setting}\nprintf %s "$rank_program"'],
        capture_output=True,
        check=True,
    ).stdout
    assert rank.startswith(b"key=$1 ")
    subprocess.run(["/bin/bash", "-n"], input=rank, check=True)


def test_what_ends_just_as_a_signal_comes_is_not_waited_for_for_ever() -> None:
    """Of two ranks that failed at the same moment one stayed, and with it the job and its GPUs: it
    was told to give up just as its script ended, and bash had dropped what the kernel said of it.

    Mutants: `await` does not ask which jobs run; it asks for the status once; in one run of ten,
    that it asks in `$(...)`.
    """
    text = text_of(a_workload())
    function, again = re.findall(r"^await\(\) \{\n.*?^\}$", text, re.MULTILINE | re.DOTALL)
    assert function == again
    rounds = 200
    lines = [
        *(function, "trap : USR1", "set -m", "echo ready"),
        f"for ((n = 0; n < {rounds}; n++)); do",
        *("/bin/sh -c 'exit 3' &", 'await "$!"', 'echo "${status:-lost}"', "done"),
    ]
    shell = subprocess.Popen(
        ["/bin/bash", "-c", "\n".join(lines)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert shell.stdout is not None
    with shell, shell.stdout as told:
        assert told.readline() == "ready\n"
        while shell.poll() is None:
            shell.send_signal(signal.SIGUSR1)
            with contextlib.suppress(subprocess.TimeoutExpired):
                shell.wait(PAUSE_S)
        ends = told.read().split()
    assert (shell.returncode, len(ends)) == (0, rounds)
    assert set(ends) <= {"3", "lost"}


def test_a_rank_that_is_alone_starts_few_programs_beside_its_script(tmp_path: Path) -> None:
    """Mutants: `mktemp`, `head`, `cat`, `mv` and `id` were started, at 1 to 2 ms of a node's time
    each, and `rm` for what was not there."""
    out, programs, work = (tmp_path / name for name in ("out", "programs", "work"))
    for folder in (out, programs, work):
        folder.mkdir()
    for name in ("base64", "env", "mkdir", "rm"):
        program = programs / name
        program.write_text(
            f'#!/bin/sh\necho {name} >> {tmp_path}/started\nexec {shutil.which(name)} "$@"\n'
        )
        program.chmod(0o755)
    script = "#!/bin/sh\nprintf '%s|' \"$A\" 'Grüße 🌊' \"$RANK\"; ulimit -c; exit 7\n"
    text = batch_script(
        a_workload(script, key="k", environment={"A": NASTY}),
        tag="a-tag",
        directory=str(out),
        gpus_per_node=1,
        path=str(programs),
    )
    job = {"SLURM_JOB_ID": "5", "SLURM_JOB_USER": "ana", "SLURM_PROCID": "0", "TMPDIR": str(work)}
    for _ in range(2):
        done = subprocess.run(["/bin/bash"], input=text.encode(), env=job, timeout=60)
        assert done.returncode == 7
        assert (out / "k.0.stdout").read_text() == f"{NASTY}|Grüße 🌊|0|0\n"
        assert (out / "k.0.exit").read_text() == "7\n"
    assert sorted(path.name for path in out.iterdir()) == [
        *("k-files", "k.0.exit", "k.0.stderr", "k.0.stdout", "k.shell"),
    ]
    assert list(work.iterdir()) == []
    started = Counter((tmp_path / "started").read_text().split())
    # What the first run left is removed by the second, but for the folder of files.
    assert started == {"base64": 2, "mkdir": 3, "rm": 3}


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


@pytest.mark.parametrize(
    ("image", "given"),
    [
        ("ubuntu", "ubuntu"),
        ("nvidia/cuda:12", "nvidia/cuda:12"),
        ("nvcr.io#nvidia/pytorch:24.05-py3", "nvcr.io#nvidia/pytorch:24.05-py3"),
        ("nvcr.io/nvidia/pytorch:24.05-py3", "nvcr.io#nvidia/pytorch:24.05-py3"),
        ("docker://nvcr.io/nvidia/pytorch", "nvcr.io#nvidia/pytorch"),
        ("docker://ubuntu:24.04", "ubuntu:24.04"),
        ("localhost/x", "localhost#x"),
        ("registry:5000/a/b", "registry:5000#a/b"),
        ("ana@nvcr.io#nvidia/x", "ana@nvcr.io#nvidia/x"),
        ("dockerd://x.y/z", "dockerd://x.y/z"),
        ("/images/a.b/x.sqsh", "/images/a.b/x.sqsh"),
        ("./x.y/z.sqsh", "./x.y/z.sqsh"),
        ("a.b:1", "a.b:1"),
    ],
)
def test_an_image_as_pyxis_wants_it(image: str, given: str) -> None:
    assert pyxis_image(image) == given


def with_image(image: str | None, ranks: int = 2) -> str:
    return batch_script(
        replace(a_workload(ranks=ranks, key="k"), image=image),
        tag="a-tag",
        directory="/out",
        gpus_per_node=2,
        path="/bin",
        mounts=("/home/ana", "/out"),
    )


def test_what_srun_refuses_before_anybody_listens_is_told_as_it_is(tmp_path: Path) -> None:
    """It is gone before the script looks for it, and bash forgets the pipes of what is gone.

    Mutants: the ranks are known by bash's name for the pipes, and the job ends with 0; it complains
    of a bad file descriptor three times.
    """
    programs, out = tmp_path / "programs", tmp_path / "out"
    for folder in (programs, out):
        folder.mkdir()
    for name in ("base64", "head", "id", "mkdir", "rm", "sed"):
        (programs / name).symlink_to(str(shutil.which(name)))
    for name, words in (("srun", "echo refused >&2; exit 3"), ("scontrol", "echo NodeAddr=n1")):
        (programs / name).write_text(f"#!/bin/sh\n{words}\n")
        (programs / name).chmod(0o755)
    text = batch_script(
        a_workload(ranks=2, key="k"),
        tag="a-tag",
        directory=str(out),
        gpus_per_node=2,
        path=str(programs),
    )
    start = "ranks=$!\n"
    assert text.count(start) == 1
    text = text.replace(start, f'while kill -0 "$!" 2> /dev/null; do :; done\n{start}')
    job = {"SLURM_JOB_ID": "5", "SLURM_JOB_USER": "ana", "SLURM_JOB_NODELIST": "n1"}
    done = subprocess.run(["/bin/bash"], input=text.encode(), env=job, timeout=60)
    assert (done.returncode, (out / "k.shell").read_text()) == (3, "refused\n")


def test_bash_reads_the_image_as_it_was_meant() -> None:
    """Mutant: the image stood in the shell's text in quotes."""
    image = NASTY.replace("\n", "").replace(" ", "")
    text = with_image(image)
    assert not re.search(r"@[A-Z_]+@", text)
    subprocess.run(["/bin/bash", "-n"], input=text.encode(), check=True)
    (start,) = re.findall(r"^image=.*?\ncontainer=.*?$", text, re.MULTILINE | re.DOTALL)
    printed = subprocess.run(
        ["/bin/bash", "-c", start + '\nprintf "%s\\0" "${container[@]}"'],
        capture_output=True,
        check=True,
    ).stdout.decode()
    assert printed.split("\0")[:-1] == [
        f"--container-image={image}",
        "--container-mounts=/home/ana:/home/ana,/out:/out",
        "--container-workdir=/home/ana",
    ]


def test_a_workload_without_an_image_knows_nothing_of_containers() -> None:
    assert "container" not in with_image(None).replace("need not be there in a container", "")
