#!/usr/bin/env bash
# token.sh USER [SECONDS]: prints a JSON web token for the UNIX user, as Slurm itself makes it.
set -euo pipefail
KEEP_SETTINGS=yes
. "$(dirname "${BASH_SOURCE[0]}")/settings.sh"
must_be_root
[ $# -ge 1 ] && [ $# -le 2 ] || complain "usage: token.sh USER [SECONDS]"
token=$(timeout 30 scontrol token username="$1" lifespan="${2:-3600}") ||
  complain "Slurm gave no token for $1."
echo "${token#SLURM_JWT=}"
