//! The few calls of the system that the tests need and the standard library does not have.
#![allow(unsafe_code)]

use std::time::Duration;

/// Sends a signal to a child that has not been waited for.
pub fn signal(process: u32, signal: libc::c_int) {
    // SAFETY: the call touches no memory. The id is a child's of ours and still its own, because
    // nobody has waited for it.
    let answer = unsafe { libc::kill(process as libc::pid_t, signal) };
    assert_eq!(answer, 0, "kill: {}", std::io::Error::last_os_error());
}

/// Stops a child and returns when it has stopped.
pub fn stop(process: u32) {
    signal(process, libc::SIGSTOP);
    let mut status = 0;
    // SAFETY: the call writes the status, which outlives it.
    let answer = unsafe { libc::waitpid(process as libc::pid_t, &raw mut status, libc::WUNTRACED) };
    assert_eq!(answer, process as libc::pid_t, "waitpid: {}", std::io::Error::last_os_error());
    assert!(libc::WIFSTOPPED(status), "the process ended instead of stopping");
}

/// The monotonic clock, which is one for all processes of the machine.
pub fn now() -> Duration {
    clock(libc::CLOCK_MONOTONIC)
}

/// How long processors have worked for this process.
pub fn cpu_time() -> Duration {
    clock(libc::CLOCK_PROCESS_CPUTIME_ID)
}

fn clock(clock: libc::clockid_t) -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call writes the time, which outlives it.
    let answer = unsafe { libc::clock_gettime(clock, &raw mut time) };
    assert_eq!(answer, 0, "clock_gettime: {}", std::io::Error::last_os_error());
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Ends this process as kill -9 does.
pub fn end_at_once() {
    // SAFETY: the call touches no memory.
    unsafe { libc::kill(libc::getpid(), libc::SIGKILL) };
}

/// The same by itself in so many microseconds, whatever the process does then.
#[cfg(target_os = "linux")]
pub fn end_at_once_in(micros: u64) {
    // SAFETY: zeros are a valid event and a valid time.
    let (mut event, mut time): (libc::sigevent, libc::itimerspec) = unsafe { std::mem::zeroed() };
    event.sigev_notify = libc::SIGEV_SIGNAL;
    event.sigev_signo = libc::SIGKILL;
    time.it_value.tv_sec = (micros / 1_000_000) as libc::time_t;
    time.it_value.tv_nsec = (micros % 1_000_000 * 1_000) as libc::c_long;
    let mut timer = std::ptr::null_mut();
    // SAFETY: the calls read and write what outlives them.
    let answers = unsafe {
        [
            libc::timer_create(libc::CLOCK_MONOTONIC, &raw mut event, &raw mut timer),
            libc::timer_settime(timer, 0, &raw const time, std::ptr::null_mut()),
        ]
    };
    assert_eq!(answers, [0, 0], "timer: {}", std::io::Error::last_os_error());
}

/// The same where there are no such timers.
#[cfg(not(target_os = "linux"))]
pub fn end_at_once_in(micros: u64) {
    std::thread::spawn(move || {
        std::thread::sleep(Duration::from_micros(micros));
        end_at_once();
    });
}

/// Ends this process in so many seconds, unless it is called again before.
pub fn end_in(seconds: u32) {
    // SAFETY: the call touches no memory; nobody here handles the signal, so it ends the process.
    unsafe { libc::alarm(seconds) };
}

/// Ends this process, also while it is stopped, with the worker that started it.
pub fn end_with_parent() {
    #[cfg(target_os = "linux")]
    // SAFETY: the call touches no memory.
    unsafe {
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
    }
}
