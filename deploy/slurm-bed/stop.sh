#!/usr/bin/env bash
# Stops the bed that start.sh started; with --purge it also removes the bed's files and, unless
# another bed is running, the users that start.sh made.
set -euo pipefail
KEEP_SETTINGS=yes
. "$(dirname "${BASH_SOURCE[0]}")/settings.sh"
. "$HERE/daemons.sh"
must_be_root
purge=no
for word in "$@"; do
  case $word in
    --purge) purge=yes ;;
    *) complain "stop.sh knows --purge and nothing else, not '$word'." ;;
  esac
done
[ -d "$BED" ] || { say "nothing was ever started under $BED"; exit 0; }
[ "$(stat -c %u "$BED")" -eq 0 ] && [ ! -L "$BED" ] || complain "$BED is no folder of root's: not ours."
take_lock

no_jobs() { [ -z "$(timeout 10 squeue -h -t R,CG,PD -o %i 2>/dev/null)" ]; }

# A bed that will be started again should not remember jobs whose processes are gone.
if [ "$purge" = no ] && runs ctld; then
  kill -CONT "$(pid_of ctld)"
  for state in PENDING RUNNING; do timeout 20 scancel --state="$state" >/dev/null 2>&1 || true; done
  within 20 no_jobs || say "some jobs did not end in time: their processes are killed."
fi
end_daemon minter
end_daemon rest
# Slurm's controller may wait for nodes that do not answer; by then it has written its state.
end_daemon ctld 10
homes=$(namespaces $(node_names) | tr '\n' ' ')
# Ask all nodes at once, then see each one off.
for name in $(node_names); do
  pid=$(pid_of "$name") && kill -TERM "$pid" 2>/dev/null && kill -CONT "$pid" 2>/dev/null || true
done
for name in $(node_names); do end_daemon "$name"; done
end_leftovers $homes
end_daemon dbd 60
end_daemon sql 60
end_daemon munge
rm -f "$BED/bed.json"

if [ "$purge" = yes ]; then
  if pgrep -u "$REST_USER" >/dev/null 2>&1; then
    say "another bed is running: its users stay"
  else
    for user in $(getent passwd | awk -F: -v mark="$USER_MARK" '$5 == mark {print $1}'); do
      userdel "$user" || say "the user $user is in use and stays"
    done
  fi
  rm -rf --one-file-system -- "$BED"
  say "stopped, and $BED is removed"
else
  say "stopped; the files stay in $BED"
fi
