"""What a script takes for granted, by reading its lines. The shell is the judge of commands."""

from __future__ import annotations

import pytest

from jobs.submission.script_needs import LINES_MAX, NEEDS_MAX, NeedKind, needs_of

P, C, V, F = NeedKind.PROGRAM, NeedKind.SLURM_COMMAND, NeedKind.SLURM_VARIABLE, NeedKind.FOLDER
O = NeedKind.SRUN_OPTION  # noqa: E741


@pytest.mark.parametrize(
    ("line", "needs"),
    [
        ("module load cuda/12.1", {(P, "module")}),
        ("ml purge; ml gcc", {(P, "module")}),
        ("if true; then module load x; fi", {(P, "module")}),
        ("OMP_NUM_THREADS=4 A=b mpirun -np 4 ./a.out", {(P, "mpirun")}),
        ("exec mpiexec ./a.out", {(P, "mpirun")}),
        ("cd work && conda activate env || exit 1", {(P, "conda")}),
        ('eval "$(conda shell.bash hook)"', {(P, "conda")}),
        ("srun --mpi=pmix singularity exec a.sif", {(C, "srun"), (P, "singularity")}),
        ("srun -n $N $OPTIONS python singularity.py", {(C, "srun")}),
        ("srun --time=1 bash -c 'a; b'", {(C, "srun")}),
        ("srun -w `hostname` $(date) -l; srun", {(C, "srun")}),
        ("srun --nope x", {(C, "srun"), (O, "--nope is not an option of srun.")}),
        (
            "hosts=$(scontrol show hostnames $SLURM_NODELIST)",
            {(C, "scontrol"), (V, "SLURM_NODELIST")},
        ),
        ("hosts=`scontrol show hostnames`", {(C, "scontrol")}),
        ("/usr/bin/srun hostname &", {(C, "srun")}),
        ("sbatch --dependency=afterok:$SLURM_JOB_ID next.sh", {(C, "sbatch"), (V, "SLURM_JOB_ID")}),
        ("echo ${SLURM_PROCID} ${SLURM_NNODES:-1} ${SLURM_NTASKS-2}", {(V, "SLURM_PROCID")}),
        ("echo $SLURM_ARRAY_TASK_ID ${SLURM_ARRAY_JOB_ID}", {(V, "SLURM_ARRAY_JOB_ID")}),
        (
            "python train.py --data /data/imagenet --out=/scratch/$USER/x",
            {(F, "/data/imagenet"), (F, "/scratch")},
        ),
        ("cp /usr/share/x /tmp/y /dev/null; cat /etc/hosts", set()),
        ("curl https://example.org/a/b > out; a=$HOME/data b=s3://bucket/key", set()),
        ("# module load x; srun y $SLURM_PROCID /data/z", set()),
        ("echo module load; command -v module", set()),
        ("echo a  # module load", set()),
        ("python srun.py; mysrun; srun-helper", set()),
        ("modules=3; module_dir=x", set()),
    ],
)
def test_the_needs_of_a_line(line: str, needs: set[tuple[NeedKind, str]]) -> None:
    """Planted: words anywhere, comments, variables with a value to fall back on, system folders."""
    found = needs_of(f"#!/bin/bash\n{line}\n")
    assert {(need.kind, need.name) for need in found} == needs
    assert {need.line for need in found} <= {2}


def test_each_need_is_named_once_at_its_first_line() -> None:
    found = needs_of("#!/usr/bin/env bash\nset -e\n  srun a\nsrun b\nmodule load x\n")
    assert [(need.line, need.text, need.name) for need in found] == [
        (3, "srun a", "srun"),
        (5, "module load x", "module"),
    ]


def test_a_command_goes_on_after_a_backslash() -> None:
    """Planted: each line by itself, whose first word is no command."""
    found = needs_of("srun \\\n  -l \\\n  conda\nmodule \\")
    assert [(need.line, need.name) for need in found] == [(1, "srun"), (1, "conda"), (4, "module")]


def test_the_text_of_here_documents_is_no_command() -> None:
    script = "cat > x.sh <<'END'\nmodule load a\nsrun b\nEND\nmpirun c\ncat << E\nsrun\n"
    assert [need.name for need in needs_of(script)] == ["mpirun"]


def test_scripts_of_other_languages_need_only_variables() -> None:
    script = (
        "#!/usr/bin/env python3\nimport os\nsrun = 1; module = 2\n"
        'rank = int(os.environ["SLURM_PROCID"])\n'
        'size = os.environ.get("SLURM_NTASKS", "1")\nopen("/data/x")\n'
    )
    assert [(need.line, need.kind, need.name) for need in needs_of(script)] == [
        (4, V, "SLURM_PROCID")
    ]


def test_needs_are_bounded() -> None:
    many = "".join(f"cat /data/{number}\n" for number in range(NEEDS_MAX + 9))
    assert len(needs_of(many)) == NEEDS_MAX
    assert needs_of("\n" * LINES_MAX + "srun x\n") == ()
