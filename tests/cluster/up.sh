#!/bin/sh
# up.sh [DIR]: three NATS servers and three nodes on this machine, with all they keep in DIR, until Ctrl-C. docs/CLUSTER.md says more.
set -eu; umask 077; mkdir -p "${1:-cluster}"; cd "${1:-cluster}"; here=$PWD; trap 'kill $(jobs -p); wait' EXIT
[ -d nats ] || tideline cluster nats-config --peers m1=127.0.0.1,m2=127.0.0.2,m3=127.0.0.3 --name chat --out nats --store "$here/store"
for m in m1 m2 m3; do
  sed "s|$here/store|$here/store-$m|" nats/$m.conf > $m.conf; nats-server -c $m.conf 2>> $m.log &
done
for n in 1 2 3; do cat > n$n.toml <<END
data = "$here/n$n"
listen = "127.0.0.1:707$n"
[cluster]
name = "chat"
node = "n$n"
nodes = { n1 = "http://127.0.0.1:7071", n2 = "http://127.0.0.1:7072", n3 = "http://127.0.0.1:7073" }
nats = ["127.0.0.1:4222", "127.0.0.2:4222", "127.0.0.3:4222"]
nats_monitors = ["127.0.0.1:8222", "127.0.0.2:8222", "127.0.0.3:8222"]
nats_login_file = "$here/nats/node.login"
END
done; until tideline cluster create --config n1.toml --login nats/operator.login 2> create.log || grep already create.log; do sleep 0.3; done
for n in 1 2 3; do tideline serve --config n$n.toml 2>> n$n.log & done; wait
