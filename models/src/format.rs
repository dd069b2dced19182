//! In the place of the crate's `format`: what the protocol names of it.

pub(crate) mod manifest {
    /// A live segment.
    #[derive(Clone, Debug)]
    pub(crate) struct Listed {
        pub base: u64,
    }

    /// The manifest.
    #[derive(Clone, Debug)]
    pub(crate) struct Manifest {
        pub store: [u8; 16],
        pub generation: u64,
        pub epoch: u64,
        pub next_number: u64,
        pub segments: Vec<Listed>,
    }
}

pub(crate) mod names {
    pub(crate) const TAIL: &str = "tail";
}
