#!/usr/bin/env bash
# Makes the disk image of the lab's machines: image.sh DIR. It is Debian with cloud-init and sshd, like a
# cloud image, and boots with BIOS and UEFI. Needs root (debootstrap) and a mirror, and installs missing
# programs. It uses no mounts and no loop devices.
set -euo pipefail
dir=$1
"$(dirname "$0")/../../tools/debs.sh" /usr/sbin/debootstrap:debootstrap /sbin/mkfs.vfat:dosfstools /sbin/mkfs.ext4:e2fsprogs /usr/bin/mcopy:mtools /sbin/sfdisk:fdisk /usr/bin/syslinux:syslinux \
	/usr/lib/syslinux/mbr/mbr.bin:syslinux-common /usr/bin/zstd:zstd /usr/lib/systemd/boot/efi/systemd-bootx64.efi:systemd-boot-efi
root=$dir/root
mkdir -p "$dir"
mirror=$(sed -n 's/^URIs: *\(\S*\).*/\1/p; s/^deb \(http\S*\).*/\1/p' /etc/apt/sources.list /etc/apt/sources.list.d/* 2>/dev/null | head -1 || true)
if ! [ -e "$root/.done" ]; then
	rm -rf "$root"
	if [ -x "${E2E_HOST_ROOT:=/var/cache/holdfast/host-root}/usr/bin/apt-get" ]; then # made by e2e-ansible, with most packages
		cp -a "$E2E_HOST_ROOT" "$root"
	else
		debootstrap --variant=minbase bookworm "$root" "${mirror:-http://deb.debian.org/debian}"
	fi
	echo force-unsafe-io >"$root/etc/dpkg/dpkg.cfg.d/lab" # it need not survive a crash
	echo 'exit 101' >"$root/usr/sbin/policy-rc.d" && chmod 755 "$root/usr/sbin/policy-rc.d"
	cp -L /etc/resolv.conf "$root/etc/resolv.conf"
	apt=(chroot "$root" env DEBIAN_FRONTEND=noninteractive apt-get -q -y -o APT::Install-Recommends=false)
	"${apt[@]}" update
	"${apt[@]}" install systemd-sysv dbus udev openssh-server iproute2 linux-image-cloud-amd64 initramfs-tools zstd kmod cloud-init sudo
	rm -f "$root/usr/sbin/policy-rc.d" "$root/etc/dpkg/dpkg.cfg.d/lab"
	rm -rf "$root"/var/cache/apt/* "$root"/var/lib/apt/lists/* "$root"/usr/share/{doc,man,locale,info} "$root"/etc/ssh/ssh_host_*
	mkdir -p "$root/etc/systemd/network"
	printf 'LABEL=root / ext4 rw,noatime 0 1\n' >"$root/etc/fstab"
	printf '[Match]\nName=en* eth*\n[Network]\nDHCP=ipv4\nIPv6AcceptRA=no\n[DHCPv4]\nClientIdentifier=mac\n' >"$root/etc/systemd/network/20-wired.network"
	printf 'network: {config: disabled}\n' >"$root/etc/cloud/cloud.cfg.d/90-lab.cfg" # the file above configures it
	chroot "$root" systemctl -q enable systemd-networkd ssh
	for unit in systemd-networkd-wait-online.service apt-daily.timer apt-daily-upgrade.timer e2scrub_all.timer fstrim.timer systemd-timesyncd.service; do ln -sf /dev/null "$root/etc/systemd/system/$unit"; done
	touch "$root/.done"
fi

esp=$dir/esp.img fs=$dir/fs.img
trap 'rm -f "$esp" "$fs" "$dir"/*.new' EXIT
kernel=$(ls "$root"/boot/vmlinuz-*) initrd=$(ls "$root"/boot/initrd.img-*)
words="root=LABEL=root rw console=ttyS0,115200 quiet net.ifnames=0 systemd.show_status=false"
rm -f "$esp" "$fs"
truncate -s 64M "$esp"
mkfs.vfat -n ESP "$esp" >/dev/null
mmd -i "$esp" ::EFI ::EFI/BOOT ::loader ::loader/entries ::syslinux
mcopy -i "$esp" "$kernel" ::vmlinuz
mcopy -i "$esp" "$initrd" ::initrd.img
mcopy -i "$esp" /usr/lib/systemd/boot/efi/systemd-bootx64.efi ::EFI/BOOT/BOOTX64.EFI
printf 'timeout 0\ndefault linux\n' | mcopy -i "$esp" - ::loader/loader.conf
printf 'title linux\nlinux /vmlinuz\ninitrd /initrd.img\noptions %s\n' "$words" | mcopy -i "$esp" - ::loader/entries/linux.conf
printf 'SERIAL 0 115200\nDEFAULT linux\nTIMEOUT 1\nPROMPT 0\nLABEL linux\n  KERNEL /vmlinuz\n  INITRD /initrd.img\n  APPEND %s\n' "$words" | mcopy -i "$esp" - ::syslinux/syslinux.cfg
syslinux --install -d /syslinux "$esp"

size=$(($(du -sm --apparent-size "$root" | cut -f1) + 220)) # MiB
truncate -s "${size}M" "$fs"
mkfs.ext4 -q -F -L root -m 0 -E lazy_itable_init=1,lazy_journal_init=1 -d "$root" "$fs"

new=$dir/disk.raw.new
rm -f "$new"
truncate -s "$((65 + size))M" "$new"
printf 'label: dos\nstart=2048,size=131072,type=ef,bootable\nstart=133120,size=%d,type=83\n' $((size * 2048)) | sfdisk -q "$new"
dd if=/usr/lib/syslinux/mbr/mbr.bin of="$new" bs=440 count=1 conv=notrunc status=none
dd if="$esp" of="$new" bs=1M seek=1 conv=notrunc,sparse status=none
dd if="$fs" of="$new" bs=1M seek=65 conv=notrunc,sparse status=none
zstd -q -f -6 "$new" -o "$dir/disk.raw.zst.new"
mv "$dir/disk.raw.zst.new" "$dir/disk.raw.zst"
