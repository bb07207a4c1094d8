#!/usr/bin/env bash
# Makes DIR/root.tar.zst from the root of image.sh, with a kernel and GRUB for BIOS and UEFI: tar.sh DIR.
# Needs the same as image.sh.
set -euo pipefail
dir=$1
here=$(cd "$(dirname "$0")" && pwd)
[ -e "$dir/root/.done" ] || "$here/image.sh" "$dir"
root=$dir/tar-root
trap 'rm -rf "$root" "$dir/root.tar.zst.new"' EXIT
rm -rf "$root"
cp -a "$dir/root" "$root"
cp -L /etc/resolv.conf "$root/etc/resolv.conf"
apt=(chroot "$root" env DEBIAN_FRONTEND=noninteractive apt-get -q -y -o APT::Install-Recommends=false)
"${apt[@]}" update
"${apt[@]}" install grub-pc-bin grub-efi-amd64-bin grub2-common
rm -rf "$root"/var/cache/apt/* "$root"/var/lib/apt/lists/* "$root"/usr/share/{doc,man,locale,info} "$root/.done"
cat >"$root/etc/default/grub" <<'GRUB'
GRUB_TIMEOUT=0
GRUB_CMDLINE_LINUX="console=ttyS0,115200 quiet net.ifnames=0 systemd.show_status=false"
GRUB_TERMINAL=console
GRUB
# Mounts of the source are no disks of the machine.
printf 'UUID=01234567-89ab-cdef-0123-456789abcdef / ext4 rw 0 1\nUUID=01234567-89ab-cdef-0123-456789abcdee none swap sw 0 0\ntmpfs /srv tmpfs size=16m 0 0\n' >"$root/etc/fstab"
tar --create --directory "$root" --numeric-owner --xattrs --xattrs-include='*' . | zstd -q -6 -o "$dir/root.tar.zst.new"
mv "$dir/root.tar.zst.new" "$dir/root.tar.zst"
