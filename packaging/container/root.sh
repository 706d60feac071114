#!/bin/sh
# A root file system with nothing but the server: packaging/container/root.sh BINARY FOLDER
# The binary, the libraries that it is linked with (from this machine), authorities for webhooks and jwks_url, a user, a
# data directory. No shell, no package manager. Run as root: the data directory has an owner.
set -eu
binary=$1 root=$2
test -f "$binary" || { echo "root.sh: there is no binary $binary" >&2; exit 1; }
test ! -e "$root" || { echo "root.sh: $root is there already" >&2; exit 1; }
authorities=/etc/ssl/certs/ca-certificates.crt
test -f "$authorities" || { echo "root.sh: $authorities is missing: install ca-certificates" >&2; exit 1; }

install -D -m 755 "$binary" "$root/usr/bin/tideline"
strip "$root/usr/bin/tideline"
ldd "$binary" | grep -o '/[^ ]*' | while read -r library; do
    install -D -m 755 "$library" "$root$library"
done
install -D -m 644 "$authorities" "$root$authorities"
echo 'tideline:x:65532:65532::/var/lib/tideline:/none' > "$root/etc/passwd"
echo 'tideline:x:65532:' > "$root/etc/group"
echo 'hosts: files dns' > "$root/etc/nsswitch.conf"
install -d -m 1777 "$root/tmp"
install -d -m 700 -o 65532 -g 65532 "$root/var/lib/tideline"
