//! The disk on a socket, by the NBD protocol (fixed newstyle): as much of it as nbdfuse asks for.

use std::io::{self, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::{Arc, Mutex};

use super::disk::Disk;

const OPTION_REPLY: u64 = 0x0003_e889_0455_65a9;
const REQUEST: u32 = 0x2560_9513;
const REPLY: u32 = 0x6744_6698;
/// Has flags, takes flushes.
const FLAGS: u16 = 1 | 4;
const UNSUPPORTED: u32 = 0x8000_0001;
const EINVAL: u32 = 22;

/// Serves whoever connects to the socket, until the process ends.
pub fn serve(disk: Arc<Mutex<Disk>>, socket: &Path) {
    let listener = UnixListener::bind(socket).unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let disk = disk.clone();
            // Who is there no more is no matter.
            std::thread::spawn(move || drop(talk(&disk, stream.unwrap())));
        }
    });
}

fn number<const N: usize>(stream: &mut UnixStream) -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    stream.read_exact(&mut bytes)?;
    Ok(bytes)
}

fn bytes(stream: &mut UnixStream, length: u32) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; length as usize];
    stream.read_exact(&mut bytes)?;
    Ok(bytes)
}

fn talk(disk: &Mutex<Disk>, mut stream: UnixStream) -> io::Result<()> {
    stream.write_all(b"NBDMAGICIHAVEOPT\0\x03")?;
    number::<4>(&mut stream)?;
    let length = disk.lock().unwrap().length;
    loop {
        number::<8>(&mut stream)?;
        let option = u32::from_be_bytes(number(&mut stream)?);
        let data_length = u32::from_be_bytes(number(&mut stream)?);
        bytes(&mut stream, data_length)?;
        let mut reply = |kind: u32, data: &[u8]| {
            let head =
                [&OPTION_REPLY.to_be_bytes()[..], &option.to_be_bytes(), &kind.to_be_bytes(), &(data.len() as u32).to_be_bytes()].concat();
            stream.write_all(&[&head, data].concat())
        };
        match option {
            // Tell of the export (6), and go on with it (7).
            6 | 7 => {
                reply(3, &[&[0, 0][..], &length.to_be_bytes(), &FLAGS.to_be_bytes()].concat())?;
                reply(1, &[])?;
                if option == 7 {
                    break;
                }
            }
            _ => reply(UNSUPPORTED, &[])?,
        }
    }
    while u32::from_be_bytes(number(&mut stream)?) == REQUEST {
        number::<2>(&mut stream)?;
        let kind = u16::from_be_bytes(number(&mut stream)?);
        let cookie = number::<8>(&mut stream)?;
        let offset = u64::from_be_bytes(number(&mut stream)?);
        let length = u32::from_be_bytes(number(&mut stream)?);
        let mut data = Vec::new();
        let done = match kind {
            0 => {
                data = vec![0; length as usize];
                disk.lock().unwrap().read(offset, &mut data)
            }
            1 => {
                let written = bytes(&mut stream, length)?;
                disk.lock().unwrap().write(offset, &written)
            }
            2 => return Ok(()),
            3 => disk.lock().unwrap().flush(),
            _ => Err(EINVAL),
        };
        let error = done.err().unwrap_or(0);
        if error != 0 {
            data.clear();
        }
        stream.write_all(&[&REPLY.to_be_bytes()[..], &error.to_be_bytes(), &cookie, &data].concat())?;
    }
    Ok(())
}
