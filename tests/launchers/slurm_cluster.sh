#!/usr/bin/env bash
# A SLURM cluster of one node, this machine, for tests: slurm_cluster.sh start|stop|available
#   available   status 0 if it can be started here, else 1 and a line that says why not
#   start       starts munged, slurmctld and slurmd; prints the path of slurm.conf, for SLURM_CONF
#   stop        ends what `start` started, and removes its folder
# Debian's packages: slurmctld slurmd slurm-client munge. Nothing outside $SLURM_CLUSTER (default /tmp/mammoth-slurm) and /run/munge
# is written.
set -euo pipefail
folder="${SLURM_CLUSTER:-/tmp/mammoth-slurm}"
export SLURM_CONF="$folder/slurm.conf"

available() {
    [ "$(id -u)" = 0 ] || { echo "a SLURM cluster needs root"; return 1; }
    local program
    for program in munged slurmctld slurmd sbatch srun squeue; do
        command -v "$program" > /dev/null || { echo "no $program (Debian: slurmctld slurmd slurm-client munge)"; return 1; }
    done
    id munge > /dev/null 2>&1 || { echo "no user munge (Debian: munge)"; return 1; }
}

alive() { # NAME: whether the process that wrote its pid to NAME.pid runs
    [ -s "$folder/$1.pid" ] && kill -0 "$(cat "$folder/$1.pid")" 2> /dev/null
}

within() { # SECONDS COMMAND...: try until it succeeds
    local deadline=$((SECONDS + $1))
    shift
    until "$@" > /dev/null 2>&1; do
        [ "$SECONDS" -lt "$deadline" ] || { echo "no success: $*" >&2; return 1; }
        sleep 0.2
    done
}

configure() {
    mkdir -p "$folder/state" "$folder/spool" "$folder/munge"
    chmod 755 "$folder"
    local host memory
    host="$(hostname -s)"
    memory="$(awk '/^MemTotal/ {print int($2 / 1024 * 0.9)}' /proc/meminfo)"
    cat > "$SLURM_CONF" << END
ClusterName=mammoth
SlurmctldHost=$host(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=$folder/munge/socket
CredType=cred/munge
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
SlurmctldPort=${SLURM_PORT:-26817}
SlurmdPort=$((${SLURM_PORT:-26817} + 1))
SlurmctldPidFile=$folder/slurmctld.pid
SlurmdPidFile=$folder/slurmd.pid
SlurmctldLogFile=$folder/slurmctld.log
SlurmdLogFile=$folder/slurmd.log
StateSaveLocation=$folder/state
SlurmdSpoolDir=$folder/spool
KillWait=15
MinJobAge=10
ReturnToService=2
SchedulerParameters=sched_min_interval=100000,batch_sched_delay=0
NodeName=$host NodeAddr=127.0.0.1 CPUs=$(nproc) RealMemory=$memory State=UNKNOWN
PartitionName=tests Nodes=$host Default=YES MaxTime=1-00:00:00 State=UP
END
}

start_munge() {
    dd if=/dev/urandom of="$folder/munge/key" bs=128 count=1 status=none
    chmod 600 "$folder/munge/key"
    chown -R munge: "$folder/munge"
    setpriv --reuid=munge --regid=munge --clear-groups munged --key-file="$folder/munge/key" --socket="$folder/munge/socket" \
        --pid-file="$folder/munge/pid" --log-file="$folder/munge/log" --seed-file="$folder/munge/seed"
    within 10 munge -n -S "$folder/munge/socket"
}

start() {
    available >&2
    stop
    configure
    start_munge
    slurmctld -f "$SLURM_CONF"
    slurmd -f "$SLURM_CONF"
    within 20 sh -c 'sinfo -h -o %T | grep -qx idle' || { tail -n 5 "$folder"/slurm*.log >&2; return 1; }
    echo "$SLURM_CONF"
}

stop() {
    [ -d "$folder" ] || return 0
    if [ -s "$folder/munge/pid" ]; then cp "$folder/munge/pid" "$folder/munged.pid"; fi
    if alive slurmctld; then scancel --user="$(id -un)" 2> /dev/null || true; fi
    local name
    for name in slurmd slurmctld munged; do
        if alive "$name"; then
            kill "$(cat "$folder/$name.pid")"
            within 20 gone "$name" || kill -9 "$(cat "$folder/$name.pid")"
        fi
    done
    rm -rf "$folder"
}

gone() { ! alive "$1"; }

case "${1:-}" in
    start | stop | available) "$1" ;;
    *) echo "error: usage: slurm_cluster.sh start|stop|available" >&2; exit 2 ;;
esac
