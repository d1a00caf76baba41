# Takes the fabric's netplan file out of force, or leaves the network as it was.
# Usage: withdraw.sh NETDEV...
set -u
file=/etc/netplan/60-sparkwright-fabric.yaml
twins=$*
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

fail() { echo "$1" >&2; exit 1; }

# Addresses and default routes of every other interface: what must not be lost.
lan() {
  ip -o -4 address show scope global |
    awk -v fabric=" $twins " '!index(fabric, " " $2 " ") {print $2, $4}'
  ip -4 route show default | sed -n 's/^default \(via [^ ]* dev [^ ]*\).*/default \1/p'
}

# Neither touches an interface whose settings have not changed, as `netplan apply` would.
reload() {
  netplan generate || return
  ! systemctl is-active --quiet NetworkManager || nmcli connection reload || return
  ! systemctl is-active --quiet systemd-networkd || networkctl reload
}

back() {
  cp -a "$work/previous" "$file"
  netplan apply >"$work/log" 2>&1 || fail "$1 So did the previous settings: $(cat "$work/log")"
  fail "$1 The fabric's settings are in force again."
}

cp -a "$file" "$work/previous" || fail "No copy of $file could be made; nothing was changed."
lan >"$work/before"
rm "$file"
reload >"$work/log" 2>&1 || back "The network was not reloaded: $(cat "$work/log")"
for netdev in $twins; do
  [ -e "/sys/class/net/$netdev" ] || continue
  ip -4 address flush dev "$netdev"
  # What the driver starts with, and whatever sets the interface now would set otherwise.
  ip link set "$netdev" mtu 1500
done
tries=0
until lost=$(lan | grep -Fxv -f - "$work/before"); [ -z "$lost" ]; do
  tries=$((tries + 1))
  [ "$tries" -le 60 ] || back "30 s later the LAN lacked $(echo "$lost" | paste -s -d ';')."
  sleep 0.5
done
