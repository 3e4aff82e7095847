//! The seccomp filter of containers. It blocks the system calls that the default profile of container runtimes blocks,
//! as far as dropping all capabilities does not block them already, and calls into parts of the kernel with frequent
//! vulnerabilities. This reduces the attack surface for a compromised agent.

use std::{collections::BTreeMap, io};

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    TargetArch, apply_filter, sock_filter,
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

/// Bit of the numbers of x32 system calls.
const X32: u32 = 0x4000_0000;
/// Instructions of a filter: load a word of the call's data, jump if it is not less, return.
const LOAD: u16 = 0x20;
const JUMP_IF_NOT_LESS: u16 = 0x35;
const RETURN: u16 = 0x06;

/// Refuses system calls of the x32 interface as an older kernel does. On x86-64 the kernel reports them with the same
/// architecture and with other numbers, so a filter of numbers alone misses them. No other architecture has such numbers.
fn no_x32() -> BpfProgram {
    let refused = libc::SECCOMP_RET_ERRNO | libc::ENOSYS.cast_unsigned();
    vec![
        // The number of the call is the first word.
        sock_filter { code: LOAD, jt: 0, jf: 0, k: 0 },
        sock_filter { code: JUMP_IF_NOT_LESS, jt: 0, jf: 1, k: X32 },
        sock_filter { code: RETURN, jt: 0, jf: 0, k: refused },
        sock_filter { code: RETURN, jt: 0, jf: 0, k: libc::SECCOMP_RET_ALLOW },
    ]
}

fn programs() -> Result<[BpfProgram; 3], seccompiler::BackendError> {
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
    Ok([program(forbidden, libc::EPERM)?, program(unknown, libc::ENOSYS)?, no_x32()])
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

    /// The verdict of a program on a call without arguments, as the kernel computes it.
    fn verdict(program: &BpfProgram, call: u32) -> u32 {
        let architecture: u32 = if cfg!(target_arch = "x86_64") { 0xC000_003E } else { 0xC000_00B7 };
        let (mut value, mut at) = (0_u32, 0);
        loop {
            let sock_filter { code, jt, jf, k } = program[at].clone();
            let jump = |condition: bool| usize::from(if condition { jt } else { jf });
            at += 1;
            match code {
                0x20 => value = [call, architecture].get(k as usize / 4).copied().unwrap_or_default(),
                0x54 => value &= k,
                0x05 => at += k as usize,
                0x15 => at += jump(value == k),
                0x25 => at += jump(value > k),
                0x35 => at += jump(value >= k),
                0x06 => return k,
                other => panic!("instruction {other:#x}"),
            }
        }
    }

    #[test]
    fn a_blocked_call_is_blocked_in_every_interface() {
        let allowed = |call: u32| programs().unwrap().iter().all(|program| verdict(program, call) == 0x7fff_0000);
        let number = |call: i64| u32::try_from(call).unwrap();
        assert!(allowed(number(libc::SYS_read)) && allowed(number(libc::SYS_clone)));
        assert!(!allowed(number(libc::SYS_mount)) && !allowed(number(libc::SYS_clone3)));
        for call in [libc::SYS_mount, libc::SYS_unshare, libc::SYS_clone3, libc::SYS_read, 512] {
            assert!(!allowed(X32 | number(call)), "{call}");
        }
    }

    #[test]
    fn the_filter_fits_into_the_kernel() {
        // Limit of the kernel: 4096 instructions.
        assert!(programs().unwrap().iter().all(|program| (3..1024).contains(&program.len())));
    }
}
