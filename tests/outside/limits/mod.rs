//! Disks without room, processes that may do little, users without rights: a typed error, never damage; and with
//! the limit gone all goes on.

mod aborted;
mod full;
mod process;
mod rights;
