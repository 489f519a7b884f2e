//! Programs that exist to change what cannot be had back, or that start what nobody has read. Nothing that they are told
//! makes them harmless, except where another part of the judge says so before.

use super::Danger;

/// Name by name, with the reason.
const ALWAYS: &[(Danger, &str)] = &[
    (
        Danger::DeletesFiles,
        "unlink shred srm wipe rimraf trash trash-put trash-empty tmpwatch tmpreaper del erase",
    ),
    (Danger::EmptiesFile, "truncate fallocate"),
    (
        Danger::WritesDevice,
        "dd dcfldd ddrescue badblocks hdparm nvme blkdiscard sg_format flashrom fwupdmgr efibootmgr setserial",
    ),
    (
        Danger::Disks,
        "fdisk sfdisk cfdisk gdisk sgdisk parted partprobe wipefs mke2fs mkfs mkswap swapon swapoff umount losetup cryptsetup \
         lvremove lvcreate lvresize lvreduce lvextend vgremove vgcreate pvremove pvcreate mdadm zpool zfs btrfs fsck e2fsck \
         resize2fs tune2fs xfs_repair debugfs dmsetup eject quotaoff format diskutil lvm",
    ),
    (
        Danger::ChangesRights,
        "chown chgrp chattr setfacl setcap icacls takeown chcon restorecon",
    ),
    (
        Danger::StopsSystem,
        "shutdown reboot halt poweroff init telinit kexec pm-suspend pm-hibernate",
    ),
    (
        Danger::StopsProcesses,
        "kill pkill killall killall5 skill xkill fuser slay",
    ),
    (
        Danger::ChangesSystem,
        "useradd userdel usermod adduser deluser groupadd groupdel groupmod passwd chpasswd chsh chfn visudo vipw iptables \
         ip6tables nft ufw firewall-cmd ipset route ifup ifdown iw iwconfig nmcli modprobe insmod rmmod depmod \
         update-grub grub-install grub-mkconfig update-initramfs dracut setenforce semanage auditctl alternatives \
         update-alternatives ldconfig update-rc.d chkconfig rc-service rc-update service sc launchctl netsh reg regedit \
         defaults nvram csrutil dconf gsettings sysrc chroot unshare nsenter pivot_root swapoff hwclock ntpdate renice \
         logrotate newgrp sg gpasswd tc ethtool brctl bridge wg wg-quick systemd-tmpfiles update-ca-certificates",
    ),
    (Danger::Schedule, "at batch atrm anacron systemd-run"),
    (
        Danger::AsAnother,
        "sudo doas su pkexec runuser run0 sudoedit gosu setpriv",
    ),
    (
        Danger::Redefines,
        "alias unalias trap enable shopt bind complete compdef zle bindkey autoload zmodload abbr funced",
    ),
    (
        Danger::ChangesEnvironment,
        "declare typeset let readonly setopt unsetopt setenv",
    ),
    (
        Danger::RunsCode,
        "gdb lldb expect script socat screen tmux parallel ansible ansible-playbook fab puppet chef-client salt pwsh \
         powershell osascript cscript wscript wine m4 dc ed ex gnuplot octave guile emacs nc ncat netcat telnet lua luajit ruby \
         perl php tclsh wish R Rscript julia ghci irb swift groovy scala jshell elixir iex erl java deno bun ts-node tsx mono",
    ),
    (
        Danger::Interactive,
        "vi vim nvim nano pico view vimdiff htop btop atop fzf mc ranger nnn lazygit tig visidata",
    ),
    (
        Danger::Database,
        "mysqladmin dropdb createdb dropuser pg_restore pg_ctl mysqlimport mongorestore mongo mongosh redis-cli \
        cqlsh influx etcdctl sqlcmd sqlplus clickhouse-client cockroach pg_resetwal myisamchk rabbitmqctl kafka-topics nodetool",
    ),
    (
        Danger::SendsData,
        "scp sftp ftp lftp rclone mail mailx sendmail mutt swaks msmtp s3cmd gsutil azcopy restic borg xh http httpie \
        https aria2c croc twine",
    ),
    (
        Danger::Infrastructure,
        "pulumi cdk serverless sls vagrant packer nomad consul vault doctl heroku fly flyctl vercel netlify wrangler \
        firebase kubeadm kustomize k3s minikube kind eksctl virsh qm pct lxc multipass oc argocd flux skaffold",
    ),
    (
        Danger::ChangesInPlace,
        "patch ex sponge dos2unix unix2dos rename prename mmv detox gunzip bunzip2 unxz unzstd compress strip \
        autoflake codemod",
    ),
    (
        Danger::RewritesHistory,
        "git-filter-repo bfg git-filter-branch",
    ),
];

pub(super) fn danger(name: &str) -> Option<Danger> {
    // mkfs.ext4, fsck.vfat and their kin
    let family = name.split_once('.').map_or(name, |it| it.0);
    ALWAYS.iter().find_map(|(danger, names)| {
        let one = |it: &str| it == name || (matches!(family, "mkfs" | "fsck") && it == family);
        names.split_whitespace().any(one).then_some(*danger)
    })
}
