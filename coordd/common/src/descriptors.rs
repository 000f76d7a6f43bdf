//! Keeps what a process was started with from its children (rel-35).
//!
//! Everything that a program of ours opens itself is closed on exec. What it inherited, from a shell or a build tool, may not
//! build tool, may not be, and would stay open in every agent process and its tools.

use std::os::fd::BorrowedFd;

use rustix::io::{FdFlags, fcntl_setfd};

/// The first descriptor that is not standard input, output or error.
const FIRST: i32 = 3;

/// Marks every descriptor but the standard three as closed on exec. False where `/proc` is not there to name them.
#[expect(unsafe_code, reason = "a number becomes a descriptor by an unsafe call alone")]
pub fn keep_from_children() -> bool {
    let Ok(entries) = std::fs::read_dir("/proc/self/fd") else { return false };
    let numbers = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<i32>().ok());
    for number in numbers.filter(|number| *number >= FIRST) {
        // SAFETY: the number was just read from the table of open files. It is used for nothing but
        // setting a flag, which is right for every descriptor here, also if another thread closed
        // it and opened something else meanwhile.
        let fd = unsafe { BorrowedFd::borrow_raw(number) };
        // Closed meanwhile: then there is nothing to keep.
        let _closed = fcntl_setfd(fd, FdFlags::CLOEXEC);
    }
    true
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd as _;

    use rustix::io::fcntl_getfd;

    use super::*;

    #[test]
    fn rel35_an_inherited_descriptor_is_closed_on_exec() {
        let file = std::fs::File::open("/dev/null").unwrap();
        fcntl_setfd(&file, FdFlags::empty()).unwrap();
        assert!(file.as_raw_fd() >= FIRST);
        assert!(keep_from_children());
        assert_eq!(fcntl_getfd(&file).unwrap(), FdFlags::CLOEXEC);
    }
}
