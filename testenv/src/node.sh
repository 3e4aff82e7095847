# First process of the node's namespaces: prepares them, then stays to reap what others leave.
# Environment: RUNTIME (unpacked packages), NODE_LINK, NODE_ADDRESS, HOST_ADDRESS, POD_GATEWAY, SERVICE_RANGE.
set -eu

# kubelet and the network plugins write to fixed places below these.
for dir in /run /var/lib /var/log; do
    mount -t tmpfs tmpfs "$dir"
done
mount --make-rshared /

# One program that acts by the name it is called with.
mkdir -p /run/iptables
for name in iptables iptables-save iptables-restore ip6tables ip6tables-save ip6tables-restore; do
    ln -s "$RUNTIME/usr/sbin/xtables-nft-multi" "/run/iptables/$name"
done

ip link set lo up
until ip link show "$NODE_LINK" >/dev/null 2>&1; do sleep 0.05; done
ip address add "$NODE_ADDRESS/24" dev "$NODE_LINK"
ip link set "$NODE_LINK" up
ip link add cni0 type bridge
ip address add "$POD_GATEWAY/24" dev cni0
ip link set cni0 up
# There is no default route, so nothing from here gets further than the host. kube-proxy rewrites what is for a Service,
# but a packet of the node itself needs some route before that.
ip route add "$SERVICE_RANGE" via "$HOST_ADDRESS"
echo 1 >/proc/sys/net/ipv4/ip_forward

: >node.is-set-up
while :; do
    sleep 3600 &
    wait "$!"
done
