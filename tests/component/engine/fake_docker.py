"""Docker, and the program that starts an engine's container, as scripts."""

# A container is a process; the file tells which. Its death is seen when its parent has seen it.
# What a command does is done at once; with a file slow-COMMAND it ends once that is gone.
DOCKER = """#!/bin/sh
echo "$*" >> "$STATE/docker.log"
for name; do :; done
file=$STATE/container
case $name in *-standby) file=$STATE/standby ;; esac
pid=$(cat "$file" 2>/dev/null)
lives() { [ "$(ps -o stat= -p "$pid" | cut -c 1)" ] && ! ps -o stat= -p "$pid" | grep -q Z; }
case $1 in
  version)
    [ ! -e "$STATE/no-docker" ] || { echo 'Cannot connect to the Docker daemon' >&2; exit 1; } ;;
  kill) [ -n "$pid" ] && kill -9 "$pid" ;;
  rm)
    rm "$STATE/removing" 2>/dev/null && { echo 'removal is already in progress' >&2; exit 1; }
    [ -n "$pid" ] && kill -9 "$pid" 2>/dev/null; rm -f "$file" ;;
  rename) mv "$STATE/standby" "$STATE/container" ;;
  attach) while lives; do sleep 0.05; done ;;
  stop)
    while [ -e "$STATE/draining" ]; do sleep 0.05; done
    kill -15 "$pid"
    while lives; do sleep 0.05; done ;;
esac
status=$?
while [ -e "$STATE/slow-$1" ]; do sleep 0.05; done
exit $status
"""
RUN = """#!/bin/sh
if [ "$SPARKWRIGHT_STANDBY" ]; then
  while [ -e "$STATE/slow-run" ]; do sleep 0.05; done
  echo $$ > "$STATE/standby"
  [ ! -e "$STATE/never-waits" ] || exit 1
  [ ! -e "$SOCKETS" ] || touch "$SOCKETS/standby.sock" "$SOCKETS/waiting"
  while [ ! -e "$WORD/go" ]; do sleep 0.05; done
  rm "$SOCKETS/waiting"
else
  echo "$SPARK" >> "$STATE/../../starts"
  echo $$ > "$STATE/container"
fi
env > "$STATE/environment"
[ ! -e "$STATE/status" ] || exit "$(cat "$STATE/status")"
"""
