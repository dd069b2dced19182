//! Telling local file systems from all others.
//!
//! Sharing a directory needs locks that work and mappings that all processes see; local file systems
//! have them, and what a network one does depends on its server and its mount. So the known local
//! ones are listed, and everything else is another one.

use std::io;
use std::path::Path;

use super::Medium;

/// The numbers by which Linux tells local file systems.
#[cfg(target_os = "linux")]
const LOCAL: [u64; 11] = [
    0xef53,      // ext2, ext3, ext4
    0x5846_5342, // xfs
    0x9123_683e, // btrfs
    0x2fc1_2fc1, // zfs
    0xf2f5_2010, // f2fs
    0x0102_1994, // tmpfs
    0x8584_58f6, // ramfs
    0x794c_7630, // overlay
    0x7371_7368, // squashfs
    0xe0f5_e1e2, // erofs
    0xca45_1a4e, // bcachefs
];

/// What kind of file system a path is on.
#[cfg(target_os = "linux")]
pub(super) fn of(path: &Path) -> io::Result<Medium> {
    let kind = rustix::fs::statfs(path)?.f_type as u64 & 0xffff_ffff;
    Ok(if LOCAL.contains(&kind) { Medium::Local } else { Medium::Other(name(kind)) })
}

/// The names of those that are met most, and else the number.
#[cfg(target_os = "linux")]
fn name(kind: u64) -> String {
    match kind {
        0x6969 => "NFS".to_owned(),
        0xff53_4d42 | 0xfe53_4d42 | 0x517b => "SMB".to_owned(),
        0x0102_1997 => "9p".to_owned(),
        0x6573_5546 => "FUSE".to_owned(),
        0x5346_414f => "AFS".to_owned(),
        0x00c3_6400 => "Ceph".to_owned(),
        other => format!("type {other:#x}"),
    }
}

/// What kind of file system a path is on.
#[cfg(target_os = "macos")]
pub(super) fn of(path: &Path) -> io::Result<Medium> {
    let name: String =
        rustix::fs::statfs(path)?.f_fstypename.iter().take_while(|&&byte| byte != 0).map(|&byte| char::from(byte as u8)).collect();
    Ok(if matches!(name.as_str(), "apfs" | "hfs" | "tmpfs") { Medium::Local } else { Medium::Other(name) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_directory_is_local_and_the_system_s_own_are_not() {
        let scratch = tempfile::tempdir().unwrap();
        assert_eq!(of(scratch.path()).unwrap(), Medium::Local);
        #[cfg(target_os = "linux")]
        assert!(matches!(of(Path::new("/proc")).unwrap(), Medium::Other(name) if name.starts_with("type 0x")));
        assert!(of(&scratch.path().join("absent")).is_err());
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn the_usual_network_systems_have_names() {
        assert_eq!(name(0x6969), "NFS");
        assert_eq!(name(0xff53_4d42), "SMB");
    }
}
