//! The seccomp filter of containers. It blocks the system calls that the default profile of container runtimes blocks,
//! as far as dropping all capabilities does not block them already, and calls into parts of the kernel with frequent
//! vulnerabilities. This reduces the attack surface for a compromised agent.

use std::{collections::BTreeMap, io};

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    TargetArch, apply_filter,
};

/// Blocked with any arguments.
const BLOCKED: &[i64] = &[
    libc::SYS_acct,
    libc::SYS_add_key,
    libc::SYS_bpf,
    libc::SYS_clock_adjtime,
    libc::SYS_clock_settime,
    libc::SYS_delete_module,
    libc::SYS_finit_module,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fsopen,
    libc::SYS_fspick,
    libc::SYS_init_module,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_io_uring_setup,
    libc::SYS_kexec_file_load,
    libc::SYS_kexec_load,
    libc::SYS_keyctl,
    libc::SYS_lookup_dcookie,
    libc::SYS_mount,
    libc::SYS_mount_setattr,
    libc::SYS_move_mount,
    libc::SYS_move_pages,
    libc::SYS_nfsservctl,
    libc::SYS_open_by_handle_at,
    libc::SYS_open_tree,
    libc::SYS_perf_event_open,
    libc::SYS_pivot_root,
    libc::SYS_quotactl,
    libc::SYS_reboot,
    libc::SYS_request_key,
    libc::SYS_setns,
    libc::SYS_settimeofday,
    libc::SYS_swapoff,
    libc::SYS_swapon,
    libc::SYS_syslog,
    libc::SYS_umount2,
    libc::SYS_unshare,
    libc::SYS_userfaultfd,
    libc::SYS_vhangup,
];

/// The same, on the architectures that have them.
#[cfg(target_arch = "x86_64")]
const BLOCKED_ON_ARCH: &[i64] = &[libc::SYS_ioperm, libc::SYS_iopl, libc::SYS_sysfs, libc::SYS_uselib, libc::SYS_ustat];
#[cfg(not(target_arch = "x86_64"))]
const BLOCKED_ON_ARCH: &[i64] = &[];

/// Flags of `clone` and `unshare` that create a namespace.
const NAMESPACES: [libc::c_int; 7] = [
    libc::CLONE_NEWCGROUP,
    libc::CLONE_NEWIPC,
    libc::CLONE_NEWNET,
    libc::CLONE_NEWNS,
    libc::CLONE_NEWPID,
    libc::CLONE_NEWUSER,
    libc::CLONE_NEWUTS,
];

/// Installs the filter for this process and its children.
pub(super) fn refuse() -> io::Result<()> {
    for program in programs().map_err(io::Error::other)? {
        apply_filter(&program).map_err(io::Error::other)?;
    }
    Ok(())
}

fn programs() -> Result<[BpfProgram; 2], seccompiler::BackendError> {
    let mut forbidden: BTreeMap<i64, Vec<SeccompRule>> = BTreeMap::new();
    for call in BLOCKED.iter().chain(BLOCKED_ON_ARCH) {
        forbidden.insert(*call, Vec::new());
    }
    let mut namespaces = Vec::new();
    for flag in NAMESPACES {
        let flag = u64::from(flag.cast_unsigned());
        let set = SeccompCondition::new(0, SeccompCmpArgLen::Dword, SeccompCmpOp::MaskedEq(flag), flag)?;
        namespaces.push(SeccompRule::new(vec![set])?);
    }
    forbidden.insert(libc::SYS_clone, namespaces);
    // The flags of `clone3` are behind a pointer that a filter cannot read. C libraries take ENOSYS for an older kernel
    // and fall back to `clone`.
    let unknown = BTreeMap::from([(libc::SYS_clone3, Vec::new())]);
    Ok([program(forbidden, libc::EPERM)?, program(unknown, libc::ENOSYS)?])
}

fn program(
    calls: BTreeMap<i64, Vec<SeccompRule>>,
    answer: libc::c_int,
) -> Result<BpfProgram, seccompiler::BackendError> {
    let machine = TargetArch::try_from(std::env::consts::ARCH)?;
    let refused = SeccompAction::Errno(answer.cast_unsigned());
    SeccompFilter::new(calls, SeccompAction::Allow, refused, machine)?.try_into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_filter_fits_into_the_kernel() {
        // Limit of the kernel: 4096 instructions.
        assert!(programs().unwrap().iter().all(|program| (3..1024).contains(&program.len())));
    }
}
