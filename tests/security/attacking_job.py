"""What a malicious job tries; printed as JSON: by attack, what it got, or null where it failed.

Run as a job's script. ATTACK says what to look for: {secret, open_secret, marker, victim, attempts,
neighbour}. Uses the standard library of whatever Python runs it.
"""

import contextlib
import errno
import json
import os
import signal
import sys


def reads(path):
    with open(path, "rb") as file:
        return file.read().decode(errors="replace")[:100]


def kills(pid):
    os.kill(pid, signal.SIGKILL)
    return f"killed {pid}"


def finds_in_processes(marker, own):
    """Another process whose environment has the marker."""
    for name in os.listdir("/proc"):
        if name.isdigit() and int(name) != own:
            with contextlib.suppress(OSError):
                if marker in reads_all(f"/proc/{name}/environ"):
                    return f"/proc/{name}/environ"
    return None


def reads_all(path):
    with open(path, "rb") as file:
        return file.read().decode(errors="replace")


def sees_processes():
    """Processes that are neither ours nor the sandbox's own process 1."""
    seen = {int(name) for name in os.listdir("/proc") if name.isdigit()}
    return sorted(seen - {1, os.getpid(), os.getppid()}) or None


def writes(path):
    with open(path, "w", encoding="ascii") as file:
        file.write('{"phase": "ended", "outcome": "succeeded", "released_at": 1}')
    return f"wrote {path}"


def renames_folder():
    os.rename("../work", "../work2")
    return "renamed its folder"


def opens_the_folder():
    os.chmod("..", 0o777)
    return "made the folder of the state writable"


def lists_others(attempts, own):
    return sorted(set(os.listdir(attempts)) - {own}) or None


def becomes_root():
    os.setuid(0)
    return "root"


def forks(most):
    """How many children it can have at once, looking for more than `most`."""
    reader, writer = os.pipe()
    children = []
    try:
        while len(children) <= most:
            pid = os.fork()
            if pid == 0:
                os.close(writer)
                os.read(reader, 1)
                os._exit(0)
            children.append(pid)
        return f"{len(children)} processes"
    except BlockingIOError:
        return None
    finally:
        os.close(writer)
        for pid in children:
            os.waitpid(pid, 0)


def fills_the_disk(bytes_max):
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    with open("huge", "wb") as file:
        file.seek(bytes_max)
        file.write(b"x")
        file.flush()
    return f"a file of more than {bytes_max} bytes"


def attempt_of(attack, *arguments):
    try:
        return attack(*arguments)
    except OSError as error:
        return None if error.errno in _REFUSED else f"unexpected: {error}"


_REFUSED = (
    *(errno.EACCES, errno.EPERM, errno.ENOENT, errno.ESRCH, errno.EROFS, errno.EFBIG),
    *(errno.EXDEV, errno.EBUSY, errno.EINVAL),
)


def main():
    target = json.loads(os.environ["ATTACK"])
    own = os.path.basename(os.path.dirname(os.getcwd()))
    got = {
        "reads settings": attempt_of(reads, target["secret"]),
        "reads what anybody may read of the portal": attempt_of(reads, target["open_secret"]),
        "signals the portal": attempt_of(kills, target["victim"]),
        "reads the portal's environment": attempt_of(reads, f"/proc/{target['victim']}/environ"),
        "finds secrets in processes": attempt_of(finds_in_processes, target["marker"], os.getpid()),
        "sees other processes": attempt_of(sees_processes),
        "looks into process 1": attempt_of(reads, "/proc/1/environ"),
        "leaves by process 1": attempt_of(os.listdir, "/proc/1/root/"),
        "writes its own end": attempt_of(writes, "../end.json"),
        "writes its own state": attempt_of(writes, f"{target['attempts']}/{own}/state.json"),
        "writes the record of its rank": attempt_of(writes, "../ranks/0.exit"),
        "renames its folder": attempt_of(renames_folder),
        "opens the folder of its state": attempt_of(opens_the_folder),
        "sees other jobs": attempt_of(lists_others, target["attempts"], own),
        "reads another job's file": attempt_of(reads, target["neighbour"]),
        "becomes root": attempt_of(becomes_root),
        "forks without end": attempt_of(forks, 200),
        "fills the disk": attempt_of(fills_the_disk, 64 << 20),
    }
    json.dump(got, sys.stdout)


if __name__ == "__main__":
    main()
