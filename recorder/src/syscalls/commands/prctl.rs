//! `prctl(option, …)`.

use crate::syscalls::spec::{Class::*, Size::*, *};

const DISPATCH: &str = "system calls would be diverted to a handler of the program";
const CLOCK: &str = "the recorder itself reads the time stamp counter, which it may forbid";
const FILTER: &str = "a filter of system calls would also judge the recorder's own";

pub(in crate::syscalls) static PRCTL: CommandSet = CommandSet {
    arg: 0,
    shift: 0,
    mask: u32::MAX,
    commands: &[
        command(1, &[]),                                                    // SET_PDEATHSIG
        command(2, &[out(1, Fixed(4))]),                                    // GET_PDEATHSIG
        command(3, &[]),                                                    // GET_DUMPABLE
        command(4, &[]).class(Identity),                                    // SET_DUMPABLE
        command(5, &[out(1, Fixed(4))]),                                    // GET_UNALIGN
        command(6, &[]),                                                    // SET_UNALIGN
        command(7, &[]),                                                    // GET_KEEPCAPS
        command(8, &[]),                                                    // SET_KEEPCAPS
        command(9, &[out(1, Fixed(4))]),                                    // GET_FPEMU
        command(10, &[]),                                                   // SET_FPEMU
        command(11, &[out(1, Fixed(4))]),                                   // GET_FPEXC
        command(12, &[]),                                                   // SET_FPEXC
        command(13, &[]),                                                   // GET_TIMING
        command(14, &[]),                                                   // SET_TIMING
        command(15, &[input(1, CString(16))]),                              // SET_NAME
        command(16, &[out(1, Fixed(16))]),                                  // GET_NAME
        command(19, &[out(1, Fixed(4))]),                                   // GET_ENDIAN
        command(20, &[]),                                                   // SET_ENDIAN
        command(21, &[]),                                                   // GET_SECCOMP
        refuse(22, FILTER),                                                 // SET_SECCOMP
        command(23, &[]),                                                   // CAPBSET_READ
        command(24, &[]),                                                   // CAPBSET_DROP
        command(25, &[out(1, Fixed(4))]).class(Identity),                   // GET_TSC
        refuse(26, CLOCK),                                                  // SET_TSC
        command(27, &[]),                                                   // GET_SECUREBITS
        command(28, &[]),                                                   // SET_SECUREBITS
        command(29, &[]),                                                   // SET_TIMERSLACK
        command(30, &[]),                                                   // GET_TIMERSLACK
        command(31, &[]),                                                   // TASK_PERF_EVENTS_DISABLE
        command(32, &[]),                                                   // TASK_PERF_EVENTS_ENABLE
        command(33, &[]),                                                   // MCE_KILL
        command(34, &[]),                                                   // MCE_KILL_GET
        refuse(35, "moves the kernel's idea of heap, stack and arguments"), // SET_MM
        command(36, &[]),                                                   // SET_CHILD_SUBREAPER
        command(37, &[out(1, Fixed(4))]),                                   // GET_CHILD_SUBREAPER
        command(38, &[]),                                                   // SET_NO_NEW_PRIVS
        command(39, &[]),                                                   // GET_NO_NEW_PRIVS
        command(40, &[out(1, Fixed(8))]).class(Identity),                   // GET_TID_ADDRESS
        command(41, &[]),                                                   // SET_THP_DISABLE
        command(42, &[]),                                                   // GET_THP_DISABLE
        command(43, &[]),                                                   // MPX_ENABLE_MANAGEMENT
        command(44, &[]),                                                   // MPX_DISABLE_MANAGEMENT
        command(45, &[]),                                                   // SET_FP_MODE
        command(46, &[]),                                                   // GET_FP_MODE
        command(47, &[]),                                                   // CAP_AMBIENT
        command(50, &[]),                                                   // SVE_SET_VL
        command(51, &[]),                                                   // SVE_GET_VL
        command(52, &[]),                                                   // GET_SPECULATION_CTRL
        command(53, &[]),                                                   // SET_SPECULATION_CTRL
        command(54, &[]),                                                   // PAC_RESET_KEYS
        command(55, &[]),                                                   // SET_TAGGED_ADDR_CTRL
        command(56, &[]),                                                   // GET_TAGGED_ADDR_CTRL
        command(57, &[]),                                                   // SET_IO_FLUSHER
        command(58, &[]),                                                   // GET_IO_FLUSHER
        refuse(59, DISPATCH),                                               // SET_SYSCALL_USER_DISPATCH
        command(60, &[]),                                                   // PAC_SET_ENABLED_KEYS
        command(61, &[]),                                                   // PAC_GET_ENABLED_KEYS
        command(62, &[out(4, Fixed(8)).if_equal(1, 0)]),                    // SCHED_CORE
        command(63, &[]),                                                   // SME_SET_VL
        command(64, &[]),                                                   // SME_GET_VL
        command(65, &[]).class(Identity),                                   // SET_MDWE
        command(66, &[]),                                                   // GET_MDWE
        command(67, &[]),                                                   // SET_MEMORY_MERGE
        command(68, &[]),                                                   // GET_MEMORY_MERGE
        command(69, &[]),                                                   // RISCV_V_SET_CONTROL
        command(70, &[]),                                                   // RISCV_V_GET_CONTROL
        command(71, &[]),                                                   // RISCV_SET_ICACHE_FLUSH_CTX
        command(72, &[]),                                                   // PPC_GET_DEXCR
        command(73, &[]),                                                   // PPC_SET_DEXCR
        command(74, &[out(1, Fixed(8))]),                                   // GET_SHADOW_STACK_STATUS
        command(75, &[]),                                                   // SET_SHADOW_STACK_STATUS
        command(76, &[]),                                                   // LOCK_SHADOW_STACK_STATUS
        command(77, &[]),                                                   // TIMER_CREATE_RESTORE_IDS
        command(78, &[]),                                                   // FUTEX_HASH
        command(0x4155_5856, &[out(1, Ret(2))]),                            // GET_AUXV
        command(0x5356_4d41, &[input(4, CString(80))]),                     // SET_VMA: names a range
        command(0x5961_6d61, &[]),                                          // SET_PTRACER
    ],
    otherwise: Otherwise::Unknown,
}
.checked();
