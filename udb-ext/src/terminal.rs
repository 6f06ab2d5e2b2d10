//! The server's place among the terminal's processes.

/// Leaves the terminal's foreground group: a Ctrl-C typed there is gdb's to handle, and arrives here over the protocol.
pub fn leave_terminal() {
    // Fails only for a process that leads a group already, and such a one is not in gdb's.
    let _ = nix::unistd::setsid();
}
