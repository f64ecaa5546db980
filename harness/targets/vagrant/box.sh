#!/bin/sh
# Builds the system of the Vagrantfile's machines from Debian's packages alone:
#   OUT/highwater-bookworm.box   a box for libvirt (KVM or emulated)
#   OUT/highwater-bookworm.tar   the same system without a kernel, for docker import
# Nothing is mounted: file systems are written into the image. So an aborted build leaves nothing
# behind but a directory in TMPDIR.
set -eu

usage="usage: sudo $0 OUT      (MIRROR=http://... for another mirror than deb.debian.org)"
# Vagrant's well-known first key: `vagrant up` replaces it by a new one.
vagrant_key='ssh-rsa AAAAB3NzaC1yc2EAAAABIwAAAQEA6NF8iallvQVp22WDkTkyrtvp9eWW6A8YVr+kz4TjGYe7gHzIw+niNltGEFHzD8+v1I2YJ6oXevct1YeS0o9HZyN1Q9qgCgzUFtdOKLv6IedplqoPkcmF0aYet2PkEDo3MlTBckFXPITAMzF8dJSIFo9D8HfdOV0IAdx4O7PtixWKn5y2hMNG0zQPyUecp4pzC6kivAIhyfHilFR61RGL+GPXQ2MWZWFYbAGjyiYJnAmCP3NOTd0jMZEnDkbUvxhMmBYSdETk1rRgm+R4LOzFUGaHqHDLKLX+FIPKcF96hrucXzcWyLbIbEgE98OHlnVYCzRdK8jlqm8tehUc9c9WhQ== vagrant insecure public key'
packages=systemd-sysv,dbus,openssh-server,sudo,iproute2,procps,e2fsprogs,libfaketime
packages=$packages,python3,python3-venv,ca-certificates,linux-image-cloud-amd64,zstd
disk_gb=8
boot_mb=64 # kernel and initial file system, on FAT, where the boot loader reads them
align_mb=1

fail() {
  echo "box.sh: $*" >&2
  exit 1
}

check() {
  [ $# -eq 1 ] || fail "$usage"
  [ "$(id -u)" -eq 0 ] || fail "only root can own a system's files: run it with sudo; $usage"
  [ -f /usr/lib/syslinux/mbr/mbr.bin ] || set -- "$@" syslinux-common
  for tool in mmdebstrap:mmdebstrap qemu-img:qemu-utils syslinux:syslinux mcopy:mtools \
    mkfs.fat:dosfstools mke2fs:e2fsprogs sfdisk:fdisk; do
    command -v "${tool%:*}" >/dev/null || set -- "$@" "${tool#*:}"
  done
  shift
  [ $# -eq 0 ] || fail "programs are missing: apt-get install $*"
}

# Before the packages: settings of the initial file system, so that it is made only once.
before() {
  mkdir -p "$1/etc/initramfs-tools/conf.d" "$1/usr/share/initramfs-tools/modules.d"
  printf 'MODULES=list\nCOMPRESS=zstd\nRESUME=none\n' >"$1/etc/initramfs-tools/conf.d/highwater"
  printf 'virtio_pci\nvirtio_blk\next4\n' >"$1/usr/share/initramfs-tools/modules.d/highwater"
}

# After the packages: the user, the network, and the host key that each machine makes itself.
after() {
  chroot "$1" useradd --create-home --shell /bin/bash --password '*' vagrant
  echo 'vagrant ALL=(ALL) NOPASSWD: ALL' >"$1/etc/sudoers.d/vagrant"
  mkdir -m 700 "$1/home/vagrant/.ssh"
  echo "$vagrant_key" >"$1/home/vagrant/.ssh/authorized_keys"
  chroot "$1" chown -R vagrant:vagrant /home/vagrant/.ssh
  echo highwater >"$1/etc/hostname"
  printf '127.0.0.1 localhost\n' >"$1/etc/hosts"
  : >"$1/etc/machine-id"
  echo 'LABEL=root / ext4 noatime 0 1' >"$1/etc/fstab"
  # 90: sorted after the file that Vagrant writes for the network between the machines.
  printf '[Match]\nName=eth*\n[Network]\nDHCP=ipv4\n[DHCPv4]\nClientIdentifier=mac\n' \
    >"$1/etc/systemd/network/90-dhcp.network"
  chroot "$1" systemctl -q enable systemd-networkd
  # Nothing that updates packages or takes time while the machine starts.
  chroot "$1" systemctl -q mask getty@tty1.service e2scrub_reap.service \
    e2scrub_all.timer apt-daily.timer apt-daily-upgrade.timer dpkg-db-backup.timer fstrim.timer
  # Each machine makes its own host key when it first starts.
  rm -f "$1"/etc/ssh/ssh_host_*
  printf 'HostKey /etc/ssh/ssh_host_ed25519_key\nUseDNS no\n' \
    >"$1/etc/ssh/sshd_config.d/highwater.conf"
  cat >"$1/usr/local/sbin/make-host-key" <<'KEY'
#!/bin/sh
[ -e /etc/ssh/ssh_host_ed25519_key ] ||
  exec ssh-keygen -q -t ed25519 -N '' -f /etc/ssh/ssh_host_ed25519_key
KEY
  chmod 755 "$1/usr/local/sbin/make-host-key"
  mkdir -p "$1/etc/systemd/system/ssh.service.d"
  printf '[Service]\nExecStartPre=\nExecStartPre=/usr/local/sbin/make-host-key\nExecStartPre=/usr/sbin/sshd -t\n' \
    >"$1/etc/systemd/system/ssh.service.d/host-key.conf"
}

make_root() { # ROOT
  mmdebstrap --variant=apt --include="$packages" \
    --setup-hook="'$self' before \"\$1\"" --customize-hook="'$self' after \"\$1\"" \
    bookworm "$1" ${MIRROR:+"$MIRROR"}
}

make_disk() { # ROOT DISK
  root_mb=$((disk_gb * 1024 - boot_mb - 2 * align_mb))
  truncate -s "${disk_gb}G" "$2"
  sfdisk -q "$2" <<PARTITIONS
label: dos
start=${align_mb}MiB, size=${boot_mb}MiB, type=e, bootable
start=$((align_mb + boot_mb))MiB, size=${root_mb}MiB, type=83
PARTITIONS
  dd if=/usr/lib/syslinux/mbr/mbr.bin of="$2" bs=440 count=1 conv=notrunc status=none
  mkfs.fat -F 16 --offset $((align_mb * 2048)) "$2" $((boot_mb * 1024)) >/dev/null
  partition="$2@@${align_mb}M"
  cat >"$work/syslinux.cfg" <<MENU
default linux
label linux
  kernel vmlinuz
  append initrd=initrd.img root=LABEL=root rw net.ifnames=0 console=ttyS0 quiet
MENU
  mcopy -i "$partition" "$work/syslinux.cfg" ::syslinux.cfg
  mcopy -i "$partition" "$1"/boot/vmlinuz-* ::vmlinuz
  mcopy -i "$partition" "$1"/boot/initrd.img-* ::initrd.img
  syslinux --install --offset $((align_mb << 20)) "$2"
  mke2fs -q -t ext4 -L root -d "$1" \
    -E "offset=$(((align_mb + boot_mb) << 20)),lazy_itable_init=0,lazy_journal_init=0" \
    "$2" "${root_mb}M"
}

make_box() { # DISK BOX
  mkdir "$work/box"
  qemu-img convert -c -o compression_type=zstd -O qcow2 "$1" "$work/box/box.img"
  printf '{"provider": "libvirt", "format": "qcow2", "virtual_size": %s}\n' "$disk_gb" \
    >"$work/box/metadata.json"
  printf 'Vagrant.configure("2") do |config|\nend\n' >"$work/box/Vagrantfile"
  tar -C "$work/box" -cf "$2" metadata.json Vagrantfile box.img
}

self=$(realpath "$0")
case "${1-}" in
before | after)
  "$1" "$2"
  exit
  ;;
esac
check "$@"
mkdir -p "$1"
out=$(realpath "$1")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM
make_root "$work/root"
tar -C "$work/root" --exclude='./boot/*' --exclude='./usr/lib/modules/*' --exclude='./dev/*' \
  -cf "$out/highwater-bookworm.tar" .
make_disk "$work/root" "$work/disk"
make_box "$work/disk" "$out/highwater-bookworm.box"
cat <<DONE
vagrant box add --name highwater-bookworm $out/highwater-bookworm.box
docker import --change 'CMD ["/bin/sh", "-c", "mkdir -p /run/sshd && make-host-key && exec /usr/sbin/sshd -D"]' \\
  $out/highwater-bookworm.tar highwater-bookworm
DONE
