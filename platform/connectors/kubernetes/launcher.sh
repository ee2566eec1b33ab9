# The first process of every rank's container: it starts the script and tells how it ended.
#
#   sh -c THIS tidegate SIGNAL WHOM GRACE_S LIMIT_S AHEAD_CS FIRST_RANK SCRIPT NOTICE LONGER \
#     MESSAGE [ARGUMENT...]
#
# SIGNAL is the notice: when file NOTICE says "given" and AHEAD_CS hundredths of a second (at most
# half of the limit) before LIMIT_S (0: no limit). Until then file LONGER may name a longer limit. It goes once to each process of the script; to the script's own shell only if
# that handles it. If WHOM is "shell", that process alone gets it. TERM from outside is passed on in
# the same way, but never a second time. What outlives the script after a notice has the rest of GRACE_S, or of
# the limit that gave it. At LIMIT_S all is killed. MESSAGE gets one line of
# JSON at the end: {"exit": CODE} or {"signal": NUMBER}, with "noticed": true where that happened and
# "timed_out": true where the limit was reached or its notice had been given, or {"start_failed": "why"}. The exit code is the script's, but 0 after a
# notice: other ranks may still be saving their work, and a rank that fails would end them. A script
# that TERM alone told to end has not done its work, whatever it says: 143 in place of 0, or
# Kubernetes would take the rank for done, and the others would wait for it.
#
# It is for any POSIX shell with nothing but coreutils or BusyBox beside it. A shell that knows no
# job control without a terminal (dash, BusyBox) gives the script a group of its own by setsid, and
# has it ignore INT and QUIT, which only GNU env can undo. As for every shell, a script that exits
# with more than 128 by itself looks like one that was killed by a signal.
signal=$1 whom=$2 grace_s=$3 limit_s=$4 ahead=$5 first_rank=$6 script=$7
shift 7
notice_file=$1 longer_file=$2 message_file=$3
shift 3
own_path=${PATH-} has_path=${PATH+1}
programs=${TIDEGATE_PROGRAMS-}
if [ -n "$programs" ]; then
  own_path=$programs:${own_path:-/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin}
  has_path=1
  unset TIDEGATE_PROGRAMS
fi
PATH=${PATH:+$PATH:}/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin

# Variables that nobody but the script may read: each in a file of its name.
if [ -n "${TIDEGATE_PRIVATE-}" ]; then
  for file in "$TIDEGATE_PRIVATE"/*; do
    value=
    [ ! -r "$file" ] || IFS= read -r value < "$file"
    [ -z "$value" ] || export "${file##*/}=$value"
  done
  unset TIDEGATE_PRIVATE
fi

tell() { { printf '%s\n' "$1" > "$message_file"; } 2> /dev/null; }
refuse() {
  printf 'tidegate: %s\n' "$1" >&2
  tell "{\"start_failed\": \"$1\"}"
  exit 127
}

pid= target= asked= noticed= stopped= due= expired= woken= watcher= told_at= heard= at=0
# Hundredths of a second that only grow.
now() {
  read -r up _ < /proc/uptime || return
  at=$((${up%.*} * 100 + 1${up#*.} - 100))
}
# The one form in which all shells take a group: BusyBox fails at "--", dash at a group after -s.
send() { kill "-$1" "$target" || kill "-$1" "$pid"; }
# Sets `members` to the processes of the script, and `program` to what runs it: all that is below this
# shell but the watcher, and what is in the script's group.
look() {
  rows= members=" $$ " grown=1
  for file in /proc/[0-9]*/stat; do
    line=
    read -r line < "$file"
    name=${line#*"("} fields=${line##*") "}
    name=${name%")"*} one=${line%% *}
    state=${fields%% *} fields=${fields#* }
    parent=${fields%% *} fields=${fields#* }
    case $state in [ZX] | '') continue ;; esac
    [ "$one" != "$watcher" ] || continue
    [ "$one" != "$pid" ] || program=$name
    if [ "${fields%% *}" = "$pid" ]; then members="$members$one "; fi
    # Our own srun: its tasks are below it, and hear what it would pass on.
    case $name in srun) steps="$steps$one " ;; esac
    rows="$rows $one:$parent"
  done
  while [ -n "$grown" ]; do
    grown=
    for row in $rows; do
      case $members in
        *" ${row%:*} "*) ;;
        *" ${row#*:} "*) members="$members${row%:*} " grown=1 ;;
      esac
    done
  done
  members=${members#" $$ "}
}
# A shell that runs the script and does not handle the notice would die of it, and its program lose
# the rest of the script.
may_hear() {
  case $program in
    ash | bash | busybox | csh | dash | fish | ksh | mksh | rbash | sh | tcsh | zsh) ;;
    *) return 0 ;;
  esac
  case $1 in HUP) bit=0 ;; INT) bit=1 ;; QUIT) bit=2 ;; USR1) bit=9 ;; USR2) bit=11 ;; *) bit=14 ;; esac
  while read -r field value; do
    # The status of a bare "return" in a trap is the one from before the trap.
    if [ "$field" = SigCgt: ]; then return $((1 - (0x${value#????????????} >> bit & 1))); fi
  done < "/proc/$pid/status"
  return 1
}
announce() {
  now
  told_at=$at heard=$1 program= steps=' '
  look
  for one in ${members:-"$pid"}; do
    case $steps in *" $one "*) continue ;; esac
    if [ "$one" = "$pid" ]; then
      [ "$whom" = shell ] || may_hear "$1" || continue
    elif [ "$whom" = shell ]; then
      continue
    fi
    kill -s "$1" "$one"
  done
}
notice() {
  woken=1 asked=1
  [ -n "$pid" ] || return
  noticed=1
  [ -n "$told_at" ] || announce "$signal"
}
# The limit's notice. What ends after it was ended by the limit, whatever its exit code.
expect() {
  [ -n "$noticed" ] || due=1
  notice
}
stop() {
  woken=1 stopped=1
  [ -z "$pid" ] || [ "$heard" = TERM ] || announce TERM
}
expire() {
  woken=1 expired=1
  send KILL
  kill -s KILL "$pid"
}
trap notice URG
trap expect VTALRM
trap stop TERM
trap expire ALRM
trap : HUP INT QUIT USR1 USR2

if [ -n "${TIDEGATE_POD_INDEX-}" ]; then
  RANK=$((first_rank + TIDEGATE_POD_INDEX))
  NODE_RANK=$RANK
  export RANK NODE_RANK
  unset TIDEGATE_POD_INDEX
fi

# What the kernel would do with the first line, so that what is missing can be named.
[ -r "$script" ] || refuse 'the script did not reach the container'
line=
IFS= read -r line < "$script"
interpreter=/bin/sh argument=
case $line in
  '#!'*"$(printf '\r')")
    refuse 'the lines of the script end with carriage returns: save it with Unix line ends'
    ;;
  '#!'*)
    line=${line#??}
    while :; do
      case $line in
        [' 	']*) line=${line#?} ;;
        *[' 	']) line=${line%?} ;;
        *) break ;;
      esac
    done
    if [ -n "$line" ]; then
      interpreter=${line%%[ 	]*}
      argument=${line#"$interpreter"}
      while :; do
        case $argument in [' 	']*) argument=${argument#?} ;; *) break ;; esac
      done
    fi
    ;;
esac
missing() {
  case $1 in
    *[!A-Za-z0-9._/+@:-]*) refuse 'the interpreter of the script is no program in the image' ;;
    *) refuse "$(printf '%.200s' "$1") is no program in the image" ;;
  esac
}
{ [ -f "$interpreter" ] && [ -x "$interpreter" ]; } || missing "$interpreter"
case $interpreter in
  */env)
    case $argument in
      '' | -* | *=* | *[' 	']*) ;;
      *) (PATH=$own_path; command -v "$argument") > /dev/null 2>&1 || missing "$argument" ;;
    esac
    ;;
esac

# A login shell sets PATH anew, and would not find the programs of a batch job.
is_login=
case $argument in
  *[' 	']*) ;;
  --login | -l* | -[!-]*l*) is_login=$programs ;;
esac
case ${interpreter##*/} in ash | bash | dash | ksh | sh | zsh) ;; *) is_login= ;; esac
if [ -n "$is_login" ]; then
  set -- "$interpreter" "$argument" -c "PATH=$programs:\$PATH; . \"\$0\"" "$script" "$@"
else
  set -- "$interpreter" ${argument:+"$argument"} "$script" "$@"
fi
if [ -n "$programs" ]; then
  SLURM_JOB_UID=$(id -u)
  SLURM_JOB_GID=$(id -g)
  SLURM_JOB_START_TIME=$(date +%s)
  # As in Slurm, a job without a limit ends in a year.
  limit_or_year_s=$limit_s
  [ "$limit_s" -ne 0 ] || limit_or_year_s=31536000
  SLURM_JOB_END_TIME=$((SLURM_JOB_START_TIME + limit_or_year_s))
  export SLURM_JOB_UID SLURM_JOB_GID SLURM_JOB_START_TIME SLURM_JOB_END_TIME
fi
set -m 2> /dev/null
case $- in
  *m*) sign=- ;;
  *)
    sign=
    if command -v setsid > /dev/null; then
      sign=-
      if env --default-signal=INT,QUIT true 2> /dev/null; then
        set -- "$(command -v env)" --default-signal=INT,QUIT "$@"
      fi
      set -- "$(command -v setsid)" "$@"
    fi
    ;;
esac
(
  if [ -n "$has_path" ]; then PATH=$own_path; else unset PATH; fi
  exec "$@"
) < /dev/null &
pid=$!
set +m
# Without a group the script's process stands for it, or all of the container but this process.
if [ -n "$sign" ]; then target=-$pid; elif [ $$ -eq 1 ]; then target=-1; else target=$pid; fi
# From here on the shell has nothing to say but how its helpers were ended.
exec 2> /dev/null
[ -z "$asked" ] || notice
[ -z "$stopped" ] || stop

now
start=$at
# Sets `notice_at` to the hundredths of a second from the start to the notice of the limit.
plan() {
  notice_at=$((limit_s * 50))
  [ "$ahead" -ge "$notice_at" ] || notice_at=$((limit_s * 100 - ahead))
}
plan
(
  trap '' HUP INT QUIT USR1 USR2 URG VTALRM TERM
  is_told=
  while kill -0 $$ && sleep 1; do
    at=$((at + 100))
    now
    if [ -z "$is_told" ]; then
      word=
      read -r word < "$longer_file"
      case $word in
        '' | *[!0-9]*) ;;
        *) [ "$limit_s" -eq 0 ] || [ "$word" -le "$limit_s" ] || { limit_s=$word && plan; } ;;
      esac
      word=
      read -r word < "$notice_file"
      [ "$limit_s" -eq 0 ] || [ "$word" = given ] || [ $((at - start)) -lt $notice_at ] || word=due
      [ "$word" != given ] || { is_told=1 && kill -s URG $$; }
      [ "$word" != due ] || { is_told=1 && kill -s VTALRM $$; }
    fi
    [ "$limit_s" -eq 0 ] || [ $((at - start)) -lt $((limit_s * 100)) ] || kill -s ALRM $$
  done
) < /dev/null > /dev/null &
watcher=$!

# `wait` also returns when a trap ran and, in some shells, when the script was suspended.
while :; do
  woken=
  wait "$pid"
  code=$?
  kill -0 "$pid" || break
  [ -n "$woken" ] || sleep 1
done
taken=$stopped
wait "$pid"
again=$?
[ "$again" -eq 127 ] || code=$again
# What the script leaves behind has heard the notice, and keeps the rest of its grace.
if [ -n "$told_at" ]; then
  while look && [ -n "$members" ] && [ -z "$expired" ]; do
    now
    [ -n "$due" ] || [ "$at" -lt $((told_at + grace_s * 100)) ] || break
    sleep 0.1 || sleep 1
  done
  [ -z "$members" ] || kill -s KILL $members
fi
kill -s KILL "$watcher"
# What the script left behind in its group; what left the group ends with the container.
[ "$target" != "-$pid" ] || kill -KILL "$target"

result="\"exit\": $code" extra=
[ "$code" -le 128 ] || [ "$code" -gt 192 ] || result="\"signal\": $((code - 128))"
[ -z "$noticed" ] || extra=', "noticed": true'
[ -z "$due$expired" ] || extra="$extra, \"timed_out\": true"
tell "{$result$extra}"
if [ -n "$noticed$expired" ]; then code=0; elif [ "$code" -eq 0 ] && [ -n "$taken" ]; then code=143; fi
exit "$code"
