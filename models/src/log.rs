//! The crate's own file with the protocol on the page's words, and what it names beside the page:
//! a directory, which no model has.

pub(crate) mod directory {
    use std::io;
    use std::path::{Path, PathBuf};

    use crate::error::Result;
    use crate::fs::page::SharedPage;

    /// There is none.
    pub(crate) enum Fs {}

    impl Fs {
        pub fn map_page(&self, _: &Path, _: bool) -> io::Result<SharedPage> {
            match *self {}
        }
    }

    pub(crate) struct Directory {
        pub fs: Fs,
    }

    /// Nor a file in it.
    pub(crate) enum File {}

    impl File {
        pub fn write_at(&self, _: &[&[u8]], _: u64) -> io::Result<()> {
            match *self {}
        }

        pub fn sync(&self) -> io::Result<()> {
            match *self {}
        }
    }

    impl Directory {
        pub fn file(&self, _: &str) -> PathBuf {
            match self.fs {}
        }

        pub fn read(&self, _: &str, _: u64) -> Result<Vec<u8>> {
            match self.fs {}
        }

        pub fn create_file(&self, _: &str) -> Result<File> {
            match self.fs {}
        }

        pub fn sync(&self) -> Result<()> {
            match self.fs {}
        }
    }
}

#[path = "../../src/log/tail.rs"]
pub(crate) mod tail;
