//! A file system on such a disk: nbdfuse makes a file of it, a loop device a disk of the file.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use super::disk::Disk;
use super::server::serve;

pub struct Rig {
    disk: Arc<Mutex<Disk>>,
    home: PathBuf,
    nbdfuse: Child,
}

impl Rig {
    /// Mounts it below `home`, which is made.
    pub fn new(disk: Disk, home: &Path) -> Rig {
        let (file, mounted) = (home.join("file"), home.join("mounted"));
        [home, &file, &mounted].iter().for_each(|dir| std::fs::create_dir(dir).unwrap());
        let disk = Arc::new(Mutex::new(disk));
        let socket = home.join("socket");
        serve(disk.clone(), &socket);
        let mut command = Command::new("nbdfuse");
        command.arg(&file).arg("--unix").arg(&socket).stdout(Stdio::null()).stderr(Stdio::null());
        let nbdfuse = command.spawn().unwrap();
        let rig = Rig { disk, home: home.to_owned(), nbdfuse };
        let begun = Instant::now();
        while !file.join("nbd").exists() {
            assert!(begun.elapsed() < Duration::from_secs(20), "nbdfuse does not begin");
            std::thread::sleep(Duration::from_millis(5));
        }
        rig.mount().unwrap();
        rig
    }

    pub fn disk(&self) -> MutexGuard<'_, Disk> {
        self.disk.lock().unwrap()
    }

    /// Where the store is.
    pub fn dir(&self) -> PathBuf {
        self.home.join("mounted/store")
    }

    fn mount(&self) -> Result<(), String> {
        run(Command::new("mount").args(["-o", "loop"]).arg(self.home.join("file/nbd")).arg(self.home.join("mounted")))
    }

    /// Takes the file system away, and with it all that the system has in memory of it.
    pub fn unmount(&self) {
        run(Command::new("umount").arg(self.home.join("mounted"))).unwrap();
    }

    /// Has the system forget what it read of the disk.
    pub fn drop_cache(&self) {
        let file = std::fs::File::open(self.home.join("file/nbd")).unwrap();
        rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
    }

    /// The power goes and comes back: only what the disk holds is left. An error is the file system's own.
    pub fn cut(&self) -> Result<(), String> {
        self.unmount();
        self.disk().cut();
        self.drop_cache();
        self.mount()
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        for part in ["mounted", "file"] {
            let _ = run(Command::new("umount").arg("-l").arg(self.home.join(part)));
        }
        let _ = self.nbdfuse.kill();
        let _ = self.nbdfuse.wait();
    }
}

pub fn run(command: &mut Command) -> Result<(), String> {
    let ran = command.output().unwrap();
    if ran.status.success() { Ok(()) } else { Err(format!("{command:?}: {}", String::from_utf8_lossy(&ran.stderr))) }
}
