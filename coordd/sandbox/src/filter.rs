//! System calls that no command needs, and that reach around the walls.

use std::collections::BTreeMap;

use coordd_sandbox::Level;
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch,
};

use crate::error::BoxError;

type Rules = BTreeMap<i64, Vec<SeccompRule>>;

/// Refused in each call.
const REFUSED: [libc::c_long; 48] = [
    // The view of files.
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_move_mount,
    libc::SYS_open_tree,
    libc::SYS_fsopen,
    libc::SYS_fsmount,
    libc::SYS_fsconfig,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
    libc::SYS_setns,
    libc::SYS_open_by_handle_at,
    libc::SYS_name_to_handle_at,
    libc::SYS_fanotify_init,
    libc::SYS_quotactl,
    libc::SYS_quotactl_fd,
    // Keys of the user's session.
    libc::SYS_keyctl,
    libc::SYS_add_key,
    libc::SYS_request_key,
    // The kernel's wide surfaces.
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_lookup_dcookie,
    libc::SYS_kexec_load,
    libc::SYS_kexec_file_load,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_syslog,
    // The machine.
    libc::SYS_reboot,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_acct,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_clock_adjtime,
    libc::SYS_adjtimex,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_vhangup,
    libc::SYS_nfsservctl,
    // Other processes' descriptors and memory.
    libc::SYS_pidfd_getfd,
    libc::SYS_kcmp,
    libc::SYS_process_madvise,
    libc::SYS_migrate_pages,
    libc::SYS_move_pages,
    libc::SYS_process_mrelease,
];

/// Without a process table of its own, those of others are in reach.
const REFUSED_WITHOUT_PID_NAMESPACE: [libc::c_long; 3] =
    [libc::SYS_ptrace, libc::SYS_process_vm_readv, libc::SYS_process_vm_writev];

/// Said not to exist, so that programs take the older way. These take their arguments in memory, where no filter sees them, or
/// do others' work past it.
const ABSENT: [libc::c_long; 5] = [
    libc::SYS_clone3,
    libc::SYS_openat2,
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
];

/// Each of these would make a namespace, in which a process has privileges.
const NAMESPACES: [libc::c_int; 8] = [
    libc::CLONE_NEWUSER,
    libc::CLONE_NEWNS,
    libc::CLONE_NEWPID,
    libc::CLONE_NEWNET,
    libc::CLONE_NEWIPC,
    libc::CLONE_NEWUTS,
    libc::CLONE_NEWCGROUP,
    0x80, // CLONE_NEWTIME; means something else to `clone`, where it is a signal's bit
];

/// Puts the filters on the process and all that it starts.
pub(crate) fn put_on(level: Level) -> Result<(), BoxError> {
    for program in [
        compiled(refused(level)?, libc::EPERM)?,
        compiled(families(level)?, libc::EAFNOSUPPORT)?,
        compiled(whole(&ABSENT), libc::ENOSYS)?,
    ] {
        seccompiler::apply_filter(&program).map_err(|error| BoxError::Filter(error.to_string()))?;
    }
    Ok(())
}

fn compiled(rules: Rules, errno: libc::c_int) -> Result<BpfProgram, BoxError> {
    let arch: TargetArch = std::env::consts::ARCH.try_into().map_err(failed)?;
    let errno = u32::try_from(errno).unwrap_or(1);
    SeccompFilter::new(rules, SeccompAction::Allow, SeccompAction::Errno(errno), arch)
        .and_then(BpfProgram::try_from)
        .map_err(failed)
}

fn refused(level: Level) -> Result<Rules, BoxError> {
    let mut rules = whole(&REFUSED);
    if level == Level::Landlock {
        rules.extend(whole(&REFUSED_WITHOUT_PID_NAMESPACE));
    }
    let mut unshare = Vec::new();
    let mut clone = Vec::new();
    for flag in NAMESPACES {
        let bit = u64::try_from(flag).unwrap_or(0);
        unshare.push(rule(vec![bits(0, bit)?])?);
        if bit > 0xff {
            clone.push(rule(vec![bits(0, bit)?])?);
        }
    }
    rules.insert(libc::SYS_unshare, unshare);
    rules.insert(libc::SYS_clone, clone);
    // Typing into a terminal that others read from.
    let typing = [libc::TIOCSTI, libc::TIOCLINUX]
        .into_iter()
        .map(|request| rule(vec![is(1, request)?]))
        .collect::<Result<_, _>>()?;
    rules.insert(libc::SYS_ioctl, typing);
    // A file that others would run as this user.
    let setuid = u64::from(libc::S_ISUID);
    for (call, mode) in modes() {
        rules.insert(call, vec![rule(vec![bits(mode, setuid)?])?]);
    }
    for (call, flags) in opens() {
        let makes = |flag: libc::c_int| {
            let flag = u64::try_from(flag).unwrap_or(0);
            rule(vec![bits(flags, flag)?, bits(flags + 1, setuid)?])
        };
        rules.insert(call, vec![makes(libc::O_CREAT)?, makes(libc::O_TMPFILE)?]);
    }
    Ok(rules)
}

/// Calls that set a file's mode, with the number of that argument.
fn modes() -> Vec<(libc::c_long, u8)> {
    const FCHMODAT2: libc::c_long = 452;
    let mut calls = vec![
        (libc::SYS_fchmod, 1),
        (libc::SYS_fchmodat, 2),
        (FCHMODAT2, 2),
        (libc::SYS_mknodat, 2),
    ];
    #[cfg(target_arch = "x86_64")]
    calls.extend([(libc::SYS_chmod, 1), (libc::SYS_creat, 1), (libc::SYS_mknod, 1)]);
    calls
}

/// Calls that open, with the number of the argument with their flags. The mode is behind it.
fn opens() -> Vec<(libc::c_long, u8)> {
    let mut calls = vec![(libc::SYS_openat, 2)];
    #[cfg(target_arch = "x86_64")]
    calls.push((libc::SYS_open, 1));
    calls
}

/// Kinds of sockets. In a network of its own the usual ones reach nothing but the box.
fn families(level: Level) -> Result<Rules, BoxError> {
    let mut kept = vec![libc::AF_UNIX];
    if level == Level::Namespaces {
        kept.extend([libc::AF_INET, libc::AF_INET6]);
    }
    let netlink = u64::try_from(libc::AF_NETLINK).unwrap_or(0);
    let not = |value: libc::c_int| {
        let value = u64::try_from(value).unwrap_or(0);
        condition(0, SeccompCmpOp::Ne, value)
    };
    let mut others = kept.into_iter().map(not).collect::<Result<Vec<_>, _>>()?;
    others.push(condition(0, SeccompCmpOp::Ne, netlink)?);
    // Programs list their addresses over the one kind of netlink that tells of them.
    let other_netlink = vec![
        condition(0, SeccompCmpOp::Eq, netlink)?,
        condition(2, SeccompCmpOp::Ne, u64::try_from(libc::NETLINK_ROUTE).unwrap_or(0))?,
    ];
    let mut rules = vec![rule(others)?, rule(other_netlink)?];
    if level == Level::Landlock {
        // Of the machine's own network nothing is to be listed or changed.
        rules.push(rule(vec![condition(0, SeccompCmpOp::Eq, netlink)?])?);
    }
    Ok(BTreeMap::from([(libc::SYS_socket, rules)]))
}

fn whole(calls: &[libc::c_long]) -> Rules {
    calls.iter().map(|call| (*call, Vec::new())).collect()
}

fn rule(conditions: Vec<SeccompCondition>) -> Result<SeccompRule, BoxError> {
    SeccompRule::new(conditions).map_err(failed)
}

fn bits(argument: u8, bits: u64) -> Result<SeccompCondition, BoxError> {
    condition(argument, SeccompCmpOp::MaskedEq(bits), bits)
}

fn is(argument: u8, value: u64) -> Result<SeccompCondition, BoxError> {
    condition(argument, SeccompCmpOp::Eq, value)
}

fn condition(
    argument: u8,
    operator: SeccompCmpOp,
    value: u64,
) -> Result<SeccompCondition, BoxError> {
    SeccompCondition::new(argument, SeccompCmpArgLen::Dword, operator, value).map_err(failed)
}

#[expect(clippy::needless_pass_by_value, reason = "as `map_err` hands it over")]
fn failed(error: seccompiler::BackendError) -> BoxError {
    BoxError::Filter(error.to_string())
}
