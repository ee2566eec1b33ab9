"""Jobs in container images: what srun is really given, and what becomes of a start that fails.

The bed has no pyxis. Where it must seem to have one, a program called srun stands before Slurm's
own in the jobs' PATH: it writes down its arguments, looks whether what is to be mounted is there,
takes the options of pyxis out, and becomes Slurm's srun with the rest.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from builders.connector_builders import a_workload, eventually, until_released
from builders.loop_builders import a_job
from builders.portal_builders import Company, a_company, a_user
from builders.slurm_loop import SlurmLoop
from conformance.rigs import SlurmRig
from connectors.protocol import Outcome, Workload
from jobs.models import Attempt, Job

pytestmark = pytest.mark.slurm

_SRUN = r"""#!/bin/bash
printf '%s\0' "$@" > {calls}/$SLURM_JOB_ID
rest=()
for argument in "$@"; do
  case $argument in
    --container-mounts=*)
      IFS=, read -ra mounts <<< "${{argument#*=}}"
      for mount in "${{mounts[@]}}"; do
        [ -d "${{mount%%:*}}" ] || {{ echo "no ${{mount%%:*}} to mount" >&2; exit 1; }}
      done ;;
    --container-workdir=*) cd "${{argument#*=}}" || exit 1 ;;
    --container-image=broken) echo 'pyxis: failed to import docker image: broken' >&2; exit 1 ;;
    --container-image=slow) : > {calls}/importing; exec sleep 1000 ;;
    --container-image=*) ;;
    *) rest+=("$argument") ;;
  esac
done
exec /usr/bin/srun "${{rest[@]}}"
"""


@pytest.fixture
def images(slurm_rig: SlurmRig) -> Callable[..., Workload]:
    """Opens the rig as a cluster with pyxis; makes workloads with an image."""
    programs, calls = slurm_rig.scratch / "bin", slurm_rig.scratch / "calls"
    programs.mkdir()
    calls.mkdir()
    calls.chmod(0o777)
    srun = programs / "srun"
    srun.write_text(_SRUN.format(calls=calls))
    srun.chmod(0o755)
    slurm_rig.options |= {
        "containers": "pyxis",
        "container_mounts": [str(slurm_rig.scratch)],
        "path": f"{programs}:/usr/local/bin:/usr/bin:/bin",
    }
    slurm_rig.connector = slurm_rig.open()

    def make(image: str, script: str = "exit 0", ranks: int = 1) -> Workload:
        return replace(a_workload(script, ranks=ranks, mgpu=1000), image=image)

    return make


def arguments_of(rig: SlurmRig, native_id: str) -> list[str]:
    path = rig.scratch / "calls" / native_id
    return [word.decode() for word in path.read_bytes().split(b"\0")[:-1]]


def options_of(rig: SlurmRig, native_id: str) -> dict[str, str]:
    found = [word for word in arguments_of(rig, native_id) if word.startswith("--container-")]
    return dict(word.removeprefix("--container-").split("=", 1) for word in found)


def test_the_image_the_mounts_and_the_directory_reach_srun(
    slurm_rig: SlurmRig, images: Callable[..., Workload]
) -> None:
    """And the ranks run, with what the script asks for and where it starts."""
    user = slurm_rig.cluster_user
    assert user is not None
    home = slurm_rig.bed.working_directory.replace("{user}", user)
    outputs = slurm_rig.bed.output_root.replace("{user}", user)
    workload = images("docker://nvcr.io/nvidia/pytorch:24.05-py3", 'echo "$RANK $PWD"', ranks=2)
    native_id = slurm_rig.start(workload)
    seen = until_released(slurm_rig.connector, workload.key)
    assert (seen.outcome, seen.exit_codes) == (Outcome.SUCCEEDED, {0: 0, 1: 0})
    assert [slurm_rig.log(workload.key, rank=rank) for rank in (0, 1)] == [
        f"0 {home}\n",
        f"1 {home}\n",
    ]
    assert options_of(slurm_rig, native_id) == {
        "image": "nvcr.io#nvidia/pytorch:24.05-py3",
        "mounts": ",".join(f"{path}:{path}" for path in (home, outputs, slurm_rig.scratch)),
        "workdir": home,
    }


def test_an_image_is_one_word_of_the_command_line_whatever_it_holds(
    slurm_rig: SlurmRig, images: Callable[..., Workload]
) -> None:
    """Mutant: the image stood in the shell's text in single quotes; what is behind a quote of its
    own ran."""
    proof = slurm_rig.scratch / "proof"
    nasty = f"x';touch${{IFS}}{proof};'$(touch{{,}}{proof})`id`\"\\*?[a]~&|<>#@KEY@%s--exclusive"
    workload = images(nasty)
    native_id = slurm_rig.start(workload)
    assert until_released(slurm_rig.connector, workload.key).outcome is Outcome.SUCCEEDED
    assert options_of(slurm_rig, native_id)["image"] == nasty
    assert not proof.exists()


def test_without_an_image_srun_is_given_no_option_of_pyxis(
    slurm_rig: SlurmRig, images: Callable[..., Workload]
) -> None:
    workload = replace(images("x", ranks=2), image=None)
    native_id = slurm_rig.start(workload)
    assert until_released(slurm_rig.connector, workload.key).outcome is Outcome.SUCCEEDED
    assert options_of(slurm_rig, native_id) == {}


def test_an_image_that_cannot_be_had_is_a_failed_start_that_says_why(
    slurm_rig: SlurmRig, images: Callable[..., Workload]
) -> None:
    workload = images("broken", ranks=2)
    slurm_rig.start(workload)
    seen = until_released(slurm_rig.connector, workload.key)
    assert (seen.outcome, seen.exit_codes) == (Outcome.START_FAILED, {})
    assert seen.message == (
        "rank 0: srun --container-image=broken: pyxis: failed to import docker image: broken"
    )


def test_a_srun_without_pyxis_is_a_failed_start_that_names_the_option(
    slurm_rig: SlurmRig, images: Callable[..., Workload]
) -> None:
    """Slurm's own srun, really asked."""
    del slurm_rig.options["path"]
    slurm_rig.connector = slurm_rig.open()
    workload = images("nvcr.io#nvidia/pytorch:24.05-py3", ranks=2)
    slurm_rig.start(workload)
    seen = until_released(slurm_rig.connector, workload.key)
    assert (seen.outcome, seen.exit_codes) == (Outcome.START_FAILED, {})
    assert seen.message.startswith(
        "rank 0: srun --container-image=nvcr.io#nvidia/pytorch:24.05-py3: srun: unrecognized "
        "option '--container-image=nvcr.io#nvidia/pytorch:24.05-py3'"
    )


def test_a_script_that_fails_in_its_image_is_no_failed_start(
    slurm_rig: SlurmRig, images: Callable[..., Workload]
) -> None:
    workload = images("x", "exit 3")
    slurm_rig.start(workload)
    seen = until_released(slurm_rig.connector, workload.key)
    assert (seen.outcome, seen.exit_codes) == (Outcome.FAILED, {0: 3})


def test_a_stop_while_the_image_is_fetched_is_a_stop(
    slurm_rig: SlurmRig, images: Callable[..., Workload]
) -> None:
    """Though no rank has begun."""
    workload = images("slow")
    native_id = slurm_rig.start(workload)
    eventually((slurm_rig.scratch / "calls" / "importing").exists)
    slurm_rig.connector.stop(workload.key, native_id=native_id)
    seen = until_released(slurm_rig.connector, workload.key)
    assert (seen.outcome, seen.message) == (Outcome.STOPPED, "")


@pytest.fixture
def company() -> Company:
    company = a_company()
    company.cluster.nodes.all().delete()
    return company


@pytest.mark.django_db(transaction=True)
def test_a_job_with_an_image_goes_only_where_images_run(
    slurm_rig: SlurmRig, images: Callable[..., Workload], company: Company
) -> None:
    """First the cluster says that it has no pyxis: the job waits, says why, and nothing is sent."""
    slurm_rig.options["containers"] = None
    loop = SlurmLoop(company.cluster, slurm_rig)
    bob = a_user(company.organization, "bob")
    loop.let_in(bob, company.nlp)
    job = a_job(company.nlp, bob, company.pool, image="nvcr.io#nvidia/x:1", script="echo $PWD")
    loop.turn()
    stored = Job.objects.get(pk=job.pk)
    assert stored.explanation is not None
    assert (stored.explanation["code"], stored.explanation["sentence"]) == (
        "cluster_unavailable",
        "No cluster with such GPUs that runs container images and on which you have a user "
        "accepts jobs now.",
    )
    assert not Attempt.objects.exists()
    slurm_rig.options["containers"] = "pyxis"
    slurm_rig.connector = slurm_rig.open()
    loop.cluster.options = slurm_rig.options
    loop.cluster.save(update_fields=["options"])
    loop.until(job, "succeeded", "failed")
    native_id = Attempt.objects.get(job=job).native_id
    assert native_id is not None
    assert job.state == "succeeded"
    assert options_of(slurm_rig, native_id)["image"] == "nvcr.io#nvidia/x:1"
